#include "tests/unit/reports/hand_values.h"

#include <string>

namespace upgrade_gate::reports_test {
namespace {

using evidence::FailureKind;
using evidence::Metric;

evidence::RoundSummary Round(int boot, int round, int requests, int empty, double tokens_per_s,
                             double ttft_p95, double tpot_p50, double tpot_p95) {
  evidence::RoundSummary summary;
  summary.boot = boot;
  summary.round = round;
  summary.planned = requests;
  summary.counts.requests = requests;
  if (empty > 0) summary.counts.by_kind[FailureKind::kEmptyOutput] = empty;
  summary.duration_s = 10.5;
  summary.output_tokens_per_s = tokens_per_s;
  const int count = requests - empty;
  summary.latency[Metric::kTtft] = {count, {{50, ttft_p95 / 2}, {95, ttft_p95}}};
  summary.latency[Metric::kTpot] = {count, {{50, tpot_p50}, {95, tpot_p95}}};
  return summary;
}

void Add(evidence::Summary& summary, const std::string& case_name, const std::string& arm,
         std::vector<evidence::RoundSummary> rounds) {
  evidence::CaseSummary* of = nullptr;
  for (evidence::CaseSummary& known : summary.cases) {
    if (known.name == case_name) of = &known;
  }
  if (of == nullptr) of = &summary.cases.emplace_back(evidence::CaseSummary{case_name, {}});
  evidence::ArmRounds& arm_rounds = of->arms[arm];
  for (const evidence::RoundSummary& round : rounds) {
    for (evidence::FailureCounts* counts : {&arm_rounds.counts, &summary.arms[arm].counts}) {
      counts->requests += round.counts.requests;
      for (const auto& [kind, count] : round.counts.by_kind) counts->by_kind[kind] += count;
    }
    ++summary.arms[arm].rounds;
  }
  arm_rounds.rounds = std::move(rounds);
}

plan::Case Case(std::string name, int line, std::string shape) {
  plan::Case of;
  of.name = std::move(name);
  of.location = {line, 7};
  of.shape = std::move(shape);
  return of;
}

plan::Gate Gate(std::string id, int line) {
  plan::Gate gate;
  gate.id = std::move(id);
  gate.location = {line, 5};
  return gate;
}

}  // namespace

const char* const kHostile = "\x1b[2J\x01 \xef\xbf\xbe \xff ]]> <b> & \xe2\x80\xae \" ' \xc2\x9b";

const std::vector<std::string>& HostileTexts() {
  using std::string_literals::operator""s;
  static const std::vector<std::string> texts = [] {
    std::vector<std::string> list = {
        kHostile,
        "NUL \0 inside"s,
        "U+FFFE \xef\xbf\xbe, U+FFFF \xef\xbf\xbf, U+1FFFE \xf0\x9f\xbf\xbe",
        "lone surrogates \xed\xa0\x80 and \xed\xbf\xbf",
        "overlong / \xc0\xaf, \xe0\x80\xaf, \xf0\x80\x80\xaf; above Unicode \xf4\x90\x80\x80",
        "broken \xff \xfe \x80, cut short \xe2\x82",
        "C1 \xc2\x85 \xc2\x9b, U+2028 \xe2\x80\xa8, bidi \xe2\x80\xae, BOM \xef\xbb\xbf",
        "]]> <![CDATA[ ]]]]> --> <!-- <?xml version=\"1.1\"?>",
        "&#1; &#xFFFE; &amp;#1; &lol; <!DOCTYPE x [<!ENTITY lol \"lol\">]>",
        "\" onload=\"x\" ' <failure/> </testsuites>",
        "line\nbreak\r\nreturn\rtab\tvertical\vform\f",
        "\n\n",
        "   ",
        "",
        "[[ATTACHMENT|/etc/passwd]]",
        "\n[[ATTACHMENT|../../secret]]\n::error::x\n##vso[task.complete]",
        "$(reboot) `reboot` ${HOME} %s %n {} {0}",
        std::string(100'000, 'a') + "\xff",
    };
    std::string large;
    for (int i = 0; i < 20'000; ++i) large += "\xc3\xa4\x01";
    list.push_back(large);
    std::string controls;
    for (int c = 1; c < 128; ++c) controls += static_cast<char>(c);
    list.push_back(controls);
    return list;
  }();
  return texts;
}

gates::Judgement AcceptedJudgement() {
  auto judgement = HandJudgement();
  judgement.decision = gates::Decision::kAccept;
  judgement.reason = "all 4 required gates pass";
  for (auto& gate : judgement.gates) {
    gate.verdict = gates::Verdict::kPass;
    gate.finding = gates::Finding::kNone;
  }
  return judgement;
}

JunitInput HostileInput(const std::string& text) {
  JunitInput input;
  for (plan::Gate& gate : input.plan.gates) gate.id += text;
  input.plan.gates.push_back(Gate("unjudged " + text, 46));
  input.summary.arms[text] = input.summary.arms.begin()->second;
  input.summary.capture.workload = text;
  input.summary.capture.client_sha256 = text;
  input.summary.capture.started_at = text;
  gates::Judgement& judgement = input.judgement;
  for (std::string* field : {&judgement.reason, &judgement.evidence, &judgement.plan_sha256,
                             &judgement.candidate_identity, &judgement.rollback_identity}) {
    *field = text;
  }
  judgement.incidents = judgement.conditions = judgement.not_covered = {text, text};
  for (gates::GateResult& gate : judgement.gates) {
    gate.id += text;
    gate.message = text;
    gate.explanation = {text, "second " + text};
    gate.cases.resize(2);
    for (gates::CaseResult& of : gate.cases) of.case_name = of.message = text;
  }
  input.missing = {text};
  input.options = {.suite_name = text, .plan_file = text, .timestamp = text, .hostname = text};
  input.options.obstacle = text;
  return input;
}

plan::ResolvedPlan HandPlan() {
  plan::ResolvedPlan plan;
  plan.name = "deepseek-v41-flash-h20x8";
  plan::Arm baseline;
  baseline.name = "baseline";
  baseline.role = plan::ArmRole::kBaseline;
  plan::Arm candidate;
  candidate.name = "candidate";
  candidate.role = plan::ArmRole::kCandidate;
  plan::Arm replay;
  replay.name = "no-replay";
  replay.role = plan::ArmRole::kAttribution;
  plan.arms = {baseline, candidate, replay};
  plan.workload.cases = {Case("8k-256-c8", 31, "long_input"),
                         Case("1k-512-c1", 32, "single_stream"),
                         Case("1k-128-c32", 33, "high_load"), Case("open-0.48", 34, "")};
  plan.gates = {Gate("throughput.8k-256-c8", 41), Gate("throughput.single_stream", 42),
                Gate("failures.candidate", 43), Gate("latency.high_load.ttft", 44),
                Gate("provenance", 45)};
  return plan;
}

evidence::Summary HandSummary() {
  evidence::Summary summary;
  summary.capture.plan_name = "deepseek-v41-flash-h20x8";
  summary.capture.workload = std::string(64, 'e');
  summary.capture.client_sha256 = std::string(64, 'f');
  summary.capture.host = "node-a1";
  summary.capture.started_at = "2026-10-27T01:45:00.000Z";
  summary.capture.sealed_at = "2026-10-27T03:04:00.000Z";
  summary.capture.complete = true;
  evidence::BootRecord first;
  first.number = 1;
  first.arm = "baseline";
  first.version = "0.31.1.dev7";
  first.ready_after = std::chrono::milliseconds(184'300);
  evidence::BootRecord second = first;
  second.number = 2;
  second.arm = "candidate";
  second.version = "0.32.0";
  second.ready_after = std::chrono::milliseconds(171'000);
  summary.boots = {first, second};
  Add(summary, "8k-256-c8", "baseline",
      {Round(1, 1, 16, 0, 118.2, 6130, 40.1, 44), Round(1, 2, 16, 0, 119.1, 6120, 40.2, 45),
       Round(1, 3, 16, 0, 118.6, 6110, 40.3, 46)});
  Add(summary, "8k-256-c8", "candidate",
      {Round(2, 1, 16, 0, 264.5, 2290, 21.1, 24), Round(2, 2, 16, 0, 264.0, 2280, 21.2, 25),
       Round(2, 3, 16, 0, 265.1, 2270, 21.3, 26)});
  Add(summary, "8k-256-c8", "no-replay", {Round(3, 1, 16, 0, 201.5, 3400, 22.1, 25.5)});
  Add(summary, "1k-512-c1", "baseline",
      {Round(1, 1, 8, 0, 114.9, 81.5, 8.61, 8.7), Round(1, 2, 8, 0, 115.0, 81.4, 8.6, 8.72)});
  Add(summary, "1k-512-c1", "candidate",
      {Round(2, 1, 8, 0, 113.5, 80.1, 8.71, 8.8), Round(2, 2, 8, 0, 113.88, 80.3, 8.7, 8.82)});
  Add(summary, "1k-128-c32", "baseline",
      {Round(1, 1, 64, 2, 1810, 950.2, 16.1, 17), Round(1, 2, 64, 0, 1830.44, 960, 16.2, 17.5)});
  Add(summary, "1k-128-c32", "candidate",
      {Round(2, 1, 64, 5, 1790, 940, 16, 17.1), Round(2, 2, 64, 1, 1795, 930, 16.1, 17.2)});
  summary.cases[2].arms["baseline"].warmup = {32, {{FailureKind::kEmptyOutput, 1}}};
  summary.cases[2].arms["candidate"].warmup = {32, {}};
  summary.cases.push_back({"open-0.48", {}});
  return summary;
}

gates::Judgement HandJudgement() {
  using gates::Finding;
  using gates::Verdict;
  gates::Judgement judgement;
  judgement.decision = gates::Decision::kReject;
  judgement.reason = "1 required gate fails: failures.candidate";
  judgement.complete = true;
  judgement.evidence = std::string(64, 'a');
  judgement.plan_sha256 = std::string(64, 'b');
  judgement.candidate_identity = "9c1e4f20ab31" + std::string(52, '0');
  judgement.rollback_identity = "51d0be77c902" + std::string(52, '0');

  gates::GateResult gain;
  gain.id = "throughput.8k-256-c8";
  gain.kind = plan::GateKind::kThroughput;
  gain.location = {41, 5};
  gain.verdict = Verdict::kPass;
  gain.finding = Finding::kNone;
  gain.message =
      "8k-256-c8: 118.6 -> 264.5 tok/s, 2.230x, 90 % interval [2.19, 2.27] over 3 rounds, at least "
      "1.5 demanded";
  gain.estimate = 2.23;
  gain.interval = {2.19, 2.27};
  gain.margin = 1.5;
  gain.rounds = 3;
  gain.boots = 1;
  gain.cases = {{"8k-256-c8", Verdict::kPass, Finding::kNone, "the whole interval is above 1.5",
                 118.6, 264.5, 2.23, gates::Interval{2.19, 2.27}, 3, 1}};
  gain.explanation = {"ratio = candidate / baseline, paired by round"};

  gates::GateResult loss;
  loss.id = "throughput.single_stream";
  loss.kind = plan::GateKind::kThroughput;
  loss.location = {42, 5};
  loss.verdict = Verdict::kInconclusive;
  loss.finding = Finding::kUndecided;
  loss.message =
      "1k-512-c1: 114.95 -> 113.69 tok/s, 0.989x, 90 % interval [0.965, 1.013]: 0.97 is in it";
  loss.estimate = 0.989;
  loss.interval = {0.965, 1.013};
  loss.margin = 0.97;
  loss.rounds = 2;
  loss.boots = 1;
  loss.cases = {{"1k-512-c1", Verdict::kInconclusive, Finding::kUndecided,
                 "0.97 is in the interval", 114.95, 113.69, 0.989, gates::Interval{0.965, 1.013}, 2,
                 1}};
  loss.explanation = {"about 5 rounds would resolve it at the noise seen"};

  gates::GateResult failures;
  failures.id = "failures.candidate";
  failures.kind = plan::GateKind::kFailures;
  failures.location = {43, 5};
  failures.verdict = Verdict::kFail;
  failures.finding = Finding::kOverBudget;
  failures.message =
      "candidate: 6 of 192 requests failed (3.12 %), 95 % lower bound 1.37 %, at most 1 % allowed";
  failures.estimate = 0.03125;
  failures.interval = {0.0137, 0.0609};
  failures.margin = 0.01;
  failures.rounds = 6;
  failures.boots = 1;
  failures.explanation = {"Clopper-Pearson bounds of the rate",
                          "look at the raw streams of the failed requests"};

  gates::GateResult latency;
  latency.id = "latency.high_load.ttft";
  latency.kind = plan::GateKind::kLatency;
  latency.severity = plan::Severity::kAdvisory;
  latency.location = {44, 5};
  latency.verdict = Verdict::kFail;
  latency.finding = Finding::kOverThreshold;
  latency.message = "1k-128-c32: P95 TTFT 935 ms, more than 500 ms";
  latency.estimate = 935;
  latency.margin = 500;

  gates::GateResult provenance;
  provenance.id = "provenance";
  provenance.location = {45, 5};
  provenance.verdict = Verdict::kPass;
  provenance.finding = Finding::kNone;
  provenance.message = "pins, arguments, inputs, client and host are as planned";

  judgement.gates = {gain, loss, failures, latency, provenance};
  judgement.cases = {{"8k-256-c8", "long_input", false,
                      gates::CaseComparison::Ratio{2.23, gates::Interval{2.19, 2.27}, 3, 1}},
                     {"1k-512-c1", "single_stream", false,
                      gates::CaseComparison::Ratio{0.989, gates::Interval{0.965, 1.013}, 2, 1}},
                     {"1k-128-c32", "high_load", true, std::nullopt},
                     {"open-0.48", "", false, std::nullopt}};
  judgement.conditions = {"one boot an arm: boot-to-boot noise of 1 % is assumed, not measured",
                          "the gain is not attributable to one change"};
  judgement.not_covered = {"1M context", "long-duration stability"};
  return judgement;
}

}  // namespace upgrade_gate::reports_test
