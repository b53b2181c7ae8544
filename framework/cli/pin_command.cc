#include <fmt/format.h>

#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "fixtures/registry/documents.h"
#include "fixtures/registry/oci_layout.h"
#include "fixtures/registry/reference.h"
#include "fixtures/registry/registry_client.h"
#include "framework/base/clock.h"
#include "framework/base/file.h"
#include "framework/base/text.h"
#include "framework/cli/commands.h"
#include "framework/cli/pin_diff.h"
#include "framework/evidence/image_documents.h"
#include "framework/evidence/oci_reference.h"
#include "framework/plan/image_places.h"
#include "framework/plan/plan_file.h"

namespace upgrade_gate::cli {
namespace {

namespace fs = std::filesystem;
using base::ExitCode;
using base::Result;
using evidence::ShownDigest;

struct Pinned {
  std::string text;  // what the plan should say
  std::string note;  // for people
};

// "the index; its manifest for linux/amd64 is sha256:…"
std::string WhatItIs(const evidence::ImageDocuments& documents,
                     const evidence::ImagePlatform& platform) {
  const std::string shown = evidence::ToString(platform);
  if (!documents.index) return fmt::format("the manifest for {}", shown);
  return fmt::format("an index; its manifest for {} is {}", shown,
                     ShownDigest(base::Sha256Of(*documents.manifest)));
}

class Pinner {
 public:
  // Layouts of the plan are below `directory`.
  Pinner(registry::RegistryClient& client, fs::path directory, evidence::ImagePlatform platform,
         bool update, bool pull_never)
      : client_(client),
        directory_(std::move(directory)),
        platform_(std::move(platform)),
        update_(update),
        pull_never_(pull_never) {}

  // What the text should be; each text is asked for once.
  const Result<Pinned>& Pin(const std::string& text) {
    const auto known = known_.find(text);
    if (known != known_.end()) return known->second;
    auto pinned = evidence::IsOciReference(text) ? PinLayout(text) : Ask(text);
    return known_.emplace(text, std::move(pinned)).first->second;
  }

 private:
  Result<Pinned> Ask(const std::string& text) {
    UG_ASSIGN(registry::ImageReference reference, registry::ParseReference(text));
    const auto before = reference.digest;
    if (before && !(update_ && !reference.tag.empty())) {
      if (pull_never_) {
        return Pinned{text, "left: the plan never pulls, so that no registry was asked"};
      }
      UG_ASSIGN(const auto documents, client_.Documents(reference, *before, platform_));
      const bool no_tag = update_ && reference.tag.empty();
      return Pinned{text,
                    fmt::format("left: it is there, {}{}", WhatItIs(documents, platform_),
                                no_tag ? "; without a tag there is nothing to update it by" : "")};
    }
    UG_ASSIGN(const base::Sha256Hex digest, client_.Resolve(reference));
    UG_ASSIGN(const auto documents, client_.Documents(reference, digest, platform_));
    std::string note;
    if (before && *before == digest) {
      note = "left: the tag still is ";
    } else if (before) {
      note = fmt::format("{} -> ", ShownDigest(*before));
    } else if (reference.tag.empty()) {
      reference.tag = "latest";
      note = "no tag, which means latest: ";
    }
    note += fmt::format("{}, {}", ShownDigest(digest), WhatItIs(documents, platform_));
    return Pinned{reference.Pinned(digest), std::move(note)};
  }

  // Of what lies on this machine, whatever the plan says of pulling.
  Result<Pinned> PinLayout(const std::string& text) const {
    auto parsed = evidence::ParseOciReference(text);
    if (!parsed) {
      return base::UsageError(
          fmt::format("the image {} {}", base::Visible(text), parsed.error().message));
    }
    const fs::path folder = directory_ / parsed->path;
    const auto before = parsed->digest;
    base::Sha256Hex digest = before.value_or("");
    if (!before || update_) {
      UG_ASSIGN(digest, registry::ResolveInOciLayout(folder, parsed->name));
    }
    UG_ASSIGN(const auto documents, registry::ReadOciLayout(folder, digest, platform_));
    UG_TRY(registry::FindOciLayers(folder, *documents.manifest));
    const std::string what = WhatItIs(documents, platform_);
    if (before && !update_) return Pinned{text, "left: it is there, " + what};
    std::string note;
    if (before && *before == digest) {
      note = "left: the layout still has ";
    } else if (before) {
      note = fmt::format("{} -> ", ShownDigest(*before));
    }
    note += fmt::format("{}, {}", ShownDigest(digest), what);
    return Pinned{parsed->Pinned(digest), std::move(note)};
  }

