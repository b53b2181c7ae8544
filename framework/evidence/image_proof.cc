#include "framework/evidence/image_proof.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <system_error>
#include <utility>

#include "framework/base/file.h"
#include "framework/base/json.h"
#include "framework/base/text.h"
#include "framework/evidence/json_fields.h"
#include "framework/evidence/limits.h"
#include "framework/evidence/oci_reference.h"
#include "framework/evidence/read.h"

namespace upgrade_gate::evidence {
namespace fs = std::filesystem;
namespace {

using base::Json;
using base::Sha256Hex;

constexpr std::size_t kMaxContainers = 1'000;
constexpr std::size_t kMaxReferenceBytes = 1'024;
constexpr std::array kStrengths = {ProofStrength::kRegistry, ProofStrength::kLayout,
                                   ProofStrength::kConfig};

std::optional<Sha256Hex> DigestOf(const std::optional<std::string>& bytes) {
  if (!bytes) return std::nullopt;
  return base::Sha256Of(*bytes);
}

// Follows the chain from the pin to the container and notes each link that breaks.
class Checker {
 public:
  explicit Checker(const ImageProof& proof)
      : proof_(proof), documents_(proof.documents), digests_(check_.digests) {}

  ImageProofCheck Run() {
    digests_.index = DigestOf(documents_.index);
    digests_.manifest = DigestOf(documents_.manifest);
    digests_.config = DigestOf(documents_.config);
    auto pin = PinOf(proof_.reference);
    if (!pin) {
      Find(kImageProofFile, pin.error().message);
      return std::move(check_);
    }
    digests_.pin = *std::move(pin);
    const bool from_layout = IsOciReference(proof_.reference);
    if (from_layout != (proof_.strength == ProofStrength::kLayout)) {
      Find(kImageProofFile, fmt::format("is of strength {}, and the plan names {} OCI layout",
                                        Name(proof_.strength), from_layout ? "an" : "no"));
    }
    if (proof_.strength == ProofStrength::kConfig) {
      CheckPinnedConfig();
    } else {
      CheckIndex();
      CheckManifest();
    }
    CheckConfig();
    CheckContainers();
    return std::move(check_);
  }

 private:
  void Find(const char* file, std::string problem) {
    check_.findings.push_back({file, std::move(problem)});
  }

  // The pinned document: what it is called in a message, and its digest.
  void CheckPinned(const char* file, const char* what, const Sha256Hex& digest) {
    if (digest == digests_.pin) return;
    std::string problem = fmt::format("the {}'s sha256 is {}, the plan pins {}", what,
                                      ShownDigest(digest), ShownDigest(digests_.pin));
    const std::pair<const char*, const std::optional<Sha256Hex>*> others[] = {
        {"index", &digests_.index}, {"manifest", &digests_.manifest}, {"config", &digests_.config}};
    for (const auto& [name, other] : others) {
      if (*other && **other == digests_.pin) problem += fmt::format(", which is the {}", name);
    }
    Find(file, std::move(problem));
  }

  void CheckIndex() {
    if (!documents_.index) return;
    CheckPinned(kImageIndexFile, "index", *digests_.index);
    const auto index = ReadImageManifest(*documents_.index);
    if (!index) return Find(kImageIndexFile, index.error().message);
    if (index->kind != ImageDocumentKind::kIndex) {
      return Find(kImageIndexFile, "is a manifest, not an index");
    }
    if (!digests_.manifest) return;
    const auto listed = std::find_if(
        index->manifests.begin(), index->manifests.end(),
        [&](const ImageDescriptor& each) { return each.digest == *digests_.manifest; });
    if (listed == index->manifests.end()) {
      return Find(kImageIndexFile,
                  fmt::format("the index {} does not list the manifest {}",
                              ShownDigest(*digests_.index), ShownDigest(*digests_.manifest)));
    }
    if (listed->size != documents_.manifest->size()) {
      Find(kImageIndexFile,
           fmt::format("the index says that the manifest {} has {} bytes; it has {}",
                       ShownDigest(*digests_.manifest), listed->size, documents_.manifest->size()));
    }
    if (IsStated(listed->platform) && !Satisfies(listed->platform, proof_.platform)) {
      Find(kImageIndexFile, fmt::format("the index lists the manifest {} for {}, the host is {}",
                                        ShownDigest(*digests_.manifest), ToString(listed->platform),
                                        ToString(proof_.platform)));
    }
  }

  void CheckManifest() {
    if (!documents_.manifest) {
      return Find(kImageManifestFile, "missing: the chain from the pin to the container is broken");
    }
    if (!documents_.index) CheckPinned(kImageManifestFile, "manifest", *digests_.manifest);
    const auto manifest = ReadImageManifest(*documents_.manifest);
    if (!manifest) return Find(kImageManifestFile, manifest.error().message);
    if (manifest->kind != ImageDocumentKind::kManifest) {
      return Find(kImageManifestFile, "is an index, not a manifest");
    }
    if (!digests_.config) return;
    if (manifest->config.digest != *digests_.config) {
      Find(kImageManifestFile,
           fmt::format("the manifest {} names the config {}, but the config's sha256 is {}",
                       ShownDigest(*digests_.manifest), ShownDigest(manifest->config.digest),
                       ShownDigest(*digests_.config)));
    } else if (manifest->config.size != documents_.config->size()) {
      Find(kImageManifestFile,
           fmt::format("the manifest says that the config {} has {} bytes; it has {}",
                       ShownDigest(*digests_.config), manifest->config.size,
                       documents_.config->size()));
    }
  }

