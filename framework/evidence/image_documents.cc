#include "framework/evidence/image_documents.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "framework/base/json.h"
#include "framework/base/text.h"
#include "framework/evidence/json_fields.h"

namespace upgrade_gate::evidence {
namespace {

using base::Json;

constexpr std::string_view kDigestPrefix = "sha256:";
constexpr std::string_view kNameAnnotation = "org.opencontainers.image.ref.name";
constexpr std::size_t kListed = 8;  // of platforms, in a message

std::string Quoted(std::string_view text) {
  return fmt::format("\"{}\"", base::Shorten(base::Visible(text), 80));
}

bool IsIndexType(std::string_view type) {
  return type == kDockerIndexType || type == kOciIndexType;
}
bool IsManifestType(std::string_view type) {
  return type == kDockerManifestType || type == kOciManifestType;
}

bool IsPlatformWord(std::string_view word) {
  return !word.empty() && word.size() <= 32 && std::all_of(word.begin(), word.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
  });
}

base::Result<Json> ReadObject(std::string_view bytes) {
  if (bytes.size() > kMaxImageDocumentBytes) {
    return base::EvidenceError(
        fmt::format("has {} bytes, over the cap of {}", bytes.size(), kMaxImageDocumentBytes));
  }
  auto json = base::ParseJson(bytes);
  if (!json) {
    return base::EvidenceError(base::Shorten(base::Visible(json.error().message), 200));
  }
  if (!json->is_object()) return base::EvidenceError("is not a JSON object");
  return json;
}

// Absent and null are empty: encoders of Go write either.
base::Result<std::string> TextOrEmpty(const Json& object, std::string_view key) {
  if (!object.contains(key) || object[std::string(key)].is_null()) return std::string();
  return base::StringMember(object, key);
}

base::Result<ImagePlatform> PlatformOf(const Json& object) {
  ImagePlatform platform;
  UG_ASSIGN(platform.os, TextOrEmpty(object, "os"));
  UG_ASSIGN(platform.architecture, TextOrEmpty(object, "architecture"));
  UG_ASSIGN(platform.variant, TextOrEmpty(object, "variant"));
  return platform;
}

base::Result<ImageDescriptor> DescriptorOf(const Json& object) {
  ImageDescriptor descriptor;
  UG_ASSIGN(descriptor.media_type, base::StringMember(object, "mediaType"));
  UG_ASSIGN(const std::string digest, base::StringMember(object, "digest"));
  UG_ASSIGN(descriptor.digest, ParseDigest(digest));
  UG_ASSIGN(const std::int64_t size, base::IntMember(object, "size"));
  if (size < 0) return base::EvidenceError("\"size\" is below 0");
  descriptor.size = static_cast<std::uint64_t>(size);
  if (object.contains("platform") && !object["platform"].is_null()) {
    UG_ASSIGN(const Json* platform, Object(object, "platform"));
    UG_ASSIGN(descriptor.platform, PlatformOf(*platform));
  }
  if (const auto annotations = base::Member(object, "annotations"); annotations) {
    const auto name = base::StringMember(**annotations, kNameAnnotation);
    if (name) descriptor.name = *name;
  }
  return descriptor;
}

// Attestations stand in an index as manifests of the platform unknown/unknown.
bool IsUnknown(const ImagePlatform& platform) {
  return platform.os == "unknown";
}

}  // namespace

std::string ToString(const ImagePlatform& platform) {
  if (!IsStated(platform)) return "no platform";
  return base::Shorten(
      base::Visible(fmt::format("{}/{}{}{}", platform.os, platform.architecture,
                                platform.variant.empty() ? "" : "/", platform.variant)),
      100);
}

bool IsStated(const ImagePlatform& platform) {
  return !platform.os.empty() || !platform.architecture.empty();
}

base::Result<ImagePlatform> ParsePlatform(std::string_view text) {
  std::vector<std::string> words(1);
  for (const char c : text) {
    if (c == '/') {
      words.emplace_back();
    } else {
      words.back() += c;
    }
  }
  if (words.size() < 2 || words.size() > 3 ||
      !std::all_of(words.begin(), words.end(), IsPlatformWord)) {
    return base::EvidenceError(
        fmt::format("{} is not a platform such as linux/amd64 or linux/arm/v7", Quoted(text)));
  }
  return ImagePlatform{words[0], words[1], words.size() == 3 ? words[2] : ""};
}

bool Satisfies(const ImagePlatform& offered, const ImagePlatform& wanted) {
  if (offered.os != wanted.os || offered.architecture != wanted.architecture) return false;
  const auto variant = [](const ImagePlatform& platform) {
    return platform.variant.empty() && platform.architecture == "arm64" ? std::string("v8")
                                                                        : platform.variant;
  };
  return wanted.variant.empty() || variant(offered) == variant(wanted);
}

