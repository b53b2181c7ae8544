#include "framework/plan/plan_file.h"

#include <optional>
#include <system_error>
#include <utility>

#include "framework/base/file.h"
#include "framework/base/text.h"
#include "framework/plan/decode.h"
#include "framework/plan/document.h"
#include "framework/plan/resolve.h"

namespace upgrade_gate::plan {

base::Result<Plan> ParsePlan(std::string_view yaml, std::string_view file) {
  Errors errors(file);
  const std::optional<Document> document = ReadDocument(yaml, errors);
  if (!document) return tl::unexpected(errors.ToError());
  // A doubled key has lost a value, of whatever section.
  const bool lost = !errors.empty();
  Decoded decoded = DecodePlan(*document->root, errors);
  if (errors.empty()) return std::move(decoded.plan);
  // The rest of the errors too, so that the user sees all of them at once.
  ResolvePlan(decoded.plan, lost ? Incomplete::All() : decoded.incomplete, errors);
  return tl::unexpected(errors.ToError());
}

base::Result<ResolvedPlan> Resolve(const Plan& plan, std::string_view file) {
  Errors errors(file);
  ResolvedPlan resolved = ResolvePlan(plan, Incomplete{}, errors);
  if (!errors.empty()) return tl::unexpected(errors.ToError());
  return resolved;
}

base::Result<LoadedPlan> LoadPlan(const std::filesystem::path& path) {
  LoadedPlan loaded;
  loaded.file = path.string();
  loaded.directory = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
  // The user names the plan, so a link to it is followed, unlike a link in evidence.
  std::error_code error;
  std::filesystem::path target = std::filesystem::canonical(path, error);
  if (error) return base::UsageError(base::Visible(loaded.file) + ": " + error.message());
  auto yaml = base::ReadFile(target, kMaxPlanBytes);
  if (!yaml) return base::UsageError(base::Visible(yaml.error().message));
  loaded.yaml = std::move(*yaml);
  UG_ASSIGN(const Plan plan, ParsePlan(loaded.yaml, loaded.file));
  UG_ASSIGN(loaded.plan, Resolve(plan, loaded.file));
  return loaded;
}

}  // namespace upgrade_gate::plan
