// Whether a round's record agrees with itself. Private.
#pragma once

#include "framework/base/result.h"
#include "framework/evidence/records.h"

namespace upgrade_gate::evidence {

// Indices unique, ascending and within the plan. Enough to compute a summary.
base::Status CheckIndices(const RoundRecord& round);
// All that WriteRound and ReadRound hold true: the indices; a round that nothing
// stopped was sent whole; digests; times in their order; an accepted request has
// status 200, usage, text, the terminator and all the times that latencies need;
// the round lasted at least as long as its accepted requests.
base::Status CheckRound(const RoundRecord& round);

}  // namespace upgrade_gate::evidence
