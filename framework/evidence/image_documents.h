// The documents that a digest of a container image stands for, read strictly.
//
//   index     a list of manifests, one a platform; an image may have none
//   manifest  one platform's image: names its config and layers
//   config    platform, environment, entrypoint and the layers' own digests
//
// A document is named by the SHA-256 of its raw bytes: those are kept, and what
// is parsed here is never written out again. Pure; every error is of kind
// kEvidence and says what is wrong, without a place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "framework/base/digest.h"
#include "framework/base/result.h"

namespace upgrade_gate::evidence {

// The most that engines and registries take for a manifest.
inline constexpr std::uint64_t kMaxImageDocumentBytes = 4ULL << 20;

inline constexpr std::string_view kDockerManifestType =
    "application/vnd.docker.distribution.manifest.v2+json";
inline constexpr std::string_view kDockerIndexType =
    "application/vnd.docker.distribution.manifest.list.v2+json";
inline constexpr std::string_view kOciManifestType = "application/vnd.oci.image.manifest.v1+json";
inline constexpr std::string_view kOciIndexType = "application/vnd.oci.image.index.v1+json";

// "linux/amd64", "linux/arm/v7": names as Go and all registries use them.
struct ImagePlatform {
  std::string os;
  std::string architecture;
  std::string variant;  // empty: any

  bool operator==(const ImagePlatform&) const = default;
};
std::string ToString(const ImagePlatform& platform);
// False for a platform that a document leaves open.
bool IsStated(const ImagePlatform& platform);
base::Result<ImagePlatform> ParsePlatform(std::string_view text);
// True if an image of `offered` is of the platform that was asked for. A variant
// that was not asked for does not matter; arm64 without one is v8.
bool Satisfies(const ImagePlatform& offered, const ImagePlatform& wanted);

// "sha256:" and 64 lower-case hexadecimal digits; an error for any other text.
base::Result<base::Sha256Hex> ParseDigest(std::string_view text);
// "sha256:…", as people copy it.
std::string ShownDigest(const base::Sha256Hex& digest);

// What one document says of another.
struct ImageDescriptor {
  std::string media_type;
  base::Sha256Hex digest;
  std::uint64_t size = 0;
  ImagePlatform platform;  // in an index; empty where it says none
  std::string name;        // its annotation org.opencontainers.image.ref.name; empty: none
};

enum class ImageDocumentKind { kIndex, kManifest };

// An index or a manifest.
struct ImageManifest {
  ImageDocumentKind kind = ImageDocumentKind::kManifest;
  ImageDescriptor config;                  // kManifest
  std::vector<ImageDescriptor> manifests;  // kIndex, in its order
};
// Refuses a document that is both (two readers would see two images), one whose
// media type is another, and the old schema 1, which has no config.
base::Result<ImageManifest> ReadImageManifest(std::string_view bytes);

// The layers of a manifest's bytes, from the lowest to the highest; at most
// kMaxImageLayers, more than any engine takes.
inline constexpr std::size_t kMaxImageLayers = 1'000;
base::Result<std::vector<ImageDescriptor>> ReadImageLayers(std::string_view manifest);

base::Result<ImagePlatform> ReadImageConfig(std::string_view bytes);

// The one manifest of an index for a platform. The error lists the platforms that
// there are; several that fit are an error too: which of them an engine takes is
// its own affair.
base::Result<ImageDescriptor> ChooseManifest(const ImageManifest& index,
                                             const ImagePlatform& wanted);

}  // namespace upgrade_gate::evidence
