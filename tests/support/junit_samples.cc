// junit_samples DIR: writes a JUnit report of every kind, DIR/<kind>.xml, for readers
// of other makers to take apart. Those of an accepted run are called accept*.xml.
#include <fmt/format.h>

#include <cstdio>

#include "framework/base/file.h"
#include "reports/junit/junit.h"
#include "tests/unit/reports/hand_values.h"

namespace upgrade_gate {
namespace {

using reports_test::JunitInput;

std::string Render(const JunitInput& input) {
  return junit::RenderJunit(input.plan, input.summary, input.judgement, input.missing,
                            input.options);
}

JunitInput Accepted() {
  JunitInput input;
  input.judgement = reports_test::AcceptedJudgement();
  input.options = {.suite_name = "hand",
                   .plan_file = "gate.yaml",
                   .timestamp = input.summary.capture.started_at,
                   .hostname = input.summary.capture.host};
  return input;
}

base::Status WriteSamples(const std::filesystem::path& folder) {
  const auto write = [&](const std::string& name, const std::string& xml) {
    return base::WriteFile(folder / (name + ".xml"), xml);
  };
  JunitInput input = Accepted();
  UG_TRY(write("accept", Render(input)));
  input.options.attachments = "/ci/run/report";
  UG_TRY(write("accept-attachments", Render(input)));
  input.judgement.gates[3].verdict = gates::Verdict::kFail;  // advisory
  UG_TRY(write("accept-advisory-fails", Render(input)));

  input = Accepted();
  input.judgement = reports_test::HandJudgement();
  UG_TRY(write("reject", Render(input)));
  UG_TRY(write("broken", junit::RenderBroken("the capture has not finished", input.options)));
  input = Accepted();
  input.judgement.complete = false;
  input.judgement.incidents = {"boot 02 (candidate): service lost"};
  UG_TRY(write("incomplete", Render(input)));
  input = Accepted();
  input.missing = {"provenance"};
  UG_TRY(write("missing-fragment", Render(input)));
  input = Accepted();
  input.options.obstacle = "sealed too long ago";
  UG_TRY(write("does-not-count", Render(input)));
  input = Accepted();
  input.judgement.gates.clear();
  input.plan.gates.clear();
  UG_TRY(write("no-gates", Render(input)));

  const auto& texts = reports_test::HostileTexts();
  for (std::size_t i = 0; i < texts.size(); ++i) {
    input = reports_test::HostileInput(texts[i]);
    UG_TRY(write(fmt::format("hostile-{:02}", i), Render(input)));
    UG_TRY(write(fmt::format("hostile-{:02}-broken", i),
                 junit::RenderBroken(texts[i], input.options)));
  }
  return {};
}

}  // namespace
}  // namespace upgrade_gate

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const auto written = upgrade_gate::WriteSamples(argv[1]);
  if (!written) std::fprintf(stderr, "%s\n", written.error().message.c_str());
  return written ? 0 : 2;
}
