#include "framework/evidence/seal.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>
#include <system_error>
#include <utility>

#include "framework/base/file.h"
#include "framework/base/text.h"
#include "framework/evidence/layout.h"
#include "framework/evidence/limits.h"
#include "framework/evidence/sums.h"
#include "framework/evidence/tree_walk.h"

namespace upgrade_gate::evidence {
namespace fs = std::filesystem;
namespace {

// "folder/" would follow a link that "folder" does not.
fs::path WithoutSlash(const fs::path& folder) {
  return folder.has_filename() ? folder : folder.parent_path();
}

base::Result<base::Sha256Hex> DigestOf(const base::Fd& file, const std::string& name) {
  base::Sha256 digest;
  std::string piece(std::size_t{1} << 16, '\0');
  for (;;) {
    const ssize_t got = read(file.get(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      const std::string cause = std::strerror(errno);
      return base::InfrastructureError(
          fmt::format("{}: cannot read: {}", base::Visible(name), cause));
    }
    if (got == 0) return digest.Finish();
    digest.Update({piece.data(), static_cast<std::size_t>(got)});
  }
}

// What an interrupted Seal left behind is not content.
base::Status RemoveOwnLeftovers(const fs::path& folder) {
  UG_ASSIGN(const auto entries, base::ListTree(folder));
  for (const base::Entry& entry : entries) {
    const bool ours = entry.path.starts_with(std::string(kSumsName) + ".") &&
                      IsUnfinishedFile(entry.path) && entry.kind == base::Entry::Kind::kFile;
    if (ours) UG_TRY(base::RemoveAll(folder / entry.path));
  }
  return {};
}

base::Status RemoveEmptyFolders(const fs::path& folder) {
  UG_ASSIGN(auto entries, base::ListTree(folder));
  std::reverse(entries.begin(), entries.end());  // what is inside comes before what holds it
  for (const base::Entry& entry : entries) {
    if (entry.kind != base::Entry::Kind::kDirectory) continue;
    const fs::path path = folder / entry.path;
    if (rmdir(path.c_str()) != 0 && errno != ENOTEMPTY && errno != EEXIST) {
      const std::string cause = std::strerror(errno);
      return base::InfrastructureError(
          fmt::format("{}: cannot remove the empty folder: {}", path.string(), cause));
    }
  }
  return {};
}

std::string Brief(const base::Sha256Hex& digest) {
  return digest.substr(0, 12) + "…";
}

class Checker {
 public:
  explicit Checker(const Sums& sums) : sums_(sums) {}

  base::Status File(const std::string& name, const base::Fd& file) {
    if (name == kSumsName) return {};
    const auto listed = sums_.find(name);
    if (listed == sums_.end()) {
      Find(name, "not in SHA256SUMS: added since it was sealed");
      return {};
    }
    seen_.insert(name);
    UG_ASSIGN(const base::Sha256Hex digest, DigestOf(file, name));
    if (digest != listed->second) {
      Find(name, fmt::format("changed since it was sealed: sha256 {} in SHA256SUMS, {} now",
                             Brief(listed->second), Brief(digest)));
    }
    return {};
  }

  void Find(const std::string& name, std::string problem) {
    seen_.insert(name);
    findings_.emplace_back(name, std::move(problem));
  }

  std::vector<std::pair<std::string, std::string>> Finish() {
    for (const auto& [name, digest] : sums_) {
      if (!seen_.contains(name)) findings_.emplace_back(name, "missing");
    }
    std::stable_sort(findings_.begin(), findings_.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    return std::move(findings_);
  }

 private:
  const Sums& sums_;
  std::set<std::string> seen_;
  std::vector<std::pair<std::string, std::string>> findings_;
};

void Cap(std::vector<SealFinding>& findings) {
  if (findings.size() <= kMaxFindings) return;
  const std::size_t more = findings.size() - kMaxFindings;
  findings.resize(kMaxFindings);
  findings.push_back({".", fmt::format("{} more findings are not listed", more)});
}

}  // namespace

bool IsSealed(const fs::path& folder) {
  std::error_code error;
  return fs::exists(fs::symlink_status(folder / kSumsName, error));
}

base::Result<base::Sha256Hex> Seal(const fs::path& given) {
  const fs::path folder = WithoutSlash(given);
  std::error_code error;
  if (!fs::is_directory(fs::symlink_status(folder, error))) {
    return base::EvidenceError(folder.string() + ": is not a folder");
  }
  if (IsSealed(folder)) {
    return base::EvidenceError(folder.string() + ": is already sealed; a seal is never replaced");
  }
  UG_TRY(RemoveOwnLeftovers(folder));
  UG_TRY(RemoveEmptyFolders(folder));

  Sums sums;
  CaseFold fold;
  std::string problems;
  const auto refuse = [&](const std::string& name, const std::string& problem) {
    problems += fmt::format("{}{}: {}", problems.empty() ? "" : "\n",
                            base::Visible((folder / name).string()), problem);
  };
  const TreeVisitor visitor{
      .file = [&](const std::string& name, const base::Fd& file) -> base::Status {
        if (const std::string other = fold.Add(name); !other.empty()) {
          refuse(name,
                 fmt::format("differs from \"{}\" in nothing but case", base::Visible(other)));
          return {};
        }
        UG_ASSIGN(sums[name], DigestOf(file, name));
        return {};
      },
      .problem = refuse};
  UG_TRY(WalkTree(folder, visitor));
  if (!problems.empty()) return base::EvidenceError(problems);
  if (sums.empty()) return base::EvidenceError(folder.string() + ": holds no file to seal");

  const std::string text = WriteSums(sums);
  if (text.size() > kMaxSumsBytes) {
    return base::EvidenceError(folder.string() + ": holds too many files to seal");
  }
  UG_TRY(base::WriteFileAtomically(folder / kSumsName, text));
  return base::Sha256Of(text);
}

base::Result<SealCheck> CheckSeal(const fs::path& given) {
  const fs::path folder = WithoutSlash(given);
  SealCheck check;
  std::error_code error;
  const fs::file_status status = fs::symlink_status(folder, error);
  if (!fs::exists(status)) {
    return base::EvidenceError(base::Visible(folder.string()) + ": there is no such folder");
  }
  if (!fs::is_directory(status)) {
    check.findings.push_back(
        {".", fs::is_symlink(status) ? "is a symbolic link" : "is not a folder"});
    return check;
  }
  if (!IsSealed(folder)) {
    check.findings.push_back({kSumsName, "missing: the folder is not sealed"});
    return check;
  }
  const auto text = base::ReadFile(folder / kSumsName, kMaxSumsBytes);
  if (!text) {
    const std::string prefix = (folder / kSumsName).string() + ": ";
    std::string problem = text.error().message;
    if (problem.starts_with(prefix)) problem.erase(0, prefix.size());
    check.findings.push_back({kSumsName, std::move(problem)});
    return check;
  }
  check.digest = base::Sha256Of(*text);
  ParsedSums parsed = ParseSums(*text);
  for (std::string& problem : parsed.problems) {
    check.findings.push_back({kSumsName, std::move(problem)});
  }
  if (parsed.files.empty()) check.findings.push_back({kSumsName, "lists no file"});

  Checker checker(parsed.files);
  const TreeVisitor visitor{
      .file = [&](const std::string& name,
                  const base::Fd& file) { return checker.File(name, file); },
      .problem = [&](const std::string& name,
                     const std::string& problem) { checker.Find(name, problem); }};
  UG_TRY(WalkTree(folder, visitor));
  for (auto& [name, problem] : checker.Finish()) {
    check.findings.push_back({base::Visible(name), std::move(problem)});
  }
  Cap(check.findings);
  check.files = std::move(parsed.files);
  return check;
}

}  // namespace upgrade_gate::evidence
