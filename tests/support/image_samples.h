// The documents of small container images, as builders write them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "framework/base/digest.h"
#include "framework/evidence/image_documents.h"

namespace upgrade_gate::image_samples {

inline std::string Sha(std::string_view bytes) {
  return "sha256:" + base::Sha256Of(bytes);
}

enum class Flavour { kDocker, kOci };

// `named`: what makes it another image.
inline std::string ConfigOf(std::string_view named, std::string_view architecture = "amd64",
                            std::string_view os = "linux") {
  return R"({"architecture":")" + std::string(architecture) + R"(","os":")" + std::string(os) +
         R"(","config":{"Labels":{"named":")" + std::string(named) +
         R"("}},"rootfs":{"type":"layers","diff_ids":[]}})";
}

inline std::string DescriptorOf(std::string_view media_type, std::string_view bytes,
                                std::string_view more = "") {
  return R"({"mediaType":")" + std::string(media_type) + R"(","size":)" +
         std::to_string(bytes.size()) + R"(,"digest":")" + Sha(bytes) + '"' + std::string(more) +
         '}';
}

inline std::string ManifestOf(std::string_view config, Flavour flavour = Flavour::kOci) {
  const bool oci = flavour == Flavour::kOci;
  return R"({"schemaVersion":2,"mediaType":")" +
         std::string(oci ? evidence::kOciManifestType : evidence::kDockerManifestType) +
         R"(","config":)" +
         DescriptorOf(oci ? "application/vnd.oci.image.config.v1+json"
                          : "application/vnd.docker.container.image.v1+json",
                      config) +
         R"(,"layers":[]})";
}

struct ListedManifest {
  std::string bytes;
  std::string architecture = "amd64";
  std::string os = "linux";
  std::string variant = {};
};
inline std::string IndexOf(const std::vector<ListedManifest>& manifests,
                           Flavour flavour = Flavour::kOci) {
  const bool oci = flavour == Flavour::kOci;
  std::string list;
  for (const ListedManifest& each : manifests) {
    std::string platform =
        R"(,"platform":{"architecture":")" + each.architecture + R"(","os":")" + each.os + '"';
    if (!each.variant.empty()) platform += R"(,"variant":")" + each.variant + '"';
    list += (list.empty() ? "" : ",") +
            DescriptorOf(oci ? evidence::kOciManifestType : evidence::kDockerManifestType,
                         each.bytes, platform + '}');
  }
  return R"({"schemaVersion":2,"mediaType":")" +
         std::string(oci ? evidence::kOciIndexType : evidence::kDockerIndexType) +
         R"(","manifests":[)" + list + "]}";
}

// An image for linux/amd64 and its sibling for linux/arm64 behind one index.
struct SampleImage {
  explicit SampleImage(std::string_view named, Flavour flavour = Flavour::kOci)
      : config(ConfigOf(named)),
        manifest(ManifestOf(config, flavour)),
        arm_config(ConfigOf(named, "arm64")),
        arm_manifest(ManifestOf(arm_config, flavour)),
        index(IndexOf({{manifest}, {arm_manifest, "arm64"}}, flavour)) {}
  std::string config, manifest, arm_config, arm_manifest, index;
};

inline evidence::ImagePlatform LinuxAmd64() {
  return {"linux", "amd64", ""};
}

}  // namespace upgrade_gate::image_samples
