// The report of a run without a verdict: it stands from the capture's start, and
// again whenever a run cannot be judged.
#pragma once

#include "framework/base/result.h"
#include "framework/evidence/layout.h"
#include "reports/junit/junit.h"

namespace upgrade_gate::cli {

// Replaces junit.xml, summary.txt and verdict.env and removes gates/: nothing of an
// earlier run stays.
base::Status WriteFailingReport(const evidence::Layout& layout, const junit::JunitOptions& options,
                                const base::Error& why);

}  // namespace upgrade_gate::cli
