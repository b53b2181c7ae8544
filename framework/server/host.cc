#include "framework/server/host.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "framework/base/digest.h"
#include "framework/base/file.h"
#include "framework/base/text.h"
#include "framework/server/gpus.h"
#include "framework/server/host_text.h"

namespace upgrade_gate::server {
namespace {

namespace fs = std::filesystem;
using evidence::Fact;
using evidence::FactState;

constexpr std::uint64_t kFileCap = std::uint64_t{4} << 20;

Fact Known(std::string name, std::string_view value, std::string source) {
  return {std::move(name), FactState::kPresent, base::Shorten(base::Visible(Trimmed(value)), 1000),
          std::move(source), true};
}
Fact Unknown(std::string name, std::string why) {
  return {std::move(name), FactState::kUnknown, "", base::Visible(why), true};
}
Fact Absent(std::string name, std::string why) {
  return {std::move(name), FactState::kAbsent, "", std::move(why), true};
}

Fact OfFile(const HostReader& reader, const std::string& name, const char* path) {
  const auto text = base::ReadFile(reader.root / path, kFileCap);
  if (!text) return Unknown(name, text.error().message);
  if (Trimmed(*text).empty()) return Unknown(name, fmt::format("/{} is empty", path));
  return Known(name, *text, fmt::format("/{}", path));
}

void AddCpu(const HostReader& reader, std::vector<Fact>& facts) {
  const auto text = base::ReadFile(reader.root / "proc/cpuinfo", kFileCap);
  if (!text) {
    for (const char* name : {"cpu_model", "cpus"}) {
      facts.push_back(Unknown(name, text.error().message));
    }
    return;
  }
  const std::string model = FirstValue(*text, "model name");
  facts.push_back(model.empty() ? Unknown("cpu_model", "/proc/cpuinfo names none")
                                : Known("cpu_model", model, "/proc/cpuinfo"));
  const auto lines = Lines(*text);
  const auto cpus = std::count_if(lines.begin(), lines.end(), [](const std::string& line) {
    return line.starts_with("processor");
  });
  facts.push_back(Known("cpus", std::to_string(cpus), "/proc/cpuinfo"));
}

void AddMemory(const HostReader& reader, std::vector<Fact>& facts) {
  const auto text = base::ReadFile(reader.root / "proc/meminfo", kFileCap);
  for (const auto& [name, key] :
       {std::pair("memory_mib", "MemTotal"), std::pair("memory_available_mib", "MemAvailable")}) {
    const std::string value = text ? FirstValue(*text, key) : "";
    const auto kib = Number<std::int64_t>(value.substr(0, value.find(' ')));
    facts.push_back(kib ? Known(name, std::to_string(*kib / 1024), "/proc/meminfo")
                        : Unknown(name, "/proc/meminfo does not say " + std::string(key)));
    facts.back().compared = std::string_view(name) == "memory_mib";
  }
}

void AddGovernor(const HostReader& reader, std::vector<Fact>& facts) {
  const fs::path cpus = reader.root / "sys/devices/system/cpu";
  std::error_code error;
  std::set<std::string> governors;
  for (fs::directory_iterator it(cpus, error); !error && it != fs::directory_iterator();
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (!name.starts_with("cpu") || !Number<int>(std::string_view(name).substr(3))) continue;
    if (const auto text = base::ReadFile(it->path() / "cpufreq/scaling_governor", 4096)) {
      governors.emplace(Trimmed(*text));
    }
  }
  constexpr const char* kName = "cpu_governor";
  if (error) {
    facts.push_back(Unknown(kName, "/sys/devices/system/cpu: " + error.message()));
  } else if (governors.empty()) {
    facts.push_back(Absent(kName, "no CPU has a cpufreq folder"));
  } else {
    facts.push_back(Known(kName, base::JoinList({governors.begin(), governors.end()}),
                          "/sys/devices/system/cpu/*/cpufreq/scaling_governor"));
  }
}

}  // namespace

std::vector<Fact> ReadHostFacts(const HostReader& reader) {
  std::vector<Fact> facts;
  // The id itself is nobody's business; two machines differ in its digest as well.
  Fact machine = OfFile(reader, "machine", "etc/machine-id");
  if (machine.state == FactState::kPresent)
    machine.value = base::Sha256Of(machine.value).substr(0, 16);
  facts.push_back(std::move(machine));
  AddCpu(reader, facts);
  AddMemory(reader, facts);
  AddGovernor(reader, facts);
  facts.push_back(OfFile(reader, "kernel", "proc/sys/kernel/osrelease"));
  facts.push_back(OfFile(reader, "clock_source",
                         "sys/devices/system/clocksource/clocksource0/current_clocksource"));
  for (Fact& fact : GpuFacts(reader)) facts.push_back(std::move(fact));
  std::sort(facts.begin(), facts.end(),
            [](const Fact& a, const Fact& b) { return a.name < b.name; });
  return facts;
}

std::optional<std::chrono::microseconds> CpuPressure(const HostReader& reader) {
  constexpr std::uint64_t kCap = 4096;
  const auto text = base::ReadFile(reader.root / "proc/pressure/cpu", kCap);
  if (!text || !text->starts_with("some ")) return std::nullopt;
  constexpr std::string_view kTotal = " total=";
  const std::size_t at = text->find(kTotal);
  if (at == text->npos) return std::nullopt;
  std::int64_t total = 0;
  const char* const begin = text->data() + at + kTotal.size();
  const auto end = std::from_chars(begin, text->data() + text->size(), total);
  if (end.ptr == begin || end.ec != std::errc() || total < 0) return std::nullopt;
  return std::chrono::microseconds(total);
}

}  // namespace upgrade_gate::server
