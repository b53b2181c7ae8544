// Reading and writing the evidence of one run, by the grammar of layout.h.
//
// Whatever is read is treated as hostile: capped, strict JSON, names checked.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "framework/base/result.h"
#include "framework/evidence/layout.h"
#include "framework/evidence/records.h"
#include "framework/evidence/seal.h"
#include "framework/evidence/summary.h"

namespace upgrade_gate::evidence {

// Raw bytes of one response, kept for every failed request.
struct RawStream {
  int index = 0;
  Phase phase = Phase::kFormal;
  std::string bytes;
};

// Writes the round aside, syncs and renames it into place: it is whole or absent.
base::Status WriteRound(const Layout& layout, const RoundRecord& round,
                        const std::vector<RawStream>& streams);
// Reads one round's folder; `superseded` follows from its name, and what the
// name says must be what round.json says.
base::Result<RoundRecord> ReadRound(const std::filesystem::path& folder);
// Every round below rounds/, superseded ones too; leftovers of a write that
// never finished are an error if `sealed`, otherwise ignored.
base::Result<std::vector<RoundRecord>> ReadRounds(const Layout& layout, bool sealed);
// Removes leftovers of writes that never finished.
base::Status RemoveUnfinished(const Layout& layout);
// Renames the round's folder to its superseded name.
base::Status Supersede(const Layout& layout, const RoundRecord& round);

// boot.json, replaced atomically as the boot goes on.
base::Status WriteBoot(const Layout& layout, const BootRecord& boot);
base::Status WriteServerLog(const Layout& layout, const BootRecord& boot, std::string_view log);
base::Result<std::vector<BootRecord>> ReadBoots(const Layout& layout);

base::Status WriteCapture(const Layout& layout, const CaptureRecord& capture);
base::Result<CaptureRecord> ReadCapture(const Layout& layout);

// One line a round: {"round":1,"requests":[{"body_sha256":…,"prompt_sha256":…,"token_ids":[…]}]}
base::Status WritePrompts(const Layout& layout, const std::string& case_name, std::string_view jsonl);

// Evidence whose seal has been checked: what gates and reports may read.
struct SealedEvidence {
  base::Sha256Hex digest;
  std::string plan_yaml;      // as captured
  std::string resolved_plan;  // JSON, as captured
  Summary summary;
};
// kEvidence errors, one line a finding: "evidence/rounds/…/round.json: changed since it was sealed".
base::Result<SealedEvidence> LoadSealed(const Layout& layout);

// Checks the seal and recomputes the summary from the raw records; it must be
// equal to the sealed one, byte for byte.
struct Verification {
  base::Sha256Hex digest;
  std::vector<SealFinding> findings;
  bool ok() const { return findings.empty(); }
};
base::Result<Verification> VerifyEvidence(const Layout& layout);

}  // namespace upgrade_gate::evidence
