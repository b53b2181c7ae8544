// The writers of store.h; the readers are in read.cc and verify.cc.
#include "framework/evidence/store.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "framework/base/compression.h"
#include "framework/base/file.h"
#include "framework/base/json.h"
#include "framework/base/text.h"
#include "framework/evidence/consistency.h"
#include "framework/evidence/limits.h"
#include "framework/evidence/record_json.h"

namespace upgrade_gate::evidence {
namespace fs = std::filesystem;
namespace {

bool IsThere(const fs::path& path) {
  std::error_code error;
  return fs::exists(fs::symlink_status(path, error));
}

// What a caller hands over wrongly is our side's fault, not the evidence's.
tl::unexpected<base::Error> Refuse(const fs::path& path, std::string_view why) {
  return base::InfrastructureError(fmt::format("{}: not written: {}", path.string(), why));
}

// What has been sealed stays as it is.
base::Status CheckOpen(const Layout& layout, const fs::path& path) {
  if (IsSealed(layout.evidence())) return Refuse(path, "the evidence is sealed");
  return {};
}

base::Result<std::string> CompressRecords(const fs::path& path,
                                          const std::vector<RequestRecord>& requests, Phase phase) {
  const std::string jsonl = WriteRequests(requests, phase);
  for (std::size_t start = 0; start < jsonl.size();) {
    const std::size_t length = jsonl.find('\n', start) - start;
    if (length > kMaxRecordLineBytes) {
      return Refuse(path, fmt::format("a record of {} bytes is over the cap of {}", length,
                                      kMaxRecordLineBytes));
    }
    start += length + 1;
  }
  std::string compressed = base::Compress(jsonl);
  if (jsonl.size() > kMaxRecordsBytes || compressed.size() > kMaxRecordsFileBytes) {
    return Refuse(path, "longer than its cap");
  }
  return compressed;
}

base::Status CheckStreams(const fs::path& folder, const RoundRecord& round,
                          const std::vector<RawStream>& streams) {
  std::set<std::string> names;
  for (const RawStream& stream : streams) {
    const std::string name = Layout::StreamName(stream.index, stream.phase);
    const auto& requests = stream.phase == Phase::kWarmup ? round.warmup : round.requests;
    const bool known = std::any_of(requests.begin(), requests.end(), [&](const auto& request) {
      return request.index == stream.index;
    });
    if (stream.phase == Phase::kDiagnostic || !known) {
      return Refuse(folder, fmt::format("stream {} belongs to no request of the round", name));
    }
    if (!names.insert(name).second) {
      return Refuse(folder, fmt::format("stream {} is there twice", name));
    }
  }
  return {};
}

}  // namespace

base::Status WriteRound(const Layout& layout, const RoundRecord& round,
                        const std::vector<RawStream>& streams,
                        const std::function<void()>& before_rename) {
  const fs::path folder = layout.round(round.case_name, round.boot, round.arm, round.round);
  UG_TRY(CheckOpen(layout, folder));
  if (auto checked = CheckRound(round); !checked) return Refuse(folder, checked.error().message);
  if (round.superseded) return Refuse(folder, "it is superseded before it was written");
  if (IsThere(folder)) return Refuse(folder, "it is already there");
  UG_TRY(CheckStreams(folder, round, streams));
  UG_ASSIGN(const std::string requests, CompressRecords(folder, round.requests, Phase::kFormal));
  UG_ASSIGN(const std::string warmup, CompressRecords(folder, round.warmup, Phase::kWarmup));

  const fs::path aside = UnfinishedName(folder);
  UG_TRY(base::RemoveAll(aside));
  UG_TRY(base::CreateDirectories(aside));
  UG_TRY(base::WriteFile(aside / kRequestsFile, requests));
  if (!round.warmup.empty()) UG_TRY(base::WriteFile(aside / kWarmupFile, warmup));
  if (!streams.empty()) UG_TRY(base::CreateDirectories(aside / kStreamsFolder));
  for (const RawStream& stream : streams) {
    std::string spooled;
    if (stream.spooled) {
      UG_ASSIGN(spooled, stream.spooled->Read());
    }
    UG_TRY(base::WriteFile(aside / kStreamsFolder / Layout::StreamName(stream.index, stream.phase),
                           base::Compress(stream.spooled ? spooled : stream.bytes)));
  }
  UG_TRY(base::WriteFile(aside / kRoundFile, base::WriteJson(RoundToJson(round))));
  before_rename();
  return base::RenameDirectory(aside, folder);
}

base::Status RemoveUnfinished(const Layout& layout) {
  if (!IsThere(layout.evidence())) return {};
  UG_TRY(CheckOpen(layout, layout.evidence()));
  UG_ASSIGN(const auto entries, base::ListTree(layout.evidence()));
  for (const base::Entry& entry : entries) {
    const fs::path path = layout.evidence() / entry.path;
    const std::string name = path.filename().string();
    const bool folder = entry.kind == base::Entry::Kind::kDirectory && IsUnfinishedFolder(name);
    const bool file = entry.kind == base::Entry::Kind::kFile && IsUnfinishedFile(name);
    // Its entries come after a folder and are gone with it.
    if (folder || file) UG_TRY(base::RemoveAll(path));
  }
  return {};
}

base::Status Supersede(const Layout& layout, const RoundRecord& round) {
  const fs::path from = layout.round(round.case_name, round.boot, round.arm, round.round);
  UG_TRY(CheckOpen(layout, from));
  if (round.superseded || !IsThere(from)) {
    return Refuse(from, "there is no such round to be superseded");
  }
  fs::path to = from.string() + ".superseded";
  for (int number = 2; IsThere(to); ++number) {
    to = fmt::format("{}.superseded-{}", from.string(), number);
  }
  return base::RenameDirectory(from, to);
}

base::Status WriteBoot(const Layout& layout, const BootRecord& boot) {
  const fs::path folder = layout.boot(boot.number, boot.arm);
  UG_TRY(CheckOpen(layout, folder));
  const auto name = ParseBootName(folder.filename().string());
  if (!name || name->number != boot.number || name->arm != boot.arm) {
    return Refuse(folder, "a boot's number starts at 1 and its arm is a plain name");
  }
  const std::string text = base::WriteJson(BootToJson(boot));
  if (text.size() > kMaxJsonBytes) return Refuse(folder, "longer than its cap");
  if (IsThere(folder)) return base::WriteFileAtomically(folder / kBootFile, text);
  const fs::path aside = UnfinishedName(folder);
  UG_TRY(base::RemoveAll(aside));
  UG_TRY(base::CreateDirectories(aside));
  UG_TRY(base::WriteFile(aside / kBootFile, text));
  return base::RenameDirectory(aside, folder);
}

base::Status WriteFacts(const Layout& layout, const BootRecord& boot) {
  const fs::path folder = layout.boot(boot.number, boot.arm);
  UG_TRY(CheckOpen(layout, folder));
  if (!IsThere(folder / kBootFile)) return Refuse(folder, "the boot has no record yet");
  for (const auto& [name, facts] :
       {std::pair(kFactsFile, &boot.facts), std::pair(kHostFile, &boot.host_facts)}) {
    if (facts->empty()) continue;
    const base::Json json = {{"schema", kSchema}, {"facts", FactsToJson(*facts)}};
    if (auto read = FactsFromJson(json, "facts"); !read) {
      return Refuse(folder / name, read.error().message);
    }
    const std::string text = base::WriteJson(json);
    if (text.size() > kMaxJsonBytes) return Refuse(folder / name, "longer than its cap");
    UG_TRY(base::WriteFileAtomically(folder / name, text));
  }
  return {};
}

base::Status WriteServerLog(const Layout& layout, const BootRecord& boot, std::string_view log) {
  const fs::path folder = layout.boot(boot.number, boot.arm);
  UG_TRY(CheckOpen(layout, folder));
  if (!IsThere(folder / kBootFile)) {
    return Refuse(folder / kServerLogFile, "the boot has no record yet");
  }
  return base::WriteFileAtomically(folder / kServerLogFile, base::Compress(log));
}

base::Status WriteBootDocument(const Layout& layout, const BootRecord& boot,
                               const std::string& name, std::string_view bytes) {
  const fs::path folder = layout.boot(boot.number, boot.arm);
  UG_TRY(CheckOpen(layout, folder));
  const fs::path path = fs::path(name);
  for (const fs::path& part : path) {
    if (!base::IsPlainName(part.string())) {
      return Refuse(folder, fmt::format("document \"{}\": not a plain name", base::Visible(name)));
    }
  }
  if (!IsThere(folder / kBootFile)) return Refuse(folder / path, "the boot has no record yet");
  if (bytes.size() > kMaxJsonBytes) return Refuse(folder / path, "longer than its cap");
  UG_TRY(base::CreateDirectories((folder / path).parent_path()));
  return base::WriteFileAtomically(folder / path, bytes);
}

base::Status WriteCapture(const Layout& layout, const CaptureRecord& capture) {
  UG_TRY(CheckOpen(layout, layout.capture()));
  const std::string text = base::WriteJson(CaptureToJson(capture));
  if (text.size() > kMaxJsonBytes) return Refuse(layout.capture(), "longer than its cap");
  UG_TRY(base::CreateDirectories(layout.evidence()));
  return base::WriteFileAtomically(layout.capture(), text);
}

base::Status WritePrompts(const Layout& layout, const std::string& case_name,
                          std::string_view jsonl) {
  UG_TRY(CheckOpen(layout, layout.prompts()));
  if (!base::IsPlainName(case_name)) {
    return Refuse(layout.prompts(),
                  fmt::format("case \"{}\": not a plain name", base::Visible(case_name)));
  }
  UG_TRY(base::CreateDirectories(layout.prompts()));
  return base::WriteFileAtomically(layout.prompts(case_name), base::Compress(jsonl));
}

}  // namespace upgrade_gate::evidence
