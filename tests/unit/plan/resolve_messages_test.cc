// One exact message for every error that needs more than one section.
#include <gtest/gtest.h>

#include "tests/unit/plan/plan_text.h"

namespace upgrade_gate::plan {
namespace {

class CrossMessages : public testing::TestWithParam<BadEdit> {};

TEST_P(CrossMessages, NameThePlaceTheCauseAndWhatToDo) {
  ExpectErrors(GetParam());
}

const std::string kNew = "executable: {path: new, sha256: " + std::string(kTwos) + "}";

std::vector<BadEdit> Arms() {
  const std::string_view p = kProcessPlan;
  const auto more = [](const std::string& line) { return kNew + "\n    " + line; };
  return {
      {"two_candidates",
       p,
       kNew,
       kNew + "\n  ^other: {like: candidate, role: candidate}",
       {"a plan has one candidate; the arm \"candidate\" is it already"}},
      {"two_baselines",
       p,
       kNew,
       kNew + "\n  ^other: {like: candidate, role: baseline}",
       {"a plan has one baseline; the arm \"baseline\" is it already"}},
      {"other_role",
       p,
       kNew,
       more("role: ^attribution"),
       {"the arm \"candidate\" has the role candidate, not attribution: give it another name"}},
      {"no_role",
       p,
       kNew,
       kNew + "\n  ^other: {like: candidate}",
       {"the arm \"other\" has no role: write role: attribution for an arm that explains a "
        "difference"}},
      {"like_unknown",
       p,
       kNew,
       "like: ^basline",
       {"unknown arm \"basline\" (did you mean \"baseline\"?)"}},
      {"like_itself", p, kNew, "like: ^candidate", {"the arm \"candidate\" is like itself"}},
      {"like_circle",
       p,
       kNew,
       kNew + "\n  a: {like: ^b, role: attribution}\n  b: {like: a, role: attribution}",
       {"\"like\" goes in a circle: \"a\", \"b\", \"a\""}},
      {"arms_by_case",
       p,
       kNew,
       kNew + "\n  ^Candidate: {like: candidate, role: attribution}",
       {"the arm \"Candidate\" differs only in letter case from \"candidate\", at 10:3: they would "
        "be one folder on some disks"}},
      {"remove_unknown",
       p,
       kNew,
       more("remove: [^--fasst]"),
       {"\"--fasst\" is not in the command of the arm \"candidate\" (did you mean \"--fast\"?)"}},
      {"remove_twice",
       p,
       kNew,
       more("remove: [--fast, ^--fast]"),
       {"\"--fast\" is not in the command of the arm \"candidate\""}},
      {"replace_unknown",
       p,
       kNew,
       more("replace: {^--profiles: x}"),
       {"\"--profiles\" is not in the command of the arm \"candidate\" (did you mean "
        "\"--profile\"?)"}},
      {"replace_flag",
       p,
       kNew,
       more("replace: {^--fast: x}"),
       {"\"--fast\" has no value in the command of the arm \"candidate\": use remove and append"}},
      {"replace_doubled",
       p,
       "[--profile, slow, --fast, --port, $PORT]\narms:\n  baseline:\n",
       "[--a, b, --a=c, --port, $PORT]\narms:\n  x: {like: baseline, role: attribution, replace: "
       "{^--a: d}}\n  baseline:\n",
       {"\"--a\" stands 2 times in the command of the arm \"x\": use remove and append"}},
      {"no_executable",
       p,
       "  candidate:\n    " + kNew,
       "  ^candidate: {}",
       {"the arm \"candidate\" has no \"executable\""}},
      {"no_image",
       kDockerPlan,
       "candidate: {image: vllm@sha256:" + std::string(kTwos) + "}",
       "^candidate: {}",
       {"the arm \"candidate\" has no \"image\""}},
      {"no_port",
       p,
       kNew + "\n",
       kNew + "\n  ^other: {like: candidate, role: attribution, remove: [--port]}\n",
       {"the arm \"other\" is never told its port: put $PORT into its command or env"}},
  };
}

std::vector<BadEdit> CasesAndOrder() {
  const std::string_view p = kProcessPlan;
  const auto order = [](const std::string& list) { return "order: " + list + "\nworkload:"; };
  return {
      {"cases_twice",
       p,
       "name: long",
       "name: ^short",
       {"the case \"short\" is there already, at 15:14"}},
      {"cases_by_case",
       p,
       "name: long",
       "name: ^SHORT",
       {"the case \"SHORT\" differs only in letter case from \"short\", at 15:14: they would be "
        "one "
        "folder on some disks"}},
      {"unknown_arm",
       p,
       "workload:",
       order("[baseline, candidate, ^candidat]"),
       {"unknown arm \"candidat\" (did you mean \"candidate\"?)"}},
      {"unknown_step_arm",
       p,
       "workload:",
       order("[baseline, candidate, {arm: ^x}]"),
       {"unknown arm \"x\""}},
      {"unknown_case",
       p,
       "workload:",
       order("[baseline, candidate, {arm: baseline, cases: [short, ^shrt]}]"),
       {"unknown case \"shrt\" (did you mean \"short\"?)"}},
      {"doubled_case",
       p,
       "workload:",
       order("[baseline, candidate, {arm: baseline, cases: [short, ^short]}]"),
       {"the case \"short\" stands twice in this step"}},
      {"arm_never_booted",
       p,
       kNew + "\nworkload:",
       kNew + "\n  ^other: {like: candidate, role: attribution}\norder: [baseline, candidate]\n"
              "workload:",
       {"the arm \"other\" is never booted: add it to \"order\", or remove it"}},
      {"case_never_run",
       p,
       "workload:\n  prompts: {kind: synthetic-tokens, seed: 7}\n  cases:\n    - {name: short, "
       "input_tokens: 64, output_tokens: 16, concurrency: 2, requests: 4, shape: chat}\n    - "
       "{name",
       "order: [{arm: baseline, cases: [short]}, {arm: candidate, cases: [short]}]\n"
       "workload:\n  prompts: {kind: synthetic-tokens, seed: 7}\n  cases:\n    - {name: short, "
       "input_tokens: 64, output_tokens: 16, concurrency: 2, requests: 4, shape: chat}\n    - "
       "^{name",
       {"the case \"long\" is never run: no step of \"order\" names it"}},
  };
}

std::vector<BadEdit> Gates() {
  const std::string_view p = kProcessPlan;
  const std::string gate = "throughput: {case: short, max_loss: 3%}";
  const std::string all = "gates:\n  - " + gate + "\n  - provenance: {}\n";
  return {
      {"gates_empty",
       p,
       all,
       "gates: ^[]\n",
       {"\"gates\" is empty: a plan without gates can never say no"}},
      {"gates_advisory",
       p,
       all,
       "gates:\n  ^- provenance: {severity: advisory}\n",
       {"all gates are advisory, and only a required gate can reject: make one required"}},
      {"unknown_case",
       p,
       "case: short",
       "case: ^shrot",
       {"unknown case \"shrot\" (did you mean \"short\"?)"}},
      {"unknown_shape",
       p,
       "case: short",
       "shape: ^chatt",
       {"unknown shape \"chatt\" (did you mean \"chat\"?)"}},
      {"failures_unknown_case",
       p,
       gate,
       "failures: {kind: any, max_rate: 1%, case: ^zz}",
       {"unknown case \"zz\""}},
      {"failures_unknown_arm",
       p,
       gate,
       "failures: {kind: any, max_rate: 1%, arm: ^candidte}",
       {"unknown arm \"candidte\" (did you mean \"candidate\"?)"}},
      {"doubled_id",
       p,
       gate,
       gate + "\n  - ^throughput: {case: short, max_loss: 5%}",
       {"the gate \"throughput.short.max_loss\" is there already, at 18:5"}},
  };
}

TEST(CrossMessage, NoArmIsTheCandidate) {
  const std::string plan = Edit(kProcessPlan, "  candidate:\n    " + kNew + "\n", "");
  EXPECT_EQ(ErrorsOf(plan), "gate.yaml:8:3: no arm is the candidate: name one \"candidate\"");
}

TEST(CrossMessage, GateNamesDifferInMoreThanLetterCase) {
  const std::string plan =
      Edit(kProcessPlan, "provenance: {}", "provenance: {}\n  - provenance: {name: Provenance}");
  EXPECT_EQ(ErrorsOf(plan),
            "gate.yaml:20:24: the gate \"Provenance\" differs only in letter case from "
            "\"provenance\", at 19:5: they would be one folder on some disks");
}

TEST(CrossMessage, RelativeGatesNeedABaseline) {
  const std::string baseline =
      "  baseline:\n    executable: {path: old, sha256: " + std::string(kOnes) + "}\n";
  const std::string plan = Edit(kProcessPlan, baseline, "");
  const std::string why =
      ": this gate compares with a baseline, and the plan has none: add the arm baseline, or write "
      "an absolute threshold (min, max)";
  EXPECT_EQ(ErrorsOf(plan), "gate.yaml:16:5" + why);
  EXPECT_EQ(ErrorsOf(Edit(plan, "throughput: {case: short, max_loss: 3%}",
                          "latency: {case: short, metric: ttft, max_increase: 3%}")),
            "gate.yaml:16:5" + why);
  EXPECT_EQ(ErrorsOf(Edit(plan, "max_loss: 3%", "min: 9tok/s")), "");
  EXPECT_EQ(ErrorsOf(Edit(plan, "throughput: {case: short, max_loss: 3%}",
                          "latency: {case: short, metric: ttft, max: 3s}")),
            "");
}

TEST(CrossMessage, GatesNeedTheirCasesInBothArms) {
  const auto with_order = [](const std::string& order, const std::string& gate) {
    const std::string plan = Edit(kProcessPlan, "workload:", "order: " + order + "\nworkload:");
    return Edit(plan, "throughput: {case: short, max_loss: 3%}", gate);
  };
  const auto needs = [](const std::string& arm) {
    return "gate.yaml:19:5: this gate needs the case \"short\" of the arm \"" + arm +
           "\", and no step of \"order\" runs it there";
  };
  const std::string no_candidate = "[baseline, {arm: candidate, cases: [long]}]";
  const std::string no_baseline = "[candidate, {arm: baseline, cases: [long]}]";
  const std::string relative = "throughput: {case: short, max_loss: 3%}";
  const std::string absolute = "throughput: {case: short, min: 3tok/s}";
  EXPECT_EQ(ErrorsOf(with_order(no_candidate, relative)), needs("candidate"));
  EXPECT_EQ(ErrorsOf(with_order(no_baseline, relative)), needs("baseline"));
  EXPECT_EQ(ErrorsOf(with_order(no_candidate, absolute)), needs("candidate"));
  EXPECT_EQ(ErrorsOf(with_order(no_baseline, absolute)), "");
  EXPECT_EQ(ErrorsOf(with_order(no_baseline, "throughput: {shape: chat, max_loss: 3%}")),
            needs("baseline"));
  EXPECT_EQ(ErrorsOf(with_order(no_baseline,
                                "failures: {kind: any, max_rate: 1%, arm: baseline, "
                                "case: short}")),
            needs("baseline"));
  EXPECT_EQ(ErrorsOf(with_order(no_baseline, "failures: {kind: any, max_rate: 1%, arm: baseline}")),
            "");
  // Two steps together are enough.
  EXPECT_EQ(ErrorsOf(with_order("[candidate, {arm: baseline, cases: [long]}, {arm: baseline, "
                                "cases: [short]}]",
                                relative)),
            "");
}

TEST(CrossMessage, AllErrorsComeAtOnceByPosition) {
  std::string plan = Edit(kProcessPlan, "case: short", "case: shrot");
  plan = Edit(plan, "requests: 4", "requests: 1");
  plan = Edit(plan, "name: demo", "nam: demo");
  EXPECT_EQ(ErrorsOf(plan),
            "gate.yaml:1:1: the plan has no \"name\"\n"
            "gate.yaml:2:1: unknown key \"nam\" (did you mean \"name\"?)\n"
            "gate.yaml:15:84: 1 requests can never reach the concurrency 2: write at least 2\n"
            "gate.yaml:18:24: unknown case \"shrot\" (did you mean \"short\"?)");
}

TEST(CrossMessage, ALostSectionBringsNoErrorsOfItsReaders) {
  // The case is there, but its name is not readable: the gate is not blamed.
  EXPECT_EQ(ErrorsOf(Edit(kProcessPlan, "name: short", "name: sh/ort")),
            "gate.yaml:15:14: \"name\" \"sh/ort\" is not a plain name: begin with a letter or "
            "digit, then use only letters, digits, \".\", \"_\" and \"-\", at most 64");
}

TEST(CrossMessage, AGateWithAnErrorBringsNoOthers) {
  // Neither has a threshold that can be read, so neither has an id to be doubled.
  EXPECT_EQ(ErrorsOf(Edit(kProcessPlan, "provenance: {}",
                          "throughput: {case: long, max_loss: 3}\n"
                          "  - throughput: {case: long, max_loss: 4}")),
            "gate.yaml:19:40: \"max_loss\" has no unit: write 3%\n"
            "gate.yaml:20:40: \"max_loss\" has no unit: write 4%");
}

TEST(CrossMessage, APlanMadeByHandHasErrorsWithoutPlaces) {
  const auto resolved = Resolve(Plan{}, "made");
  ASSERT_FALSE(resolved);
  EXPECT_EQ(resolved.error().message,
            "made: no arm is the candidate: name one \"candidate\"\n"
            "made: \"gates\" is empty: a plan without gates can never say no");
}

std::string NameOf(const testing::TestParamInfo<BadEdit>& info) {
  return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(Arms, CrossMessages, testing::ValuesIn(Arms()), NameOf);
INSTANTIATE_TEST_SUITE_P(CasesAndOrder, CrossMessages, testing::ValuesIn(CasesAndOrder()), NameOf);
INSTANTIATE_TEST_SUITE_P(Gates, CrossMessages, testing::ValuesIn(Gates()), NameOf);

}  // namespace
}  // namespace upgrade_gate::plan
