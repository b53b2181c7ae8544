// Proof that a container ran the image that its plan pins, which anybody can
// check again without a network.
//
//   pin ─► index ─► manifest ─► config ◄─ the container
//
// Each arrow is a SHA-256 over raw bytes that are kept. A pin may be the digest
// of an index or of one platform's manifest; without an index the chain starts at
// the manifest. Engines report one of two things about a container:
//   classic store:     Image is the config's digest
//   containerd store:  Image is the manifest's or the index's digest, and newer
//                      engines add the manifest's (ImageManifestDescriptor)
// A name or a tag proves nothing: engines echo what they were asked for.
//
// On disk, in the folder of a boot (layout.h):
//   image/proof.json  index.json  manifest.json  config.json
// The three documents are the raw bytes; those that a proof does not have are
// not there.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/base/digest.h"
#include "framework/base/result.h"
#include "framework/evidence/image_documents.h"
#include "framework/evidence/layout.h"
#include "framework/evidence/records.h"
#include "framework/evidence/seal.h"

namespace upgrade_gate::evidence {

// How much a proof proves.
enum class ProofStrength {
  kRegistry,  // the whole chain, its documents from the registry that the pin names
  kLayout,    // the whole chain, its documents from an OCI layout folder
  // Pinned by what the engine itself calls the image, the config's digest (with a containerd
  // store the manifest's or index's): nothing was pulled, and nothing says whence it came.
  kConfig,
};
std::string_view Name(ProofStrength strength);

// Raw bytes, as they were served or lay on disk.
struct ImageDocuments {
  std::optional<std::string> index;     // absent: the pin is a manifest's digest
  std::optional<std::string> manifest;  // absent with kConfig only
  std::optional<std::string> config;  // absent with kConfig, where the engine does not hand it out
};

// What the engine said about the container at one moment.
struct ContainerImage {
  std::string when;                         // "after start", "before the verdict"
  base::Sha256Hex image;                    // its Image
  std::optional<base::Sha256Hex> manifest;  // its ImageManifestDescriptor's digest
};

struct ImageProof {
  ProofStrength strength = ProofStrength::kRegistry;
  // As the plan writes it: "registry.example:5000/vllm@sha256:…", with kLayout "oci:…".
  std::string reference;
  ImagePlatform platform;  // that the image must be for: the host's
  ImageDocuments documents;
  std::vector<ContainerImage> containers;  // in order of time; none is a finding
};

// What holds the chain together, told apart.
struct ImageDigests {
  base::Sha256Hex pin;
  std::optional<base::Sha256Hex> index, manifest, config;
};

struct ImageProofCheck {
  ImageDigests digests;
  // By document: "index.json", "manifest.json", "config.json", or "proof.json" for
  // what the plan or the engine said. A broken link names both digests.
  std::vector<SealFinding> findings;
  std::vector<std::string> not_checked;  // and why
  bool ok() const { return findings.empty(); }
};

// Pure. Goes on after a broken link as far as the documents can be read.
ImageProofCheck CheckImageProof(const ImageProof& proof);

// The digest of "name[:tag]@sha256:…", or of "oci:path[:name]@sha256:…".
base::Result<base::Sha256Hex> PinOf(std::string_view reference);

inline constexpr const char* kImageFolder = "image";
inline constexpr const char* kImageProofFile = "proof.json";
inline constexpr const char* kImageIndexFile = "index.json";
inline constexpr const char* kImageManifestFile = "manifest.json";
inline constexpr const char* kImageConfigFile = "config.json";

// After WriteBoot. The folder is whole or absent. Called again with the same
// documents it replaces proof.json, so that what the engine said later is added;
// other documents are refused. A proof that does not hold is written too: it is
// what was found.
base::Status WriteImageProof(const Layout& layout, const BootRecord& boot, const ImageProof& proof);

// Of a boot's folder; hostile until checked, as everything in store.h. Absent: there
// is no image/ at all.
base::Result<std::optional<ImageProof>> ReadImageProof(const std::filesystem::path& boot_folder);

}  // namespace upgrade_gate::evidence
