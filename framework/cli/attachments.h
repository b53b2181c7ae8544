// How junit.xml names files, so that the CI system which reads it finds them.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "framework/base/result.h"
#include "framework/cli/commands.h"

namespace upgrade_gate::cli {

// The report's folder, which must exist, as the attachments name it; absent: there
// are none. kUsage where no reader could follow the path: GitLab drops what lies
// outside the project without a word, so that is refused here.
base::Result<std::optional<std::filesystem::path>> AttachmentFolder(
    const ReportOptions& options, const std::filesystem::path& report);

// `file` relative to a given --project that holds it, as annotations need it;
// otherwise as it stands.
std::string FileInProject(const ReportOptions& options, const std::filesystem::path& file);

}  // namespace upgrade_gate::cli
