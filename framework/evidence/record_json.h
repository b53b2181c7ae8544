// Records as JSON and back. Private; the schema is kSchema (records.h).
//
// Text that a server had a hand in is made visible when it is written, so that
// what is read back is what was written, whatever its bytes were.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/base/json.h"
#include "framework/base/result.h"
#include "framework/evidence/records.h"

namespace upgrade_gate::evidence {

// requests.jsonl: one object a line, each line ended.
std::string WriteRequests(const std::vector<RequestRecord>& requests, Phase phase);
// An error starts with the line: "line 3: …".
base::Result<std::vector<RequestRecord>> ReadRequests(std::string_view jsonl, Phase phase);

// round.json: everything but the requests, of which it holds the counts.
base::Json RoundToJson(const RoundRecord& round);
// `with` holds the requests and warm-up that were read beside it, with which the
// counts must agree; the rest of it is filled in.
base::Status RoundFromJson(const base::Json& json, RoundRecord& with);

// Member "client". Evidence of clients that said nothing of themselves has no such
// member and must be written again as it was: here absent is not null.
void PutClient(const std::optional<ClientHealth>& client, base::Json& json);
base::Result<std::optional<ClientHealth>> ClientMember(const base::Json& json);

// boot.json: everything but the facts, which have files of their own.
base::Json BootToJson(const BootRecord& boot);
base::Result<BootRecord> BootFromJson(const base::Json& json);

// facts.json and host.json, and the same lists in summary.json.
base::Json FactsToJson(const std::vector<Fact>& facts);
base::Result<std::vector<Fact>> FactsFromJson(const base::Json& object, std::string_view key);

base::Json CaptureToJson(const CaptureRecord& capture);
base::Result<CaptureRecord> CaptureFromJson(const base::Json& json);

// {"empty_output":6}: the kinds that occurred, in the order of kAllFailureKinds.
base::Json FailuresToJson(const std::map<FailureKind, int>& by_kind);
base::Result<std::map<FailureKind, int>> FailuresFromJson(const base::Json& object,
                                                          std::string_view key);

}  // namespace upgrade_gate::evidence
