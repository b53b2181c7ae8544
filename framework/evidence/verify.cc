// LoadSealed and VerifyEvidence of store.h.
#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <map>
#include <optional>
#include <utility>

#include "framework/base/json.h"
#include "framework/base/text.h"
#include "framework/evidence/image_proof.h"
#include "framework/evidence/json_difference.h"
#include "framework/evidence/limits.h"
#include "framework/evidence/read.h"
#include "framework/evidence/store.h"

namespace upgrade_gate::evidence {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kMaxErrorLines = 50;

std::string Shown(const fs::path& path) {
  return base::Visible(path.string());
}

// Reads a file and proves that its bytes are those that the seal lists: it may
// have been replaced since the seal was checked.
base::Result<std::string> ReadSealedText(const Layout& layout, const SealCheck& check,
                                         const fs::path& path, std::uint64_t cap) {
  UG_ASSIGN(std::string text, ReadText(path, cap));
  const auto listed = check.files.find(path.lexically_relative(layout.evidence()).generic_string());
  if (listed == check.files.end() || listed->second != base::Sha256Of(text)) {
    return base::EvidenceError(Shown(path) + ": changed while it was read");
  }
  return text;
}

class Verifier {
 public:
  Verifier(const Layout& layout, const SealCheck& seal) : layout_(layout), seal_(seal) {
    result_.digest = seal.digest;
    result_.findings = seal.findings;
  }

  Verification Run() {
    if (!seal_.ok()) {
      result_.not_checked.emplace_back("what the files say: the seal is broken");
      return std::move(result_);
    }
    Keep(ReadSealedText(layout_, seal_, layout_.plan(), kMaxPlanYamlBytes));
    const auto capture = Keep(ReadCapture(layout_));
    CheckWorkload(capture);
    CheckSummary(capture);
    return std::move(result_);
  }

 private:
  // The value, or a finding and nothing.
  template <typename T>
  std::optional<T> Keep(base::Result<T> read) {
    if (read) return *std::move(read);
    Find(read.error());
    return std::nullopt;
  }

  // "<evidence>/<file>: <problem>" taken apart.
  void Find(const base::Error& error) {
    std::string_view message = error.message;
    const std::string prefix = Shown(layout_.evidence()) + "/";
    const auto end = message.find(": ", prefix.size());
    if (!message.starts_with(prefix) || end == std::string_view::npos) {
      Find(".", error.message);
      return;
    }
    Find(std::string(message.substr(prefix.size(), end - prefix.size())),
         std::string(message.substr(end + 2)));
  }
  void Find(std::string file, std::string problem) {
    ++found_;
    if (result_.findings.size() < kMaxFindings) {
      result_.findings.push_back({std::move(file), std::move(problem)});
    }
  }

  void CheckWorkload(const std::optional<CaptureRecord>& capture) {
    const auto text = Keep(ReadSealedText(layout_, seal_, layout_.resolved_plan(), kMaxJsonBytes));
    if (!text) return;
    const auto json = base::ParseJson(*text);
    if (!json) return Find("plan.resolved.json", json.error().message);
    const auto workload = base::Member(*json, "workload");
    if (!workload) return Find("plan.resolved.json", workload.error().message);
    workload_ = **workload;
    if (!capture) {
      result_.not_checked.emplace_back("the workload's digest: capture.json cannot be read");
      return;
    }
    const base::Sha256Hex digest = base::Sha256Of(base::WriteJsonLine(**workload));
    if (digest != capture->workload) {
      Find("plan.resolved.json",
           fmt::format("its workload has the sha256 {}, but capture.json says {}", digest,
                       capture->workload.empty() ? "nothing" : capture->workload));
    }
  }

  void CheckSummary(const std::optional<CaptureRecord>& capture) {
    const std::size_t before = found_;
    const auto text = Keep(ReadSealedText(layout_, seal_, layout_.summary(), kMaxSummaryBytes));
    std::optional<Summary> sealed;
    if (text) {
      auto read = ReadSummary(*text);
      if (read) {
        sealed = *std::move(read);
      } else {
        Find("summary.json", read.error().message);
      }
    }
    const auto boots = Keep(ReadBoots(layout_));
    for (const base::Error& error : ListBoots(layout_, /*leftovers_are_fine=*/false).errors) {
      if (boots) Find(error);  // otherwise the first of them has been found already
    }
    const std::vector<RoundRecord> rounds = ReadAllRounds();
    if (boots) CheckImages(*boots, rounds);
    if (found_ != before || !capture || !boots || !sealed) {
      result_.not_checked.emplace_back(
          "whether summary.json follows from the records: not all of them can be read");
      return;
    }
    std::vector<std::string> order;
    for (const CaseSummary& each : sealed->cases) order.push_back(each.name);
    const auto recomputed = Summarize(*capture, *boots, rounds, order);
    if (!recomputed) {
      return Find("summary.json", "cannot be recomputed: " + recomputed.error().message);
    }
    Compare(*text, WriteSummary(*recomputed));
  }

