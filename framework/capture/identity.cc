#include "framework/capture/identity.h"

#include <fmt/format.h>

#include <set>

#include "framework/base/text.h"

namespace upgrade_gate::capture {
namespace {

std::string Shown(const std::string& text) {
  return "\"" + base::Shorten(base::Visible(text), 200) + "\"";
}

std::string ShownOrNothing(const IdentityValues& values, const std::string& name) {
  const auto found = values.find(name);
  return found == values.end() ? "nothing" : Shown(found->second);
}

void Add(std::string& all, const std::string& one) {
  all += (all.empty() ? "" : "; ") + one;
}

}  // namespace

std::string DiffersFromPlan(const IdentityValues& declared, const IdentityValues& found) {
  std::string differences;
  for (const auto& [name, value] : declared) {
    const auto said = found.find(name);
    if (said != found.end() && said->second == value) continue;
    Add(differences, fmt::format("{}: the server says {}, the plan declares {}",
                                 base::Visible(name), ShownOrNothing(found, name), Shown(value)));
  }
  return differences;
}

std::string ChangedSince(const evidence::ServerIdentity& before,
                         const evidence::ServerIdentity& now) {
  std::string differences;
  if (before.id != now.id) {
    Add(differences, fmt::format("id: was {}, is {}", Shown(before.id), Shown(now.id)));
  }
  std::set<std::string> names;
  for (const auto& [name, value] : before.values) names.insert(name);
  for (const auto& [name, value] : now.values) names.insert(name);
  for (const std::string& name : names) {
    const std::string was = ShownOrNothing(before.values, name);
    const std::string is = ShownOrNothing(now.values, name);
    if (was != is) Add(differences, fmt::format("{}: was {}, is {}", base::Visible(name), was, is));
  }
  return differences;
}

}  // namespace upgrade_gate::capture
