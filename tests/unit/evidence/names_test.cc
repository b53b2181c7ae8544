#include <gtest/gtest.h>

#include <set>
#include <string>

#include "framework/evidence/failure_kind.h"
#include "framework/evidence/records.h"
#include "framework/evidence/summary.h"

namespace upgrade_gate::evidence {
namespace {

TEST(FailureKindTest, EveryKindHasItsOwnNameThatLeadsBackToItAndADescription) {
  std::set<std::string> names, descriptions;
  for (const FailureKind kind : kAllFailureKinds) {
    names.emplace(Name(kind));
    descriptions.emplace(Describe(kind));
    EXPECT_EQ(FailureKindFrom(Name(kind)), kind);
  }
  EXPECT_EQ(names.size(), kAllFailureKinds.size());
  EXPECT_EQ(descriptions.size(), kAllFailureKinds.size());
  EXPECT_FALSE(names.contains(""));
}

// Plans, evidence and reports of other versions are read by these names.
TEST(FailureKindTest, NamesAreFixed) {
  std::string all;
  for (const FailureKind kind : kAllFailureKinds) all += std::string(Name(kind)) + " ";
  EXPECT_EQ(all,
            "http_status transport stalled deadline not_a_stream no_events malformed_event "
            "in_band_error empty_output missing_done after_done tool_call_invalid no_finish_reason "
            "usage_invalid "
            "input_length output_length over_cap ");
}

TEST(FailureKindTest, AnUnknownNameIsNoKind) {
  EXPECT_EQ(FailureKindFrom("empty"), std::nullopt);
  EXPECT_EQ(FailureKindFrom(""), std::nullopt);
  EXPECT_EQ(FailureKindFrom("Empty_output"), std::nullopt);
}

TEST(MetricTest, NamesLeadBack) {
  EXPECT_EQ(MetricFrom("ttft"), Metric::kTtft);
  EXPECT_EQ(MetricFrom("tpot"), Metric::kTpot);
  EXPECT_EQ(MetricFrom("e2e"), Metric::kE2e);
  EXPECT_EQ(MetricFrom("TTFT"), std::nullopt);
  for (const Metric metric : kAllMetrics) EXPECT_EQ(MetricFrom(Name(metric)), metric);
}

TEST(StopReasonTest, NamesLeadBack) {
  EXPECT_EQ(StopReasonFrom("none"), StopReason::kNone);
  EXPECT_EQ(StopReasonFrom("guard"), StopReason::kGuard);
  EXPECT_EQ(StopReasonFrom("service_lost"), StopReason::kServiceLost);
  EXPECT_EQ(StopReasonFrom("interrupted"), StopReason::kInterrupted);
  EXPECT_EQ(StopReasonFrom("deadline"), StopReason::kDeadline);
  EXPECT_EQ(StopReasonFrom("identity"), StopReason::kIdentity);
  EXPECT_EQ(StopReasonFrom("infrastructure"), StopReason::kInfrastructure);
  EXPECT_EQ(StopReasonFrom(""), std::nullopt);
}

TEST(PhaseTest, HasNames) {
  EXPECT_EQ(Name(Phase::kWarmup), "warmup");
  EXPECT_EQ(Name(Phase::kFormal), "formal");
  EXPECT_EQ(Name(Phase::kDiagnostic), "diagnostic");
}

}  // namespace
}  // namespace upgrade_gate::evidence
