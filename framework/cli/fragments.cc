#include "framework/cli/fragments.h"

#include <fmt/format.h>

#include "framework/base/file.h"

namespace upgrade_gate::cli {
namespace {

constexpr std::uint64_t kCap = 8 << 20;

base::Result<gates::GateResult> ReadOne(const std::filesystem::path& path, const std::string& id,
                                        const base::Sha256Hex& evidence,
                                        const base::Sha256Hex& plan) {
  const auto bytes = base::ReadFile(path, kCap);
  if (!bytes) {
    return base::EvidenceError(
        "the gate's test left no result; it did not run or did not get that far");
  }
  UG_ASSIGN(gates::Fragment fragment, gates::ReadFragment(*bytes));
  if (fragment.result.id != id || fragment.evidence != evidence) {
    return base::EvidenceError("is of another gate or other evidence; run the gate's test again");
  }
  if (fragment.plan != plan) {
    return base::EvidenceError("was judged by another plan file; run the gate's test again");
  }
  return std::move(fragment.result);
}

}  // namespace

Fragments ReadFragments(const evidence::Layout& layout, const plan::ResolvedPlan& plan,
                        const base::Sha256Hex& evidence, const base::Sha256Hex& plan_sha256) {
  Fragments fragments;
  for (const plan::Gate& gate : plan.gates) {
    const auto path = layout.fragments() / (gate.id + ".json");
    auto result = ReadOne(path, gate.id, evidence, plan_sha256);
    if (result) {
      fragments.results.emplace(gate.id, *std::move(result));
    } else {
      fragments.problems.emplace(gate.id, path.string() + ": " + result.error().message);
    }
  }
  return fragments;
}

void CompareVerdicts(const gates::Judgement& judgement, Fragments& fragments) {
  for (const gates::GateResult& gate : judgement.gates) {
    const auto left = fragments.results.find(gate.id);
    if (left == fragments.results.end() || left->second.verdict == gate.verdict) continue;
    fragments.problems.emplace(
        gate.id,
        fmt::format("the test of gate {} says {}, the judgement says {}; were both made by "
                    "one version?",
                    gate.id, gates::Name(left->second.verdict), gates::Name(gate.verdict)));
  }
}

}  // namespace upgrade_gate::cli
