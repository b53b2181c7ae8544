#include "framework/base/random.h"

#include <bit>
#include <cmath>

#include "framework/base/digest.h"
#include "framework/base/result.h"

namespace upgrade_gate::base {
namespace {

std::uint64_t SplitMix64(std::uint64_t& state) {
  state += 0x9e3779b97f4a7c15ULL;
  std::uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

// 64 bits of the purpose's SHA-256: no two purposes meet by chance.
std::uint64_t HashOf(std::string_view purpose) {
  const Sha256Hex hex = Sha256Of(purpose);
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < 16; ++i) {
    const char c = hex[i];
    value = value << 4 | static_cast<std::uint64_t>(c <= '9' ? c - '0' : c - 'a' + 10);
  }
  return value;
}

__extension__ using Wide = unsigned __int128;

constexpr int kFractionBits = 40;

// log2 of `value` >= 1 in units of 2^-40: the mantissa squared again and again
// gives one binary digit a time.
std::uint64_t Log2(std::uint64_t value) {
  const int whole = 63 - std::countl_zero(value);
  std::uint64_t mantissa = value << (63 - whole);  // 2^63 stands for 1
  auto digits = static_cast<std::uint64_t>(whole);
  for (int i = 0; i < kFractionBits; ++i) {
    const Wide square = static_cast<Wide>(mantissa) * mantissa;
    const bool two_or_more = (square >> 127) != 0;
    mantissa = static_cast<std::uint64_t>(square >> (two_or_more ? 64 : 63));
    digits = digits << 1 | static_cast<std::uint64_t>(two_or_more);
  }
  return digits;
}

}  // namespace

Random::Random(std::uint64_t seed) {
  for (auto& word : state_) word = SplitMix64(seed);
}

Random::Random(std::uint64_t seed, std::string_view purpose)
    : Random(std::rotl(seed, 32) ^ HashOf(purpose)) {}

std::uint64_t Random::Next() {
  const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
  const std::uint64_t t = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= t;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

std::uint64_t Random::Below(std::uint64_t bound) {
  UG_CHECK(bound >= 1);
  // Draws below 2^64 mod bound are thrown away, so that the rest divides evenly.
  const std::uint64_t unfair = (0 - bound) % bound;
  for (;;) {
    const std::uint64_t draw = Next();
    if (draw >= unfair) return draw % bound;
  }
}

double Random::Unit() {
  return static_cast<double>(Next() >> 11) * 0x1.0p-53;
}

double Random::Exponential() {
  constexpr std::uint64_t kBits = 53;
  constexpr std::uint64_t kLn2 = 0xb17217f7d1cf79abULL;  // in units of 2^-64
  const std::uint64_t uniform = (Next() >> 11) + 1;      // 1 … 2^53 stands for (0, 1]
  const std::uint64_t minus_log2 = (kBits << kFractionBits) - Log2(uniform);
  const auto value = static_cast<std::uint64_t>(static_cast<Wide>(minus_log2) * kLn2 >> 64);
  return static_cast<double>(value) * 0x1.0p-40;
}

double Random::Normal() {
  for (;;) {
    const double u = 2 * Unit() - 1;
    const double v = 2 * Unit() - 1;
    const double s = u * u + v * v;
    if (s > 0 && s < 1) return u * std::sqrt(-2 * std::log(s) / s);
  }
}

}  // namespace upgrade_gate::base