  registry::RegistryClient& client_;
  const fs::path directory_;
  evidence::ImagePlatform platform_;
  bool update_;
  bool pull_never_;
  std::map<std::string, Result<Pinned>> known_;
};

// The user's file stays what it is: a link is followed, its mode is kept, and an edit
// of somebody else meanwhile is not undone.
base::Status Replace(const fs::path& path, const std::string& before, const std::string& after) {
  UG_ASSIGN(const std::string now, base::ReadFile(path, plan::kMaxPlanBytes));
  if (now != before) {
    return base::InfrastructureError(
        fmt::format("{}: not written: it was changed while the registry was asked: run this again",
                    base::Visible(path.string())));
  }
  std::error_code error;
  const fs::perms mode = fs::status(path, error).permissions();
  UG_TRY(base::WriteFileAtomically(path, after));
  if (!error) fs::permissions(path, mode, error);
  if (error) {
    return base::InfrastructureError(fmt::format("{}: written, but its mode cannot be kept: {}",
                                                 base::Visible(path.string()), error.message()));
  }
  return {};
}

Result<evidence::ImagePlatform> PlatformOf(const PinOptions& options) {
  if (!options.platform) return registry::HostPlatform();
  auto platform = evidence::ParsePlatform(*options.platform);
  if (!platform) return base::UsageError("--platform: " + platform.error().message);
  return platform;
}

}  // namespace

Result<ExitCode> PinPlan(const PinOptions& options) {
  const std::string file = base::Visible(options.plan.string());
  UG_ASSIGN(const evidence::ImagePlatform platform, PlatformOf(options));
  std::error_code error;
  const fs::path path = fs::canonical(options.plan, error);
  if (error) return base::UsageError(file + ": " + error.message());
  const auto read = base::ReadFile(path, plan::kMaxPlanBytes);
  if (!read) return base::UsageError(base::Visible(read.error().message));
  const std::string& yaml = *read;
  UG_ASSIGN(const plan::PlanImages images, plan::FindImages(yaml, file));
  if (images.places.empty()) {
    return base::Fail(base::ErrorKind::kNothingRan,
                      file +
                          ": no arm has an image (\"image\", \"built_from\"), so that there is "
                          "nothing to pin");
  }
  base::SystemClock clock;
  UG_ASSIGN(const std::unique_ptr<registry::RegistryClient> client,
            registry::RegistryClient::Make(clock, registry::DefaultRegistryOptions()));
  // Where LoadPlan begins relative paths: beside the link, if the plan is one.
  Pinner pinner(*client, options.plan.parent_path(), platform, options.update, images.pull_never);

  std::vector<plan::ImageEdit> edits;
  std::optional<base::Error> failed;
  for (const plan::ImagePlace& place : images.places) {
    const std::string where = fmt::format("{}:{}:{}", file, place.at.line, place.at.column);
    const Result<Pinned>& pinned = pinner.Pin(place.text);
    if (!pinned) {
      const base::Error problem = base::At(where, pinned.error());
      if (failed) {
        failed->message += "\n" + problem.message;
        if (problem.kind == base::ErrorKind::kInfrastructure) failed->kind = problem.kind;
      } else {
        failed = problem;
      }
      continue;
    }
    fmt::print(stderr, "{}: {}: {}: {}\n", where, base::JoinList(place.arms),
               base::Visible(place.text), pinned->note);
    if (pinned->text != place.text) edits.push_back({place, pinned->text});
  }
  if (failed) {
    failed->message += fmt::format("\n{}: not changed", file);
    return tl::unexpected(*std::move(failed));
  }
  if (edits.empty()) {
    fmt::print(stderr, "{}: nothing to change, {} {}\n", file, images.places.size(),
               images.places.size() == 1 ? "image" : "images");
    return ExitCode::kAccept;
  }
  const std::string edited = plan::WithImages(yaml, edits);
  UG_TRY(plan::FindImages(edited, file));
  if (options.in_place) UG_TRY(Replace(path, yaml, edited));
  fmt::print("{}", LineDiff(file, yaml, edited));
  if (options.in_place) fmt::print(stderr, "{}: changed\n", file);
  return ExitCode::kAccept;
}

}  // namespace upgrade_gate::cli
