// Every file below a folder, reached without following one link: each step is
// an openat with O_NOFOLLOW from the folder before it. Private.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "framework/base/file.h"
#include "framework/base/result.h"

namespace upgrade_gate::evidence {

struct TreeVisitor {
  // A regular file, open for reading at its start; names are relative, with '/'.
  std::function<base::Status(const std::string& name, const base::Fd& file)> file;
  // Anything that is neither a file nor a folder with something in it.
  std::function<void(const std::string& name, const std::string& problem)> problem;
};

// In order of names within each folder. "." is the name of `root` itself, which
// must be written without a slash at its end: that would follow a link.
base::Status WalkTree(const std::filesystem::path& root, const TreeVisitor& visitor);

}  // namespace upgrade_gate::evidence
