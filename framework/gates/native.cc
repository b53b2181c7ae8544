#include "framework/gates/kinds.h"
#include "framework/gates/wording.h"

namespace upgrade_gate::gates {

GateResult JudgeNative(const plan::Gate& gate, const NativeResults& native) {
  GateResult result = StartResult(gate);
  const std::string test = Shown(std::get<plan::NativeGate>(gate.rule).test);
  const auto left = native.find(gate.id);
  if (left == native.end()) {
    result.finding = Finding::kNoResult;
    result.message = test + ": the test left no result of this evidence and this plan";
    result.explanation = {"a native gate is judged by its test, " + test + ", and nobody else",
                          "  next: run it: ctest, or the gate binary with --gate=" + gate.id};
    return result;
  }
  // What the plan says of the gate holds; the test gives the rest.
  const plan::Location location = result.location;
  const plan::Severity severity = result.severity;
  result = left->second;
  result.id = gate.id;
  result.kind = plan::GateKind::kNative;
  result.severity = severity;
  result.location = location;
  return result;
}

}  // namespace upgrade_gate::gates
