#include "framework/server/amd_gpu_metrics.h"

#include <cstddef>
#include <limits>
#include <utility>

namespace upgrade_gate::server {
namespace {

constexpr const char* kProchot = "PROCHOT";
constexpr const char* kSocketHot = "thermal slowdown of the package";
constexpr const char* kRegulatorHot = "thermal slowdown of a voltage regulator";
constexpr const char* kMemoryHot = "thermal slowdown of the memory";

std::uint64_t LittleEndian(std::string_view bytes, std::size_t at, std::size_t size) {
  std::uint64_t value = 0;
  for (std::size_t i = size; i > 0; --i) {
    value = value << 8 | static_cast<unsigned char>(bytes[at + i - 1]);
  }
  return value;
}

bool AllOnes(std::uint64_t value, std::size_t size) {
  return value == std::numeric_limits<std::uint64_t>::max() >> (64 - 8 * size);
}

// 1.3: the mask at 112. Bits 0-31 are limits of power and current, 32-45 heat, 46 and 47
// what the board tells the chip from outside.
void ReadStatus(std::string_view table, AmdThrottling& throttling) {
  constexpr std::size_t kAt = 112;
  if (table.size() < kAt + 8) return;
  const std::uint64_t status = LittleEndian(table, kAt, 8);
  if (AllOnes(status, 8)) return;
  constexpr std::uint64_t kHeat = 0x00003fff00000000;
  constexpr std::uint64_t kBoard = 0x0000c00000000000;
  if ((status & kHeat) != 0) throttling.now.emplace_back("thermal slowdown");
  if ((status & kBoard) != 0) throttling.now.emplace_back(kProchot);
}

// 1.6 to 1.8: six counters of 32 bits from `at`: cycles, PROCHOT, power, package, voltage
// regulators, memory.
void ReadCounters(std::string_view table, std::size_t at, AmdThrottling& throttling) {
  // A draft of 1.6 had other offsets and was shorter.
  constexpr std::size_t kSmallest = 1600;
  if (table.size() < kSmallest) return;
  const std::uint64_t cycles = LittleEndian(table, at, 4);
  if (AllOnes(cycles, 4)) return;
  throttling.cycles = cycles;
  constexpr std::pair<std::size_t, const char*> kReasons[] = {
      {1, kProchot}, {3, kSocketHot}, {4, kRegulatorHot}, {5, kMemoryHot}};
  for (const auto& [index, reason] : kReasons) {
    const std::uint64_t count = LittleEndian(table, at + 4 * index, 4);
    if (!AllOnes(count, 4)) throttling.residency.emplace(reason, count);
  }
}

// 1.9: a count, then attributes: 64 bits that say unit, type, id and number of values,
// then the values, all without padding.
void ReadAttributes(std::string_view table, AmdThrottling& throttling) {
  if (table.size() < 8) return;
  const std::uint64_t count = LittleEndian(table, 4, 4);
  std::size_t at = 8;
  AmdThrottling found;
  for (std::uint64_t i = 0; i < count; ++i) {
    if (table.size() - at < 8) return;
    const std::uint64_t encoding = LittleEndian(table, at, 8);
    at += 8;
    const std::uint64_t type = encoding >> 20 & 0xf;
    const std::uint64_t values = encoding & 0x3ff;
    if (type > 7) return;  // another version of the encoding: nothing in it is certain
    const std::size_t size = std::size_t{1} << (type / 2);
    if (table.size() - at < size * values) return;
    const std::uint64_t value = values == 1 ? LittleEndian(table, at, size) : 0;
    const bool told = values == 1 && !AllOnes(value, size);
    at += size * values;
    if (!told) continue;
    switch (encoding >> 10 & 0x3ff) {
      case 9:
        found.cycles = value;
        break;
      case 10:
        found.residency.emplace(kProchot, value);
        break;
      case 12:
        found.residency.emplace(kSocketHot, value);
        break;
      case 13:
        found.residency.emplace(kRegulatorHot, value);
        break;
      case 14:
        found.residency.emplace(kMemoryHot, value);
        break;
      default:
        break;
    }
  }
  throttling = std::move(found);
}

}  // namespace

AmdThrottling ParseAmdGpuMetrics(std::string_view table) {
  AmdThrottling throttling;
  if (table.size() < 4) return throttling;
  const std::uint64_t size = LittleEndian(table, 0, 2);
  if (size < 4 || size > table.size()) return throttling;
  table = table.substr(0, size);
  if (table[2] != 1) return throttling;
  switch (table[3]) {
    case 3:
      ReadStatus(table, throttling);
      break;
    case 6:
      ReadCounters(table, 32, throttling);
      break;
    case 7:
    case 8:
      ReadCounters(table, 40, throttling);
      break;
    case 9:
      ReadAttributes(table, throttling);
      break;
    default:
      break;
  }
  return throttling;
}

}  // namespace upgrade_gate::server