  void CheckPinnedConfig() {
    if (documents_.index || documents_.manifest) {
      Find(kImageProofFile, "is of strength config, but an index or a manifest stands beside it");
    }
    if (digests_.config) {
      CheckPinned(kImageConfigFile, "config", *digests_.config);
    } else {
      digests_.config = digests_.pin;
    }
  }

  void CheckConfig() {
    if (!documents_.config) {
      if (proof_.strength != ProofStrength::kConfig) {
        return Find(kImageConfigFile, "missing: the chain from the pin to the container is broken");
      }
      check_.not_checked.push_back(
          fmt::format("the platform of the image {}: pinned by the engine's own digest of it, and "
                      "the config itself was not kept",
                      ShownDigest(digests_.pin)));
      return;
    }
    const auto platform = ReadImageConfig(*documents_.config);
    if (!platform) return Find(kImageConfigFile, platform.error().message);
    if (!Satisfies(*platform, proof_.platform)) {
      Find(kImageConfigFile, fmt::format("the image is for {}, the host is {}", ToString(*platform),
                                         ToString(proof_.platform)));
    }
  }

  void CheckContainers() {
    if (proof_.containers.empty()) {
      return Find(kImageProofFile, "the engine was not asked which image the container ran");
    }
    for (const ContainerImage& seen : proof_.containers) CheckContainer(seen);
  }

  void CheckContainer(const ContainerImage& seen) {
    const std::string when = base::Visible(seen.when);
    const auto is = [](const std::optional<Sha256Hex>& digest, const Sha256Hex& other) {
      return digest && *digest == other;
    };
    if (seen.manifest && digests_.manifest && *seen.manifest != *digests_.manifest) {
      Find(kImageProofFile,
           fmt::format("{} the container ran the manifest {}, the pin leads to {}", when,
                       ShownDigest(*seen.manifest), ShownDigest(*digests_.manifest)));
    }
    if (is(digests_.config, seen.image) || is(digests_.manifest, seen.image)) return;
    if (is(digests_.index, seen.image)) {
      if (seen.manifest) return;
      return Find(kImageProofFile,
                  fmt::format("{} the engine named the index {} and no manifest: which platform's "
                              "image ran is not known; pin the manifest {} itself, or use an "
                              "engine with API 1.48 or later",
                              when, ShownDigest(seen.image),
                              digests_.manifest ? ShownDigest(*digests_.manifest) : "of the host"));
    }
    std::string problem = fmt::format("{} the container ran the image {}, the pin leads to", when,
                                      ShownDigest(seen.image));
    if (digests_.config) problem += " the config " + ShownDigest(*digests_.config);
    if (digests_.manifest) {
      problem += (digests_.config ? " of the manifest " : " the manifest ") +
                 ShownDigest(*digests_.manifest);
    }
    if (!digests_.config && !digests_.manifest) problem += " nothing that was kept";
    Find(kImageProofFile, std::move(problem));
  }

