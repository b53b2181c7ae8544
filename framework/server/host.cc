#include "framework/server/host.h"

#include <fmt/format.h>
#include <system_error>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "framework/base/digest.h"
#include "framework/base/file.h"
#include "framework/base/json.h"
#include "framework/base/text.h"

namespace upgrade_gate::server {
namespace {

namespace fs = std::filesystem;
using evidence::Fact;
using evidence::FactState;

constexpr std::uint64_t kFileCap = std::uint64_t{4} << 20;
constexpr std::chrono::seconds kCommandLimit{20};
constexpr std::chrono::seconds kReturnLimit{30};  // what an ended server gets to free its GPUs
constexpr std::int64_t kIdleMib = 1024;           // what a driver keeps for itself
// Faults after which a GPU needs a reset or a reboot.
constexpr int kFatalXids[] = {48, 62, 74, 79, 95, 119, 120};
// Bits of clocks_throttle_reasons.active that slow down what the plan measures.
constexpr std::pair<std::uint64_t, std::string_view> kSlowdowns[] = {
    {0x8, "hardware slowdown"},
    {0x20, "thermal slowdown by software"},
    {0x40, "thermal slowdown by hardware"},
    {0x80, "power brake"}};

std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const std::size_t start = text.find_first_not_of(kSpace);
  if (start == text.npos) return {};
  return text.substr(start, text.find_last_not_of(kSpace) - start + 1);
}

std::vector<std::string> Split(std::string_view text, char by) {
  std::vector<std::string> parts;
  while (true) {
    const std::size_t end = text.find(by);
    parts.emplace_back(Trimmed(text.substr(0, end)));
    if (end == text.npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::vector<std::string> Lines(std::string_view text) {
  std::vector<std::string> lines = Split(text, '\n');
  std::erase(lines, "");
  return lines;
}

template <typename T>
std::optional<T> Number(std::string_view text, int base = 10) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool Exists(const HostReader& reader, const char* path) {
  std::error_code error;
  return fs::exists(reader.root / path, error);
}

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

// The value of "key : value" lines; empty: there is none.
std::string FirstValue(std::string_view text, std::string_view key) {
  for (const std::string& line : Lines(text)) {
    const std::size_t colon = line.find(':');
    if (colon != line.npos && Trimmed(std::string_view(line).substr(0, colon)) == key) {
      return std::string(Trimmed(std::string_view(line).substr(colon + 1)));
    }
  }
  return {};
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

constexpr const char* kNvidia = "proc/driver/nvidia/version";
constexpr const char* kAmd = "sys/class/kfd";

void AddNvidia(const HostReader& reader, std::vector<Fact>& facts) {
  const auto gpus = ReadGpus(reader, {});
  if (!gpus || gpus->empty()) {
    const std::string why = !gpus        ? gpus.error().message
                            : reader.run ? "nvidia-smi lists none"
                                         : "nvidia-smi was not asked";
    for (const char* name : {"gpu_driver", "gpus"}) facts.push_back(Unknown(name, why));
    return;
  }
  std::vector<std::string> names;
  for (const Gpu& gpu : *gpus)
    names.push_back(fmt::format("{} {} {}", gpu.index, gpu.name, gpu.uuid));
  facts.push_back(Known("gpu_driver", gpus->front().driver, "nvidia-smi"));
  facts.push_back(Known("gpus", base::JoinList(names), "nvidia-smi"));
}

void AddAmd(const HostReader& reader, std::vector<Fact>& facts) {
  const auto add_unknown = [&](const std::string& why) {
    for (const char* name : {"gpu_driver", "gpus"}) facts.push_back(Unknown(name, why));
  };
  if (!reader.run) return add_unknown("rocm-smi was not asked");
  const auto text = reader.run(
      {"rocm-smi", "--showproductname", "--showuniqueid", "--showdriverversion", "--json"},
      kCommandLimit);
  if (!text) return add_unknown(text.error().message);
  const auto json = base::ParseJson(*text);
  if (!json || !json->is_object()) return add_unknown("rocm-smi did not print a JSON object");
  std::vector<std::string> gpus;
  std::string driver;
  for (const auto& [name, card] : json->items()) {
    const auto text_of = [&](const char* key) {
      const auto value = base::StringMember(card, key);
      return value ? *value : std::string("?");
    };
    if (name == "system") {
      driver = text_of("Driver version");
    } else {
      gpus.push_back(fmt::format("{} {} {}", name, text_of("Card Series"), text_of("Unique ID")));
    }
  }
  std::sort(gpus.begin(), gpus.end());
  facts.push_back(driver.empty() ? Unknown("gpu_driver", "rocm-smi names none")
                                 : Known("gpu_driver", driver, "rocm-smi"));
  facts.push_back(gpus.empty() ? Unknown("gpus", "rocm-smi lists none")
                               : Known("gpus", base::JoinList(gpus), "rocm-smi"));
}

// What is still on the GPUs; empty: nothing.
std::string Left(const std::vector<Gpu>& gpus) {
  std::vector<std::string> left;
  for (const Gpu& gpu : gpus) {
    if (!gpu.processes.empty()) {
      left.push_back(fmt::format("GPU {}: process {}", gpu.index, base::JoinList(gpu.processes)));
    } else if (gpu.memory_used_mib > kIdleMib) {
      left.push_back(fmt::format("GPU {}: {} MiB in use by nobody that nvidia-smi can see",
                                 gpu.index, base::WithThousands(gpu.memory_used_mib)));
    }
  }
  return base::JoinList(left);
}

// The first line of the kernel's log with a fault that only a reset ends.
std::string FatalXid(std::string_view log) {
  for (const std::string& line : Lines(log)) {
    const std::size_t at = line.find("NVRM: Xid (");
    const std::size_t close = at == line.npos ? line.npos : line.find("): ", at);
    if (close == line.npos) continue;
    const std::string_view rest = std::string_view(line).substr(close + 3);
    const auto xid = Number<int>(rest.substr(0, rest.find_first_not_of("0123456789")));
    if (xid &&
        std::find(std::begin(kFatalXids), std::end(kFatalXids), *xid) != std::end(kFatalXids)) {
      return base::Shorten(base::Visible(line), 200);
    }
  }
  return {};
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
  if (Exists(reader, kNvidia)) {
    AddNvidia(reader, facts);
  } else if (Exists(reader, kAmd)) {
    AddAmd(reader, facts);
  } else {
    for (const char* name : {"gpu_driver", "gpus"}) {
      facts.push_back(Absent(name, "neither /proc/driver/nvidia nor /sys/class/kfd is there"));
    }
  }
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

base::Result<std::vector<Gpu>> ReadGpus(const HostReader& reader,
                                        const std::vector<std::string>& only) {
  std::vector<Gpu> gpus;
  if (!reader.run || !Exists(reader, kNvidia)) return gpus;
  UG_ASSIGN(const std::string list,
            reader.run({"nvidia-smi",
                        "--query-gpu=index,uuid,name,driver_version,memory.used,"
                        "ecc.errors.uncorrected.volatile.total,clocks_throttle_reasons.active",
                        "--format=csv,noheader,nounits"},
                       kCommandLimit));
  for (const std::string& line : Lines(list)) {
    const auto fields = Split(line, ',');
    const auto memory = fields.size() == 7 ? Number<std::int64_t>(fields[4]) : std::nullopt;
    if (!memory) {
      return base::InfrastructureError(fmt::format("nvidia-smi: cannot read its line \"{}\"",
                                                   base::Shorten(base::Visible(line), 200)));
    }
    const bool ours = std::any_of(only.begin(), only.end(), [&](const std::string& id) {
      return id == fields[0] || id == fields[1];
    });
    if (!only.empty() && !ours) continue;
    Gpu gpu{base::Visible(fields[0]),
            base::Visible(fields[1]),
            base::Visible(fields[2]),
            base::Visible(fields[3]),
            *memory,
            Number<std::int64_t>(fields[5]),
            0,
            {}};
    if (fields[6].starts_with("0x")) {
      gpu.clock_limits =
          Number<std::uint64_t>(std::string_view(fields[6]).substr(2), 16).value_or(0);
    }
    gpus.push_back(std::move(gpu));
  }
  UG_ASSIGN(const std::string apps,
            reader.run({"nvidia-smi", "--query-compute-apps=gpu_uuid,pid,process_name,used_memory",
                        "--format=csv,noheader,nounits"},
                       kCommandLimit));
  for (const std::string& line : Lines(apps)) {
    const auto fields = Split(line, ',');
    if (fields.size() < 4) continue;
    for (Gpu& gpu : gpus) {
      if (gpu.uuid != fields[0]) continue;
      gpu.processes.push_back(base::Shorten(
          base::Visible(fmt::format("{} {} ({} MiB)", fields[1], fields[2], fields.back())), 200));
    }
  }
  return gpus;
}

base::Status CheckGpus(const HostReader& reader, const std::vector<std::string>& only,
                       base::Clock& clock, const std::function<bool()>& interrupted) {
  const base::Instant deadline = clock.now() + kReturnLimit;
  UG_ASSIGN(std::vector<Gpu> gpus, ReadGpus(reader, only));
  if (gpus.empty()) return {};
  while (!Left(gpus).empty() && clock.now() < deadline && !interrupted()) {
    clock.SleepUntil(std::min(deadline, clock.now() + std::chrono::seconds(1)));
    UG_ASSIGN(gpus, ReadGpus(reader, only));
  }
  if (const std::string left = Left(gpus); !left.empty()) {
    return base::InfrastructureError(
        "the GPUs are not free: " + left +
        "; end what does not belong here, or give this capture other GPUs");
  }
  for (const Gpu& gpu : gpus) {
    if (gpu.ecc_errors.value_or(0) > 0) {
      return base::InfrastructureError(
          fmt::format("GPU {} ({}) has {} uncorrected ECC errors; reset it, and measure on another "
                      "if they come back",
                      gpu.index, gpu.uuid, *gpu.ecc_errors));
    }
  }
  // Often not readable without privileges; then it says nothing.
  const auto kernel = reader.run({"dmesg"}, kCommandLimit);
  if (const std::string xid = kernel ? FatalXid(*kernel) : ""; !xid.empty()) {
    return base::InfrastructureError(
        fmt::format("the kernel's log has a fault of a GPU that only a reset ends: \"{}\"", xid));
  }
  return {};
}

std::string Throttling(const HostReader& reader, const std::vector<std::string>& only) {
  const auto gpus = ReadGpus(reader, only);
  if (!gpus) return {};
  std::vector<std::string> slowed;
  for (const Gpu& gpu : *gpus) {
    std::vector<std::string> reasons;
    for (const auto& [bit, reason] : kSlowdowns) {
      if ((gpu.clock_limits & bit) != 0) reasons.emplace_back(reason);
    }
    if (reasons.empty()) continue;
    slowed.push_back(fmt::format("GPU {} ({}): {}", gpu.index, gpu.uuid, base::JoinList(reasons)));
  }
  return base::JoinList(slowed);
}

}  // namespace upgrade_gate::server
