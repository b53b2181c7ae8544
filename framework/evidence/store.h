// Reading and writing the evidence of one run, by the grammar of layout.h.
//
// Whatever is read is treated as hostile: capped (limits.h), strict JSON, names
// checked, and its errors are of kind kEvidence and start with the path. The
// writers refuse what the readers would not take, and sealed evidence. One
// process writes at a time (Layout::lock).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "framework/base/result.h"
#include "framework/evidence/layout.h"
#include "framework/evidence/raw_bytes.h"
#include "framework/evidence/records.h"
#include "framework/evidence/seal.h"
#include "framework/evidence/summary.h"

namespace upgrade_gate::evidence {

// Raw bytes of one response, kept for every failed request, or for all.
struct RawStream {
  int index = 0;
  Phase phase = Phase::kFormal;
  std::string bytes;
  std::shared_ptr<const RawBytes> spooled = {};  // if not null, instead of `bytes`
};

// Writes the round aside, syncs and renames it into place: it is whole or absent.
// A stream belongs to a request of the round; a failed request may have none,
// where not one byte came. `before_rename` is called when everything is written
// and nothing is in place yet: a moment for tests to end the process.
base::Status WriteRound(
    const Layout& layout, const RoundRecord& round, const std::vector<RawStream>& streams,
    const std::function<void()>& before_rename = [] {});
// Reads one round's folder; `superseded` follows from its name, and what the
// name says must be what round.json says.
base::Result<RoundRecord> ReadRound(const std::filesystem::path& folder);
// Every round below rounds/, superseded ones too, by case, boot and round;
// leftovers of a write that never finished are an error if `sealed`, otherwise
// ignored. No folder rounds/ is no rounds.
base::Result<std::vector<RoundRecord>> ReadRounds(const Layout& layout, bool sealed);
// Removes leftovers of writes that never finished.
base::Status RemoveUnfinished(const Layout& layout);
// Renames the round's folder to its superseded name.
base::Status Supersede(const Layout& layout, const RoundRecord& round);

// boot.json, replaced atomically as the boot goes on; the first call makes the
// folder. WriteServerLog comes after it.
base::Status WriteBoot(const Layout& layout, const BootRecord& boot);
// facts.json and host.json of the record, which boot.json does not hold; each
// only where there is something to write.
base::Status WriteFacts(const Layout& layout, const BootRecord& boot);
base::Status WriteServerLog(const Layout& layout, const BootRecord& boot, std::string_view log);
// A raw document of a boot's folder, such as "image/manifest.json": plain names.
base::Status WriteBootDocument(const Layout& layout, const BootRecord& boot,
                               const std::string& name, std::string_view bytes);
// By number, which no two boots share.
base::Result<std::vector<BootRecord>> ReadBoots(const Layout& layout);

base::Status WriteCapture(const Layout& layout, const CaptureRecord& capture);
base::Result<CaptureRecord> ReadCapture(const Layout& layout);

// One line a round: {"round":1,"requests":[{"prompt_sha256":…,"token_ids":[…]}]};
// instead of token_ids "text", "messages" or "body". `"phase":"warmup"` where it
// is not formal.
base::Status WritePrompts(const Layout& layout, const std::string& case_name,
                          std::string_view jsonl);

// Evidence whose seal has been checked: what gates and reports may read.
struct SealedEvidence {
  base::Sha256Hex digest;
  std::string plan_yaml;      // as captured
  std::string resolved_plan;  // JSON, as captured
  Summary summary;
};
// Checks the seal before anything is parsed. kEvidence errors, one line a
// finding: "run/evidence/rounds/…/round.json: changed since it was sealed: …".
base::Result<SealedEvidence> LoadSealed(const Layout& layout);

// Checks the seal, recomputes the summary from the raw records and compares it
// with the sealed one byte by byte, checks that plan.resolved.json is of the
// workload that capture.json names, and proves again which image each container
// ran (image_proof.h). Whatever is wrong in the evidence is a
// finding on its file; an error as of CheckSeal.
struct Verification {
  base::Sha256Hex digest;  // of SHA256SUMS
  std::vector<SealFinding> findings;
  std::vector<std::string> not_checked;  // and why: what comes after a finding often cannot be
  bool ok() const { return findings.empty(); }
};
base::Result<Verification> VerifyEvidence(const Layout& layout);

}  // namespace upgrade_gate::evidence
