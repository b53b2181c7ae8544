// The distributions of Boost.Math behind plain functions, private to this
// folder. None throws; arguments out of range give a value that is not finite.
#pragma once

#include <cstddef>
#include <functional>

namespace upgrade_gate::stats {

double NormalCdf(double x);
double NormalQuantile(double probability);
double StudentQuantile(double probability, double degrees_of_freedom);
double BetaQuantile(double probability, double a, double b);
// P(X <= k) for X ~ Binomial(n, p).
double BinomialCdf(std::size_t k, std::size_t n, double p);

// E f(x) for x = sqrt(chi-squared(df) / df): the sd seen, as a share of the true one.
double ExpectationOverSd(double degrees_of_freedom, const std::function<double(double)>& f);
// E f(r) for r ~ Beta(a, a).
double ExpectationOverBeta(double a, const std::function<double(double)>& f);

}  // namespace upgrade_gate::stats
