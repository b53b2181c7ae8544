#include "framework/evidence/json_difference.h"

#include <fmt/format.h>

#include <algorithm>

#include "framework/base/text.h"

namespace upgrade_gate::evidence {
namespace {

using base::Json;

std::string Brief(const Json& value) {
  return base::Shorten(base::Visible(base::WriteJsonLine(value)), 100);
}

std::string LabelOf(const Json& element, std::size_t position) {
  const auto text = [&](const char* key) {
    const auto it = element.find(key);
    if (it == element.end()) return std::string();
    return it->is_string() ? it->get<std::string>() : it->dump();
  };
  if (element.is_object()) {
    if (element.contains("name")) return base::Shorten(base::Visible(text("name")), 80);
    if (element.contains("boot") && element.contains("round")) {
      return base::Shorten(
          base::Visible(fmt::format("boot {}, round {}", text("boot"), text("round"))), 80);
    }
    if (element.contains("number")) return base::Shorten(base::Visible(text("number")), 80);
  }
  return fmt::format("{}", position);
}

std::string Differ(const Json& sealed, const Json& recomputed, const std::string& path) {
  if (sealed == recomputed) return "";
  if (sealed.is_object() && recomputed.is_object()) {
    for (const auto& [key, value] : recomputed.items()) {
      const std::string place = path.empty() ? key : path + "." + key;
      const auto it = sealed.find(key);
      if (it == sealed.end()) return place + " is missing";
      if (std::string found = Differ(*it, value, place); !found.empty()) return found;
    }
    for (const auto& [key, value] : sealed.items()) {
      if (!recomputed.contains(key)) {
        return fmt::format("{}{}{} has no place there", path, path.empty() ? "" : ".",
                           base::Shorten(base::Visible(key), 80));
      }
    }
    return "";  // the same members in another order
  }
  if (sealed.is_array() && recomputed.is_array()) {
    const std::size_t common = std::min(sealed.size(), recomputed.size());
    for (std::size_t i = 0; i < common; ++i) {
      const std::string place = fmt::format("{}[{}]", path, LabelOf(recomputed[i], i));
      if (std::string found = Differ(sealed[i], recomputed[i], place); !found.empty()) {
        return found;
      }
    }
    if (sealed.size() == recomputed.size()) return "";
    return fmt::format("{} has {} elements, recomputed {}", path, sealed.size(), recomputed.size());
  }
  return fmt::format("{} is {}, recomputed {}", path, Brief(sealed), Brief(recomputed));
}

}  // namespace

std::string FirstDifference(const Json& sealed, const Json& recomputed) {
  return Differ(sealed, recomputed, "");
}

}  // namespace upgrade_gate::evidence