  const ImageProof& proof_;
  const ImageDocuments& documents_;
  ImageProofCheck check_;
  ImageDigests& digests_;
};

// The documents of a proof with their file names.
template <typename Documents>
auto FilesOf(Documents& documents) {
  return std::array{std::pair(kImageIndexFile, &documents.index),
                    std::pair(kImageManifestFile, &documents.manifest),
                    std::pair(kImageConfigFile, &documents.config)};
}

Json ToJson(const ImageProof& proof) {
  Json containers = Json::array();
  for (const ContainerImage& seen : proof.containers) {
    containers.push_back({{"when", base::Visible(seen.when)},
                          {"image_sha256", seen.image},
                          {"manifest_sha256", base::OrNull(seen.manifest)}});
  }
  return {{"schema", kSchema},
          {"strength", Name(proof.strength)},
          {"reference", base::Visible(proof.reference)},
          {"platform", ToString(proof.platform)},
          {"containers", std::move(containers)}};
}

base::Result<ImageProof> FromJson(const Json& json) {
  ImageProof proof;
  UG_TRY(CheckSchema(json));
  UG_ASSIGN(const std::string strength, base::StringMember(json, "strength"));
  const auto known = std::find_if(kStrengths.begin(), kStrengths.end(),
                                  [&](ProofStrength each) { return Name(each) == strength; });
  if (known == kStrengths.end()) {
    return base::EvidenceError("\"strength\" is none of registry, layout and config");
  }
  proof.strength = *known;
  UG_ASSIGN(proof.reference, base::StringMember(json, "reference"));
  if (proof.reference.size() > kMaxReferenceBytes) {
    return base::EvidenceError("\"reference\" is longer than its cap");
  }
  UG_ASSIGN(const std::string platform, base::StringMember(json, "platform"));
  UG_ASSIGN(proof.platform, ParsePlatform(platform));
  UG_ASSIGN(const Json* containers, Array(json, "containers"));
  if (containers->size() > kMaxContainers) {
    return base::EvidenceError("\"containers\" is longer than its cap");
  }
  for (const Json& item : *containers) {
    ContainerImage seen;
    UG_ASSIGN(seen.when, base::StringMember(item, "when"));
    UG_ASSIGN(seen.image, Digest(item, "image_sha256"));
    UG_ASSIGN(Sha256Hex manifest, OptionalDigest(item, "manifest_sha256"));
    if (!manifest.empty()) seen.manifest = std::move(manifest);
    proof.containers.push_back(std::move(seen));
  }
  return proof;
}

bool IsThere(const fs::path& path) {
  std::error_code error;
  return fs::exists(fs::symlink_status(path, error));
}

tl::unexpected<base::Error> Refuse(const fs::path& path, std::string_view why) {
  return base::InfrastructureError(fmt::format("{}: not written: {}", path.string(), why));
}

base::Status CheckSameDocuments(const fs::path& folder, const ImageDocuments& documents) {
  for (const auto& [name, bytes] : FilesOf(documents)) {
    const fs::path path = folder / name;
    if (IsThere(path) != bytes->has_value()) {
      return Refuse(path, "the proof has had other documents before");
    }
    if (!*bytes) continue;
    UG_ASSIGN(const std::string before, base::ReadFile(path, kMaxImageDocumentBytes));
    if (before != **bytes) return Refuse(path, "the proof has had another document before");
  }
  return {};
}

}  // namespace

std::string_view Name(ProofStrength strength) {
  switch (strength) {
    case ProofStrength::kRegistry:
      return "registry";
    case ProofStrength::kLayout:
      return "layout";
    case ProofStrength::kConfig:
      break;
  }
  return "config";
}

base::Result<Sha256Hex> PinOf(std::string_view reference) {
  const auto at = reference.find('@');
  if (at == std::string_view::npos) {
    return base::EvidenceError(fmt::format("the image \"{}\" has no digest",
                                           base::Shorten(base::Visible(reference), 120)));
  }
  return ParseDigest(reference.substr(at + 1));
}

ImageProofCheck CheckImageProof(const ImageProof& proof) {
  return Checker(proof).Run();
}

base::Status WriteImageProof(const Layout& layout, const BootRecord& boot,
                             const ImageProof& proof) {
  const fs::path boot_folder = layout.boot(boot.number, boot.arm);
  const fs::path folder = boot_folder / kImageFolder;
  if (IsSealed(layout.evidence())) return Refuse(folder, "the evidence is sealed");
  if (!IsThere(boot_folder / kBootFile)) return Refuse(folder, "the boot has no record yet");
  const std::string text = base::WriteJson(ToJson(proof));
  // What could not be read back is not written.
  UG_ASSIGN(const Json json, base::ParseJson(text));
  if (const auto read = FromJson(json); !read) return Refuse(folder, read.error().message);
  for (const auto& [name, bytes] : FilesOf(proof.documents)) {
    if (*bytes && (*bytes)->size() > kMaxImageDocumentBytes) {
      return Refuse(folder / name, "longer than its cap");
    }
  }
  if (IsThere(folder)) {
    UG_TRY(CheckSameDocuments(folder, proof.documents));
    return base::WriteFileAtomically(folder / kImageProofFile, text);
  }
  const fs::path aside = UnfinishedName(folder);
  UG_TRY(base::RemoveAll(aside));
  UG_TRY(base::CreateDirectories(aside));
  for (const auto& [name, bytes] : FilesOf(proof.documents)) {
    if (*bytes) UG_TRY(base::WriteFile(aside / name, **bytes));
  }
  UG_TRY(base::WriteFile(aside / kImageProofFile, text));
  return base::RenameDirectory(aside, folder);
}

base::Result<std::optional<ImageProof>> ReadImageProof(const fs::path& boot_folder) {
  const fs::path folder = boot_folder / kImageFolder;
  if (!IsThere(folder)) return std::optional<ImageProof>();
  const fs::path path = folder / kImageProofFile;
  UG_ASSIGN(const Json json, ReadJson(path, kMaxJsonBytes));
  auto proof = FromJson(json);
  if (!proof) return tl::unexpected(base::At(base::Visible(path.string()), proof.error()));
  for (const auto& [name, bytes] : FilesOf(proof->documents)) {
    if (!IsThere(folder / name)) continue;
    UG_ASSIGN(*bytes, ReadText(folder / name, kMaxImageDocumentBytes));
  }
  return std::optional<ImageProof>(*std::move(proof));
}

}  // namespace upgrade_gate::evidence
