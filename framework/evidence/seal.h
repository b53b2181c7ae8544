// The seal of a folder: SHA256SUMS over every file in it.
//
// The format is sha256sum's, but the verifier is stricter than `sha256sum -c`:
// the set of names must be equal, names stay inside the folder, and links,
// devices and sockets are refused. A line cannot stand for a folder without
// files, so that sealing removes empty folders and one found later is a finding.
//
// What a seal does not say: who made it. A signature over its digest does.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "framework/base/digest.h"
#include "framework/base/result.h"

namespace upgrade_gate::evidence {

inline constexpr const char* kSumsName = "SHA256SUMS";

// Writes SHA256SUMS (last, atomically) over all files of `folder`; returns the
// digest of SHA256SUMS, which names this evidence from then on. Refuses a
// folder that is already sealed, holds no file, or holds anything but files and
// folders. Nobody else may write into the folder meanwhile.
base::Result<base::Sha256Hex> Seal(const std::filesystem::path& folder);

struct SealFinding {
  std::string file;     // relative to the folder, made visible; "." is the folder itself
  std::string problem;  // "changed …", "missing", "not in SHA256SUMS", "is a symbolic link", …
};

struct SealCheck {
  base::Sha256Hex digest;  // of SHA256SUMS; empty where that could not be read
  std::map<std::string, base::Sha256Hex> files;  // what SHA256SUMS lists
  std::vector<SealFinding> findings;             // of SHA256SUMS first, then by name
  bool ok() const { return findings.empty(); }
};

// Reads every byte of every listed file and follows no link. A missing
// SHA256SUMS is a finding. An error only where the check itself cannot be done:
// kEvidence where there is no folder, kInfrastructure where a file cannot be read.
base::Result<SealCheck> CheckSeal(const std::filesystem::path& folder);

// True if the folder has a SHA256SUMS; says nothing about its being right.
bool IsSealed(const std::filesystem::path& folder);

}  // namespace upgrade_gate::evidence