base::Result<base::Sha256Hex> ParseDigest(std::string_view text) {
  if (!text.starts_with(kDigestPrefix) || !base::IsSha256Hex(text.substr(kDigestPrefix.size()))) {
    return base::EvidenceError(fmt::format(
        "{} is not a digest of \"sha256:\" and 64 lower-case hexadecimal digits", Quoted(text)));
  }
  return std::string(text.substr(kDigestPrefix.size()));
}

std::string ShownDigest(const base::Sha256Hex& digest) {
  return std::string(kDigestPrefix) + digest;
}

base::Result<ImageManifest> ReadImageManifest(std::string_view bytes) {
  UG_ASSIGN(const Json json, ReadObject(bytes));
  UG_ASSIGN(const std::int64_t version, base::IntMember(json, "schemaVersion"));
  if (version != 2) {
    return base::EvidenceError(fmt::format(
        "its schemaVersion is {}, and only 2 names a config: push the image again", version));
  }
  UG_ASSIGN(const std::string type, TextOrEmpty(json, "mediaType"));
  const bool has_manifests = json.contains("manifests");
  const bool has_config = json.contains("config") || json.contains("layers");
  if (has_manifests && has_config) {
    return base::EvidenceError("is an index and a manifest at once");
  }
  if (!has_manifests && !has_config) return base::EvidenceError("is no index and no manifest");
  if (!type.empty() && !(has_manifests ? IsIndexType(type) : IsManifestType(type))) {
    return base::EvidenceError(fmt::format("has what {} has, but its mediaType is {}",
                                           has_manifests ? "an index" : "a manifest",
                                           Quoted(type)));
  }
  ImageManifest manifest;
  if (!has_manifests) {
    UG_ASSIGN(const Json* config, Object(json, "config"));
    UG_ASSIGN(manifest.config, DescriptorOf(*config));
    UG_TRY(Array(json, "layers"));
    return manifest;
  }
  manifest.kind = ImageDocumentKind::kIndex;
  UG_ASSIGN(const Json* list, Array(json, "manifests"));
  for (const Json& item : *list) {
    UG_ASSIGN(ImageDescriptor descriptor, DescriptorOf(item));
    manifest.manifests.push_back(std::move(descriptor));
  }
  return manifest;
}

base::Result<std::vector<ImageDescriptor>> ReadImageLayers(std::string_view manifest) {
  UG_ASSIGN(const Json json, ReadObject(manifest));
  UG_ASSIGN(const Json* list, Array(json, "layers"));
  if (list->size() > kMaxImageLayers) {
    return base::EvidenceError(
        fmt::format("has {} layers, over the cap of {}", list->size(), kMaxImageLayers));
  }
  std::vector<ImageDescriptor> layers;
  for (const Json& item : *list) {
    UG_ASSIGN(ImageDescriptor layer, DescriptorOf(item));
    layers.push_back(std::move(layer));
  }
  return layers;
}

base::Result<ImagePlatform> ReadImageConfig(std::string_view bytes) {
  UG_ASSIGN(const Json json, ReadObject(bytes));
  UG_ASSIGN(ImagePlatform platform, PlatformOf(json));
  if (platform.os.empty() || platform.architecture.empty()) {
    return base::EvidenceError("does not say its os and architecture");
  }
  return platform;
}

base::Result<ImageDescriptor> ChooseManifest(const ImageManifest& index,
                                             const ImagePlatform& wanted) {
  std::vector<const ImageDescriptor*> fitting;
  std::vector<std::string> offered;
  for (const ImageDescriptor& each : index.manifests) {
    if (IsUnknown(each.platform)) continue;
    // A builder that makes one image may leave its platform to the config.
    if (Satisfies(each.platform, wanted) ||
        (!IsStated(each.platform) && index.manifests.size() == 1)) {
      fitting.push_back(&each);
    }
    const std::string name = ToString(each.platform);
    if (std::find(offered.begin(), offered.end(), name) == offered.end()) offered.push_back(name);
  }
  if (fitting.empty()) {
    const std::size_t more = offered.size() - std::min(offered.size(), kListed);
    offered.resize(offered.size() - more);
    if (more > 0) offered.push_back(fmt::format("{} more", more));
    return base::EvidenceError(
        fmt::format("has no image for {}, only for {}", ToString(wanted),
                    offered.empty() ? "no platform at all" : base::JoinList(offered)));
  }
  if (fitting.size() > 1) {
    std::vector<std::string> digests;
    for (const ImageDescriptor* each : fitting) {
      if (digests.size() == kListed) break;
      digests.push_back(
          fmt::format("{} ({})", ShownDigest(each->digest), ToString(each->platform)));
    }
    return base::EvidenceError(fmt::format("has {} images for {}: {}: pin the one that is meant",
                                           fitting.size(), ToString(wanted),
                                           base::JoinList(digests)));
  }
  if (!fitting[0]->media_type.empty() && !IsManifestType(fitting[0]->media_type)) {
    return base::EvidenceError(fmt::format("lists for {} not a manifest but {}", ToString(wanted),
                                           Quoted(fitting[0]->media_type)));
  }
  return *fitting[0];
}

}  // namespace upgrade_gate::evidence
