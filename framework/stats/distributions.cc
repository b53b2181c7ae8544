#include "framework/stats/distributions.h"

#include <boost/math/distributions/beta.hpp>
#include <boost/math/distributions/binomial.hpp>
#include <boost/math/distributions/chi_squared.hpp>
#include <boost/math/distributions/normal.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <boost/math/quadrature/gauss.hpp>

namespace upgrade_gate::stats {
namespace {

namespace bm = boost::math;
namespace bp = boost::math::policies;

using NoThrow =
    bp::policy<bp::domain_error<bp::ignore_error>, bp::pole_error<bp::ignore_error>,
               bp::overflow_error<bp::ignore_error>, bp::evaluation_error<bp::ignore_error>,
               bp::rounding_error<bp::ignore_error>,
               bp::indeterminate_result_error<bp::ignore_error>>;

// The mean of g over (0, 1), in panels that narrow towards both ends, where
// quantile functions bend most.
double MeanOverUnit(const std::function<double(double)>& g) {
  using Rule = bm::quadrature::gauss<double, 15>;
  constexpr double kEdges[] = {0.0, 1e-6, 1e-4, 1e-2, 0.1, 0.5, 0.9, 0.99, 0.9999, 0.999999, 1.0};
  double sum = 0.0;
  for (std::size_t i = 1; i < std::size(kEdges); ++i) {
    sum += Rule::integrate(g, kEdges[i - 1], kEdges[i]);
  }
  return sum;
}

}  // namespace

double NormalCdf(double x) {
  return bm::cdf(bm::normal_distribution<double, NoThrow>(), x);
}

double NormalQuantile(double probability) {
  return bm::quantile(bm::normal_distribution<double, NoThrow>(), probability);
}

double StudentQuantile(double probability, double degrees_of_freedom) {
  return bm::quantile(bm::students_t_distribution<double, NoThrow>(degrees_of_freedom),
                      probability);
}

double BetaQuantile(double probability, double a, double b) {
  return bm::quantile(bm::beta_distribution<double, NoThrow>(a, b), probability);
}

double BinomialCdf(std::size_t k, std::size_t n, double p) {
  if (k >= n) return 1.0;
  return bm::cdf(bm::binomial_distribution<double, NoThrow>(static_cast<double>(n), p),
                 static_cast<double>(k));
}

double ExpectationOverSd(double degrees_of_freedom, const std::function<double(double)>& f) {
  const bm::chi_squared_distribution<double, NoThrow> chi_squared(degrees_of_freedom);
  return MeanOverUnit(
      [&](double u) { return f(std::sqrt(bm::quantile(chi_squared, u) / degrees_of_freedom)); });
}

double ExpectationOverBeta(double a, const std::function<double(double)>& f) {
  const bm::beta_distribution<double, NoThrow> beta(a, a);
  return MeanOverUnit([&](double u) { return f(bm::quantile(beta, u)); });
}

}  // namespace upgrade_gate::stats
