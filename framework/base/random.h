// Random numbers that are the same on every compiler and standard library.
//
// std engines are portable but std distributions are not, so both are written
// here: xoshiro256** (Blackman and Vigna, 2018) seeded by SplitMix64.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace upgrade_gate::base {

class Random {
 public:
  explicit Random(std::uint64_t seed);
  // A stream of its own for each (seed, purpose), so that adding a draw in one
  // place never shifts the numbers of another.
  Random(std::uint64_t seed, std::string_view purpose);

  std::uint64_t Next();
  // Uniform on [0, bound), without modulo bias; bound >= 1.
  std::uint64_t Below(std::uint64_t bound);
  // Uniform on [0, 1) with 53 bits.
  double Unit();
  // Standard normal, by Marsaglia's polar method.
  double Normal();
  // Exponential of mean 1, by inversion. The logarithm is taken in integers, so
  // that no mathematical library has a say: equal bits everywhere.
  double Exponential();

 private:
  std::array<std::uint64_t, 4> state_{};
};

}  // namespace upgrade_gate::base
