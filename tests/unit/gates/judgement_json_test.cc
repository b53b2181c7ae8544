#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "framework/base/json.h"
#include "framework/gates/judge.h"
#include "tests/unit/gates/experiment.h"

namespace upgrade_gate::gates {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kCase = "1k-512-c1";

base::Json Written(Experiment& e) {
  const Judgement judgement = JudgeAll(e.plan, e.evidence.plan_yaml, e.evidence);
  const auto parsed = base::ParseJson(WriteJudgement(judgement, e.evidence.summary));
  EXPECT_TRUE(parsed.has_value()) << parsed.error().message;
  return parsed ? *parsed : base::Json();
}

TEST(WriteJudgement, HasTheKeysAndTypesOfSchemaOne) {
  Experiment e = MakeExperiment();
  SetRatio(e, kCase, 0.9886, 0.005);
  e.plan.gates = {MaxLoss(kCase, 2), Provenance()};
  const base::Json json = Written(e);
  EXPECT_EQ(json["schema"], 1);
  EXPECT_EQ(json["decision"], "accept");
  EXPECT_EQ(json["orchestration"], "complete");
  EXPECT_EQ(json["rejudged"], false);
  EXPECT_EQ(json["evidence_sha256"], Digest('e'));
  EXPECT_EQ(json["candidate"], Digest('b'));
  EXPECT_EQ(json["rollback"], Digest('a'));
  EXPECT_EQ(json["arms"]["baseline"]["requests"], 24);
  EXPECT_EQ(json["arms"]["baseline"]["failed"], 0);
  EXPECT_EQ(json["arms"]["baseline"]["failures"], base::Json::object());
  EXPECT_EQ(json["boots"][1]["number"], 2);
  EXPECT_EQ(json["boots"][1]["arm"], "candidate");
  EXPECT_EQ(json["boots"][1]["host"], "node-1");
  const base::Json& of = json["cases"][0];
  EXPECT_EQ(of["name"], kCase);
  EXPECT_EQ(of["shape"], "single_stream");
  EXPECT_EQ(of["arms"]["baseline"]["failed"], 0);
  const base::Json& round = of["arms"]["baseline"]["rounds"][0];
  EXPECT_EQ(round["boot"], 1);
  EXPECT_EQ(round["output_tokens_per_s"], 115.0);
  EXPECT_EQ(round["ttft_ms"]["p50"], 50.0);
  EXPECT_EQ(round["tpot_ms"]["p95"], 50.0);
  EXPECT_EQ(round["e2e_ms"]["p95"], 50.0);
  const base::Json& ratio = of["ratio"]["output_tokens_per_s"];
  EXPECT_NEAR(ratio["estimate"].get<double>(), 0.9886, 1e-8);
  EXPECT_NEAR(ratio["interval"][0].get<double>(), 0.980, 5e-4);
  EXPECT_NEAR(ratio["interval"][1].get<double>(), 0.997, 5e-4);
  EXPECT_EQ(ratio["rounds"], 3);
  EXPECT_EQ(ratio["boots"], 1);
  const base::Json& gate = json["gates"][0];
  EXPECT_EQ(gate["id"], "throughput.1k-512-c1");
  EXPECT_EQ(gate["kind"], "throughput");
  EXPECT_EQ(gate["severity"], "required");
  EXPECT_EQ(gate["verdict"], "pass");
  EXPECT_EQ(gate["finding"], nullptr);
  EXPECT_EQ(gate["margin"], 0.98);
  EXPECT_EQ(gate["rounds"], 3);
  EXPECT_EQ(gate["cases"][0]["case"], kCase);
  EXPECT_EQ(json["gates"][1]["estimate"], nullptr);
}

TEST(WriteJudgement, ADaggerCaseHasNoRatio) {
  Experiment e = MakeExperiment();
  SetFailures(e, kCase, kCandidate, 0, 3);
  e.plan.gates = {MaxLoss(kCase, 2)};
  const base::Json json = Written(e);
  EXPECT_EQ(json["cases"][0]["ratio"]["output_tokens_per_s"], nullptr);
  EXPECT_EQ(json["cases"][0]["dagger"], true);
  EXPECT_EQ(json["cases"][0]["arms"]["candidate"]["failed"], 3);
  EXPECT_EQ(json["arms"]["candidate"]["failures"]["empty_output"], 3);
  EXPECT_EQ(json["gates"][0]["finding"], "failures_in_case");
  EXPECT_EQ(json["gates"][0]["interval"], nullptr);
}

TEST(WriteJudgement, NeverWritesWhatIsNotANumberOrActsOnATerminal) {
  Experiment e = MakeExperiment();
  e.Round(kCase, kBaseline, 0).output_tokens_per_s = std::numeric_limits<double>::quiet_NaN();
  e.Round(kCase, kBaseline, 1).duration_s = std::numeric_limits<double>::infinity();
  e.Boot(1).host = "\x1b]0;x\x07";
  e.summary().capture.plan_name = "bad\xff";
  e.plan.gates = {MaxLoss(kCase, 2)};
  const Judgement judgement = JudgeAll(e.plan, e.evidence.plan_yaml, e.evidence);
  const std::string text = WriteJudgement(judgement, e.evidence.summary);
  EXPECT_TRUE(base::ParseJson(text).has_value());
  EXPECT_THAT(text, Not(HasSubstr("nan")));
  EXPECT_THAT(text, Not(HasSubstr("\\u001b")));
  EXPECT_THAT(text, HasSubstr("bad\\\\xff"));
  EXPECT_EQ(judgement.gates[0].verdict, Verdict::kInconclusive);
}

TEST(Fragment, RoundTrips) {
  const Experiment e = MakeExperiment();
  const GateResult result = JudgeGate(e.plan, MaxLoss(kCase, 3), e.evidence.summary);
  const std::string text = WriteFragment({result, Digest('e'), Digest('f')});
  const auto fragment = ReadFragment(text);
  ASSERT_TRUE(fragment.has_value()) << fragment.error().message;
  EXPECT_EQ(fragment->result.verdict, Verdict::kPass);
  EXPECT_EQ(fragment->result.location.line, 7);
  EXPECT_EQ(fragment->evidence, Digest('e'));
  EXPECT_EQ(fragment->plan, Digest('f'));
  // Everything that is written is read: the same bytes again.
  EXPECT_EQ(WriteFragment(*fragment), text);
}

TEST(Fragment, RoundTripsWithoutNumbersToo) {
  GateResult result;
  result.id = "empty";
  result.kind = plan::GateKind::kNative;
  result.finding = Finding::kNoResult;
  const std::string text = WriteFragment({result, Digest('e'), Digest('f')});
  const auto fragment = ReadFragment(text);
  ASSERT_TRUE(fragment.has_value()) << fragment.error().message;
  EXPECT_EQ(WriteFragment(*fragment), text);
}

TEST(Fragment, RefusesWhatIsNotOne) {
  const Experiment e = MakeExperiment();
  const std::string good = WriteFragment(
      {JudgeGate(e.plan, MaxLoss(kCase, 3), e.evidence.summary), Digest('e'), Digest('f')});
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    const auto fragment = ReadFragment(text);
    return fragment ? std::string("read") : fragment.error().message;
  };
  EXPECT_THAT(with("\"schema\": 1", "\"schema\": 2"), HasSubstr("schema 2"));
  EXPECT_THAT(with("\"pass\"", "\"passed\""), HasSubstr("\"passed\" is not a verdict"));
  EXPECT_THAT(with(Digest('e'), "none"), HasSubstr("not a SHA-256 digest"));
  EXPECT_THAT(with(Digest('f'), "none"), HasSubstr("\"plan_sha256\" is not a SHA-256 digest"));
  EXPECT_THAT(with("\"id\"", "\"di\""), HasSubstr("\"id\" is missing"));
  EXPECT_THAT(with("\"id\": \"", "\"id\": \"../"), HasSubstr("\"id\" is not the id of a gate"));
  EXPECT_THAT(with("\"throughput\"", "\"speed\""), HasSubstr("\"speed\" is not a kind of gate"));
  EXPECT_THAT(with("\"required\"", "\"hint\""), HasSubstr("\"hint\" is not a severity"));
  EXPECT_THAT(with("\"finding\": null", "\"finding\": \"luck\""), HasSubstr("\"finding\" is not"));
  EXPECT_THAT(with("\"rounds\": 3", "\"rounds\": -3"), HasSubstr("\"rounds\" is not a count"));
  EXPECT_THAT(with("\"interval\": [", "\"interval\": [1, "),
              HasSubstr("\"interval\" is not two numbers"));
  EXPECT_THAT(with("\"margin\": 0.97", "\"margin\": \"0.97\""), HasSubstr("margin"));
  EXPECT_THAT(with("\"explanation\": [", "\"explanation\": [1, "),
              HasSubstr("\"explanation\" is not"));
  EXPECT_FALSE(ReadFragment("").has_value());
  EXPECT_FALSE(ReadFragment("[]").has_value());
  EXPECT_FALSE(ReadFragment(std::string(5 << 20, ' ')).has_value());
}

}  // namespace
}  // namespace upgrade_gate::gates
