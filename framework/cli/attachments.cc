#include "framework/cli/attachments.h"

#include <fmt/format.h>

#include "framework/base/text.h"

namespace upgrade_gate::cli {
namespace {

namespace fs = std::filesystem;

// Without links and "..", so that two names of one folder are one.
base::Result<fs::path> Canonical(const char* option, const fs::path& path) {
  std::error_code error;
  fs::path canonical = fs::canonical(path, error);
  if (error) {
    return base::UsageError(fmt::format("{} {}: cannot resolve: {}", option,
                                        base::Visible(path.string()), error.message()));
  }
  return canonical;
}

// `path` as seen from `folder`, both canonical; absent where it is outside.
std::optional<fs::path> Inside(const fs::path& folder, const fs::path& path) {
  const fs::path relative = path.lexically_relative(folder);
  if (relative.empty() || *relative.begin() == "..") return std::nullopt;
  return relative == "." ? fs::path() : relative;
}

}  // namespace

base::Result<std::optional<fs::path>> AttachmentFolder(const ReportOptions& options,
                                                       const fs::path& report) {
  if (options.attachments == Attachments::kNone) return std::nullopt;
  UG_ASSIGN(const fs::path folder, Canonical("--attachments", report));
  std::optional<fs::path> named = folder;
  if (options.attachments == Attachments::kRelative) {
    UG_ASSIGN(const fs::path project, Canonical("--project", options.project.value_or(".")));
    named = Inside(project, folder);
    if (!named) {
      return base::UsageError(
          fmt::format("--attachments relative: {} is outside the project {}, where CI would not "
                      "look; put the run into the project, or name its folder by --project",
                      base::Visible(folder.string()), base::Visible(project.string())));
    }
  }
  const std::string text = named->string();
  if (base::Visible(text) != text || text.find("]]") != std::string::npos) {
    return base::UsageError(
        fmt::format("--attachments: {} cannot be named in junit.xml: control characters, broken "
                    "UTF-8 and \"]]\" have no place there; put the run into another folder",
                    base::Visible(text)));
  }
  return named;
}

std::string FileInProject(const ReportOptions& options, const fs::path& file) {
  std::error_code error;
  if (!options.project) return file.string();
  const fs::path project = fs::canonical(*options.project, error);
  if (error) return file.string();
  const fs::path canonical = fs::canonical(file, error);
  if (error) return file.string();
  return Inside(project, canonical).value_or(file).string();
}

}  // namespace upgrade_gate::cli
