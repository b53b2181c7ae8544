// The table of findings: which gate each belongs to and what it makes of it.
#pragma once

#include <optional>
#include <string_view>

#include "framework/gates/judgement.h"

namespace upgrade_gate::gates {

struct FindingRow {
  Finding finding = Finding::kNone;
  std::string_view name;
  std::string_view description;
  // The gates that may give it as theirs; absent: any of the measuring gates.
  std::optional<plan::GateKind> owner;
  // Of the gate it belongs to.
  Verdict verdict = Verdict::kInconclusive;
  // Relative gates of the cases concerned cannot be judged with it.
  bool voids_relative = false;
  // Nor can a level of one arm: its rounds must not be pooled.
  bool voids_level = false;
};

const FindingRow& RowOf(Finding finding);
std::optional<Finding> FindingNamed(std::string_view name);

}  // namespace upgrade_gate::gates
