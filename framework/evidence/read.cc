#include "framework/evidence/read.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <tuple>
#include <utility>

#include "framework/base/compression.h"
#include "framework/base/file.h"
#include "framework/base/text.h"
#include "framework/evidence/consistency.h"
#include "framework/evidence/json_fields.h"
#include "framework/evidence/limits.h"
#include "framework/evidence/record_json.h"
#include "framework/evidence/store.h"

namespace upgrade_gate::evidence {
namespace fs = std::filesystem;
namespace {

base::Error Broken(const fs::path& path, std::string_view why) {
  return {base::ErrorKind::kEvidence, fmt::format("{}: {}", base::Visible(path.string()), why)};
}

base::Error AtPath(const fs::path& path, base::Error error) {
  return base::At(base::Visible(path.string()), std::move(error));
}

bool IsThere(const fs::path& path) {
  std::error_code error;
  return fs::exists(fs::symlink_status(path, error));
}

// The children of `folder`, by name; none where it does not exist.
std::vector<fs::path> Children(const fs::path& folder, Listing& listing) {
  std::vector<fs::path> children;
  std::error_code error;
  const fs::file_status status = fs::symlink_status(folder, error);
  if (!fs::exists(status)) return children;
  if (!fs::is_directory(status)) {
    listing.errors.push_back(Broken(folder, "is not a folder"));
    return children;
  }
  fs::directory_iterator it(folder, error);
  for (; !error && it != fs::directory_iterator(); it.increment(error)) {
    children.push_back(it->path());
    if (children.size() > kMaxEntries) break;
  }
  if (error) listing.errors.push_back(Broken(folder, "cannot be listed: " + error.message()));
  std::sort(children.begin(), children.end());
  return children;
}

// Adds the folder to the listing, if it is one and its name is as it should be.
void Take(const fs::path& path, bool name_is_right, bool leftovers_are_fine, std::size_t cap,
          Listing& listing) {
  std::error_code error;
  const std::string name = path.filename().string();
  if (IsUnfinishedFolder(name)) {
    if (!leftovers_are_fine) {
      listing.errors.push_back(Broken(path, "is left over from a write that never finished"));
    }
    return;
  }
  if (!name_is_right || !fs::is_directory(fs::symlink_status(path, error))) {
    listing.errors.push_back(Broken(path, "does not belong here"));
  } else if (listing.folders.size() == cap) {
    listing.errors.push_back(Broken(path, fmt::format("is one more than the cap of {}", cap)));
  } else {
    listing.folders.push_back(path);
  }
}

base::Result<std::vector<RequestRecord>> ReadRequestsFile(const fs::path& path, Phase phase) {
  UG_ASSIGN(const std::string compressed, ReadText(path, kMaxRecordsFileBytes));
  const auto jsonl = base::Decompress(compressed, kMaxRecordsBytes);
  if (!jsonl) return tl::unexpected(AtPath(path, jsonl.error()));
  auto requests = ReadRequests(*jsonl, phase);
  if (!requests) return tl::unexpected(AtPath(path, requests.error()));
  return requests;
}

}  // namespace

base::Result<std::string> ReadText(const fs::path& path, std::uint64_t cap) {
  if (!IsThere(path)) return tl::unexpected(Broken(path, "missing"));
  auto text = base::ReadFile(path, cap);
  if (text) return text;
  std::string cause = text.error().message;
  const std::string prefix = path.string() + ": ";
  if (cause.starts_with(prefix)) cause.erase(0, prefix.size());
  return tl::unexpected(Broken(path, cause));
}

base::Result<base::Json> ReadJson(const fs::path& path, std::uint64_t cap) {
  UG_ASSIGN(const std::string text, ReadText(path, cap));
  auto json = base::ParseJson(text);
  if (!json) return tl::unexpected(AtPath(path, json.error()));
  return json;
}

Listing ListBoots(const Layout& layout, bool leftovers_are_fine) {
  Listing listing;
  for (const fs::path& path : Children(layout.boots(), listing)) {
    const bool right = ParseBootName(path.filename().string()).has_value();
    Take(path, right, leftovers_are_fine, kMaxBoots, listing);
  }
  return listing;
}

Listing ListRounds(const Layout& layout, bool leftovers_are_fine) {
  Listing listing;
  for (const fs::path& folder : Children(layout.rounds(), listing)) {
    std::error_code error;
    if (!base::IsPlainName(folder.filename().string()) ||
        !fs::is_directory(fs::symlink_status(folder, error))) {
      listing.errors.push_back(Broken(folder, "is not the folder of a case"));
      continue;
    }
    for (const fs::path& path : Children(folder, listing)) {
      const bool right = ParseRoundName(path.filename().string()).has_value();
      Take(path, right, leftovers_are_fine, kMaxRounds, listing);
    }
  }
  return listing;
}

namespace {

// No such file: nothing was looked at, as by earlier clients.
base::Result<std::vector<Fact>> ReadFacts(const fs::path& path) {
  if (!IsThere(path)) return std::vector<Fact>();
  UG_ASSIGN(const base::Json json, ReadJson(path, kMaxJsonBytes));
  if (auto checked = CheckSchema(json); !checked) {
    return tl::unexpected(AtPath(path, checked.error()));
  }
  auto facts = FactsFromJson(json, "facts");
  if (!facts) return tl::unexpected(AtPath(path, facts.error()));
  return facts;
}

}  // namespace

base::Result<BootRecord> ReadBoot(const fs::path& folder) {
  const fs::path path = folder / kBootFile;
  UG_ASSIGN(const base::Json json, ReadJson(path, kMaxJsonBytes));
  auto boot = BootFromJson(json);
  if (!boot) return tl::unexpected(AtPath(path, boot.error()));
  const std::string name = Layout::BootName(boot->number, boot->arm);
  if (folder.filename() != name) {
    return tl::unexpected(Broken(path, fmt::format("is of {}, but its folder is named {}", name,
                                                   base::Visible(folder.filename().string()))));
  }
  UG_ASSIGN(boot->facts, ReadFacts(folder / kFactsFile));
  UG_ASSIGN(boot->host_facts, ReadFacts(folder / kHostFile));
  return boot;
}

base::Result<RoundRecord> ReadRound(const fs::path& folder) {
  const fs::path path = folder / kRoundFile;
  const auto name = ParseRoundName(folder.filename().string());
  if (!name) return tl::unexpected(Broken(folder, "is not the name of a round's folder"));
  RoundRecord round;
  UG_ASSIGN(const base::Json json, ReadJson(path, kMaxJsonBytes));
  UG_ASSIGN(round.requests, ReadRequestsFile(folder / kRequestsFile, Phase::kFormal));
  if (IsThere(folder / kWarmupFile)) {
    UG_ASSIGN(round.warmup, ReadRequestsFile(folder / kWarmupFile, Phase::kWarmup));
  }
  if (auto read = RoundFromJson(json, round); !read) {
    return tl::unexpected(AtPath(path, read.error()));
  }
  if (auto checked = CheckRound(round); !checked) {
    return tl::unexpected(AtPath(path, checked.error()));
  }
  round.superseded = name->superseded;
  const std::string of_case = folder.parent_path().filename().string();
  if (round.case_name != of_case || round.boot != name->boot || round.arm != name->arm ||
      round.round != name->round) {
    return tl::unexpected(Broken(
        path, fmt::format("is of case {}, boot {} of arm {}, round {}, which is not what its "
                          "folder's name says",
                          round.case_name, round.boot, round.arm, round.round)));
  }
  return round;
}

base::Result<std::vector<RoundRecord>> ReadRounds(const Layout& layout, bool sealed) {
  const Listing listing = ListRounds(layout, /*leftovers_are_fine=*/!sealed);
  if (!listing.errors.empty()) return tl::unexpected(listing.errors.front());
  std::vector<RoundRecord> rounds;
  for (const fs::path& folder : listing.folders) {
    UG_ASSIGN(RoundRecord round, ReadRound(folder));
    rounds.push_back(std::move(round));
  }
  // Names are in order of their bytes, which puts round 10 before round 9.
  std::stable_sort(rounds.begin(), rounds.end(), [](const RoundRecord& a, const RoundRecord& b) {
    return std::tie(a.case_name, a.boot, a.round) < std::tie(b.case_name, b.boot, b.round);
  });
  return rounds;
}

base::Result<std::vector<BootRecord>> ReadBoots(const Layout& layout) {
  const Listing listing = ListBoots(layout, /*leftovers_are_fine=*/true);
  if (!listing.errors.empty()) return tl::unexpected(listing.errors.front());
  std::vector<BootRecord> boots;
  for (const fs::path& folder : listing.folders) {
    UG_ASSIGN(BootRecord boot, ReadBoot(folder));
    const auto same = std::find_if(boots.begin(), boots.end(), [&](const BootRecord& other) {
      return other.number == boot.number;
    });
    if (same != boots.end()) {
      return tl::unexpected(Broken(folder, fmt::format("boot {} is there twice, of arms {} and {}",
                                                       boot.number, same->arm, boot.arm)));
    }
    boots.push_back(std::move(boot));
  }
  std::sort(boots.begin(), boots.end(),
            [](const BootRecord& a, const BootRecord& b) { return a.number < b.number; });
  return boots;
}

base::Result<CaptureRecord> ReadCapture(const Layout& layout) {
  UG_ASSIGN(const base::Json json, ReadJson(layout.capture(), kMaxJsonBytes));
  auto capture = CaptureFromJson(json);
  if (!capture) return tl::unexpected(AtPath(layout.capture(), capture.error()));
  return capture;
}

}  // namespace upgrade_gate::evidence
