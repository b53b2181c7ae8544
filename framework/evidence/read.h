// The readers behind store.h, one folder or file at a time. Private.
//
// Every error is of kind kEvidence and starts with the path that it is about.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "framework/base/json.h"
#include "framework/base/result.h"
#include "framework/evidence/layout.h"
#include "framework/evidence/records.h"

namespace upgrade_gate::evidence {

base::Result<std::string> ReadText(const std::filesystem::path& path, std::uint64_t cap);
base::Result<base::Json> ReadJson(const std::filesystem::path& path, std::uint64_t cap);

// The folders of all boots or rounds, by name; what else is there, such as a
// leftover (unless `leftovers_are_fine`), is an error each.
struct Listing {
  std::vector<std::filesystem::path> folders;
  std::vector<base::Error> errors;
};
Listing ListBoots(const Layout& layout, bool leftovers_are_fine);
Listing ListRounds(const Layout& layout, bool leftovers_are_fine);

base::Result<BootRecord> ReadBoot(const std::filesystem::path& folder);

}  // namespace upgrade_gate::evidence
