#include "framework/server/gpu_allocation.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <string_view>

#include "framework/base/text.h"

namespace upgrade_gate::server {
namespace {

constexpr std::string_view kCount = "CTEST_RESOURCE_GROUP_COUNT";
constexpr std::string_view kGroup = "CTEST_RESOURCE_GROUP_";
constexpr std::string_view kGpus = "gpus";
constexpr int kMaxGroups = 1024;
constexpr int kMaxIndex = 9999;
constexpr int kMaxSlots = 1'000'000'000;
constexpr std::size_t kMaxBytes = 1 << 16;  // of one variable

tl::unexpected<base::Error> Malformed(std::string_view variable, const std::string& what) {
  return base::UsageError(std::string(variable) + ": " + what +
                          "; CTest sets it from RESOURCE_GROUPS and the resource specification "
                          "file");
}

std::string Quoted(std::string_view text) {
  return "\"" + base::Shorten(base::Visible(text), 80) + "\"";
}

// Decimal, as CTest writes it: no sign, no blank, no leading zero.
std::optional<int> Number(std::string_view text, int low, int high) {
  int value = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end || value < low || value > high ||
      text != std::to_string(value)) {
    return std::nullopt;
  }
  return value;
}

std::vector<std::string_view> Split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find(at);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

bool IsTypeName(std::string_view name) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; };
  return !name.empty() && letter(name[0]) && std::all_of(name.begin(), name.end(), [&](char c) {
    return letter(c) || (c >= '0' && c <= '9');
  });
}

bool TakePrefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

base::Result<std::string> Value(const VariableLookup& lookup, const std::string& variable) {
  const auto value = lookup(variable);
  if (!value) return Malformed(variable, "is not set, though the allocation speaks of it");
  if (value->size() > kMaxBytes) {
    return Malformed(variable, "is longer than " + std::to_string(kMaxBytes) + " bytes");
  }
  return *value;
}

// "id:0,slots:1;id:1,slots:1"
base::Status AddIds(const std::string& variable, const std::string& value, std::set<int>& ids) {
  for (std::string_view entry : Split(value, ';')) {
    const std::string shown = Quoted(entry);
    std::optional<int> id;
    std::optional<int> slots;
    if (TakePrefix(entry, "id:")) {
      const std::size_t comma = std::min(entry.find(','), entry.size());
      id = Number(entry.substr(0, comma), 0, kMaxIndex);
      entry.remove_prefix(comma);
      if (TakePrefix(entry, ",slots:")) slots = Number(entry, 1, kMaxSlots);
    }
    if (!id || !slots) {
      return Malformed(variable, shown + " is not \"id:N,slots:N\" with the index of a GPU as id");
    }
    ids.insert(*id);
  }
  return {};
}

}  // namespace

base::Result<std::vector<std::string>> AllocatedGpus(const VariableLookup& lookup) {
  const auto group_name = [](int group) { return std::string(kGroup) + std::to_string(group); };
  if (!lookup(std::string(kCount))) {
    if (!lookup(group_name(0))) return std::vector<std::string>{};
    return Malformed(kCount, "is not set, though " + group_name(0) + " is");
  }
  UG_ASSIGN(const std::string count_text, Value(lookup, std::string(kCount)));
  const auto count = Number(count_text, 1, kMaxGroups);
  if (!count) {
    return Malformed(
        kCount, Quoted(count_text) + " is not a number from 1 to " + std::to_string(kMaxGroups));
  }
  std::set<int> ids;
  for (int group = 0; group < *count; ++group) {
    UG_ASSIGN(const std::string types, Value(lookup, group_name(group)));
    if (types.empty()) continue;  // a group that asks for nothing
    for (const std::string_view type : Split(types, ',')) {
      if (!IsTypeName(type)) {
        return Malformed(group_name(group), Quoted(types) + " is not a list of resource types");
      }
      if (type == kGpus) {
        const std::string variable = group_name(group) + "_GPUS";
        UG_ASSIGN(const std::string value, Value(lookup, variable));
        UG_TRY(AddIds(variable, value, ids));
      } else if (const std::string meant = base::DidYouMean(type, {std::string(kGpus)});
                 !meant.empty()) {
        return Malformed(group_name(group),
                         "no GPU is allocated by the type " + Quoted(type) + meant);
      }
    }
  }
  std::vector<std::string> gpus;
  for (const int id : ids) gpus.push_back(std::to_string(id));
  return gpus;
}

std::string GpuList(const std::vector<std::string>& gpus) {
  std::string list;
  for (const std::string& id : gpus) list += (list.empty() ? "" : ",") + id;
  return list;
}

base::Status CheckAllocation(const plan::ResolvedPlan& plan,
                             const std::vector<std::string>& allocated) {
  if (allocated.empty()) return {};
  const std::string list = GpuList(allocated);
  const std::string& planned = plan.server.gpus;
  if (!planned.empty() && planned != "all") {
    const auto parts = Split(planned, ',');
    const std::set<std::string_view> wanted(parts.begin(), parts.end());
    if (wanted != std::set<std::string_view>(allocated.begin(), allocated.end())) {
      return base::UsageError("the plan's server has gpus " + base::Visible(planned) +
                              ", but CTest allocated " + list +
                              "; write gpus: all, or change the resource specification file");
    }
  }
  for (const plan::Arm& arm : plan.arms) {
    for (const char* variable : kVisibleGpuVariables) {
      if (!arm.env.contains(variable)) continue;
      return base::UsageError("arm \"" + base::Visible(arm.name) + "\": env " + variable +
                              " says which GPUs, and CTest allocated " + list +
                              "; remove it from the plan, or RESOURCE_GROUPS from the test");
    }
  }
  return {};
}

}  // namespace upgrade_gate::server
