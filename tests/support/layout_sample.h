// A small OCI image layout on disk: one image of two layers.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "tests/support/image_samples.h"

namespace upgrade_gate::image_samples {

struct LayoutSample {
  static constexpr const char* kLayerType = "application/vnd.oci.image.layer.v1.tar";

  explicit LayoutSample(std::filesystem::path where, std::string layer_type = kLayerType)
      : folder(std::move(where)), type(std::move(layer_type)) {
    Put("oci-layout", R"({"imageLayoutVersion":"1.0.0"})");
    for (const std::string& bytes : {low, high, config}) Put(Blob(bytes), bytes);
    Name(DescriptorOf(type, low) + "," + DescriptorOf(type, high));
  }
  // Gives the image these layers, and index.json the image.
  void Name(const std::string& layers) {
    manifest = R"({"schemaVersion":2,"mediaType":")" + std::string(evidence::kOciManifestType) +
               R"(","config":)" + DescriptorOf("application/vnd.oci.image.config.v1+json", config) +
               R"(,"layers":[)" + layers + "]}";
    index = R"({"schemaVersion":2,"manifests":[)" +
            DescriptorOf(evidence::kOciManifestType, manifest) + "]}";
    Put(Blob(manifest), manifest);
    Put("index.json", index);
  }
  void Put(const std::filesystem::path& name, const std::string& bytes) const {
    std::filesystem::create_directories((folder / name).parent_path());
    std::ofstream(folder / name) << bytes;
  }
  static std::filesystem::path Blob(const std::string& bytes) {
    return std::filesystem::path("blobs") / "sha256" / base::Sha256Of(bytes);
  }
  std::string PathOf(const std::string& bytes) const { return (folder / Blob(bytes)).string(); }
  // As the launcher reads it.
  evidence::ImageDocuments documents() const { return {index, manifest, config}; }

  std::filesystem::path folder;
  std::string type;
  std::string low = "the layer below", high = std::string(1000, 'x') + "the layer above";
  std::string config = ConfigOf("layout");
  std::string manifest, index;
};

}  // namespace upgrade_gate::image_samples
