// JUnit XML in the one dialect that every common reader takes, by tinyxml2.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "framework/evidence/store.h"
#include "framework/gates/judgement.h"
#include "framework/plan/plan.h"

namespace upgrade_gate::junit {

struct JunitOptions {
  std::string suite_name;  // the plan's name
  std::string plan_file;   // shown as the testcase's file
  std::string timestamp;   // of the capture's start, UTC
  std::string hostname;
  // The report's folder as a CI system names it. With it, a testcase's system-out
  // is one `[[ATTACHMENT|…]]` line: summary.txt, or gates/<id>.txt for a gate.
  std::optional<std::filesystem::path> attachments = std::nullopt;
  std::string obstacle = {};  // why the decision does not count; empty: it does
};

// One testcase a gate, one for the orchestration and one for the requests. Their
// times add up to the capture's wall time: run.requests has that of the rounds,
// run.orchestration the rest (boots, warm-ups, pauses), a gate measures nothing.
// `missing_fragments`: ids of gates whose own test left no result: failures here.
std::string RenderJunit(const plan::ResolvedPlan& plan, const evidence::Summary& summary,
                        const gates::Judgement& judgement,
                        const std::vector<std::string>& missing_fragments,
                        const JunitOptions& options);

// The report that is written first and replaced at the end: one failing testcase.
// Also for a broken capture, seal or plan: `message` says which.
std::string RenderBroken(const std::string& message, const JunitOptions& options);

}  // namespace upgrade_gate::junit