  // Whether each container ran the image that the plan pins for its arm.
  void CheckImages(const std::vector<BootRecord>& boots, const std::vector<RoundRecord>& rounds) {
    const bool docker = workload_ && TextAt({"server", "launcher"}) == "docker";
    for (const BootRecord& boot : boots) {
      const std::string name =
          fmt::format("boots/{}/{}/", Layout::BootName(boot.number, boot.arm), kImageFolder);
      const std::size_t before = found_;
      const auto read = Keep(ReadImageProof(layout_.boot(boot.number, boot.arm)));
      if (found_ != before) continue;
      if (!*read) {
        // A boot that measured nothing may have ended before it had a container.
        const bool measured = std::any_of(rounds.begin(), rounds.end(), [&](const auto& round) {
          return round.boot == boot.number;
        });
        if (docker && measured) {
          Find(name + kImageProofFile,
               "missing: nothing proves which image the measured container ran");
        }
        continue;
      }
      const ImageProof& proof = **read;
      const ImageProofCheck checked = CheckImageProof(proof);
      for (const SealFinding& finding : checked.findings) {
        Find(name + finding.file, finding.problem);
      }
      for (const std::string& what : checked.not_checked) {
        result_.not_checked.push_back(fmt::format("boot {} ({}): {}", boot.number, boot.arm, what));
      }
      if (!workload_) continue;
      const std::string pinned = TextAt({"arms", boot.arm, "image"});
      if (proof.reference != pinned) {
        Find(name + kImageProofFile,
             fmt::format("is of the image {}, the plan pins {} for the arm {}",
                         base::Visible(proof.reference),
                         pinned.empty() ? "none" : base::Visible(pinned), boot.arm));
      }
    }
  }

  // A text of the workload; empty if there is none.
  std::string TextAt(std::initializer_list<std::string_view> path) const {
    const base::Json* at = &*workload_;
    for (const std::string_view key : path) {
      const auto member = base::Member(*at, key);
      if (!member) return {};
      at = *member;
    }
    return at->is_string() ? at->get<std::string>() : std::string();
  }

  std::vector<RoundRecord> ReadAllRounds() {
    std::vector<RoundRecord> rounds;
    const Listing listing = ListRounds(layout_, /*leftovers_are_fine=*/false);
    for (const base::Error& error : listing.errors) Find(error);
    for (const fs::path& folder : listing.folders) {
      if (auto round = Keep(ReadRound(folder))) rounds.push_back(*std::move(round));
    }
    return rounds;
  }

  void Compare(const std::string& sealed, const std::string& recomputed) {
    if (sealed == recomputed) return;
    const auto one = base::ParseJson(sealed);
    const auto other = base::ParseJson(recomputed);
    std::string where = one && other ? FirstDifference(*one, *other) : "";
    if (where.empty()) {
      const auto at =
          std::mismatch(sealed.begin(), sealed.end(), recomputed.begin(), recomputed.end());
      where = fmt::format("the same values, but written otherwise from byte {} on",
                          at.first - sealed.begin());
    }
    Find("summary.json", "does not follow from the records: " + where);
  }

  const Layout& layout_;
  const SealCheck& seal_;
  Verification result_;
  std::size_t found_ = 0;
  std::optional<base::Json> workload_;  // of the resolved plan, where it can be read
};

}  // namespace

base::Result<SealedEvidence> LoadSealed(const Layout& layout) {
  UG_ASSIGN(const SealCheck check, CheckSeal(layout.evidence()));
  if (!check.ok()) {
    std::string lines;
    std::size_t listed = 0;
    for (const SealFinding& finding : check.findings) {
      if (listed == kMaxErrorLines) {
        lines += fmt::format("\n{}: {} more findings", Shown(layout.evidence()),
                             check.findings.size() - listed);
        break;
      }
      lines += fmt::format("{}{}/{}: {}", listed++ == 0 ? "" : "\n", Shown(layout.evidence()),
                           finding.file, finding.problem);
    }
    return base::EvidenceError(lines);
  }
  SealedEvidence evidence;
  evidence.digest = check.digest;
  UG_ASSIGN(evidence.plan_yaml, ReadSealedText(layout, check, layout.plan(), kMaxPlanYamlBytes));
  UG_ASSIGN(evidence.resolved_plan,
            ReadSealedText(layout, check, layout.resolved_plan(), kMaxJsonBytes));
  UG_ASSIGN(const std::string summary,
            ReadSealedText(layout, check, layout.summary(), kMaxSummaryBytes));
  auto read = ReadSummary(summary);
  if (!read) return tl::unexpected(base::At(Shown(layout.summary()), read.error()));
  evidence.summary = *std::move(read);
  return evidence;
}

base::Result<Verification> VerifyEvidence(const Layout& layout) {
  UG_ASSIGN(const SealCheck seal, CheckSeal(layout.evidence()));
  return Verifier(layout, seal).Run();
}

}  // namespace upgrade_gate::evidence
