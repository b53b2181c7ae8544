// Images: references, challenges, documents and proofs. Input: a line that is read as a
// reference and as a challenge, then index, manifest and config with lines "--" between.
//
// In the documents, MANIFEST and CONFIG stand for the digests of the other two and
// MSIZE and CSIZE for their sizes: no fuzzer finds a SHA-256.
#include <cstdint>
#include <string>
#include <string_view>

#include "fixtures/registry/challenge.h"
#include "fixtures/registry/reference.h"
#include "framework/base/text.h"
#include "framework/evidence/image_proof.h"

namespace upgrade_gate::registry {
namespace {

using evidence::ShownDigest;

std::string_view CutLine(std::string_view& rest, std::string_view end) {
  const auto at = rest.find(end);
  const std::string_view line = rest.substr(0, at);
  rest.remove_prefix(at == rest.npos ? rest.size() : at + end.size());
  return line;
}

void ReplaceAll(std::string& text, std::string_view from, const std::string& to) {
  for (auto at = text.find(from); at != text.npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

void CheckShown(const std::string& message) {
  UG_CHECK(base::Visible(message) == message);
}

void RunLine(std::string_view line) {
  const auto reference = ParseReference(line);
  if (reference) {
    UG_CHECK(!reference->host.empty() && !reference->repository.empty());
    const std::string pinned = reference->Pinned(std::string(64, 'a'));
    const auto again = ParseReference(pinned);
    UG_CHECK(again && again->host == reference->host && again->tag == reference->tag &&
             again->repository == reference->repository && again->Pinned(*again->digest) == pinned);
    UG_CHECK(evidence::PinOf(pinned).has_value());
  } else {
    CheckShown(reference.error().message);
  }
  const auto challenge = ChooseChallenge({std::string(line)});
  UG_CHECK(!challenge || challenge->scheme == Challenge::Scheme::kBasic ||
           !challenge->realm.empty());
}

void RunDocuments(std::string_view rest) {
  evidence::ImageProof proof;
  std::string index(CutLine(rest, "\n--\n"));
  std::string manifest(CutLine(rest, "\n--\n"));
  const std::string config(rest);
  ReplaceAll(manifest, "CONFIG", ShownDigest(base::Sha256Of(config)));
  ReplaceAll(manifest, "CSIZE", std::to_string(config.size()));
  ReplaceAll(index, "MANIFEST", ShownDigest(base::Sha256Of(manifest)));
  ReplaceAll(index, "MSIZE", std::to_string(manifest.size()));
  proof.platform = {"linux", "amd64", ""};
  proof.documents = {.index = {}, .manifest = manifest, .config = config};
  if (!index.empty()) proof.documents.index = index;
  proof.reference = "r@" + ShownDigest(base::Sha256Of(index.empty() ? manifest : index));
  proof.containers = {{"after start", base::Sha256Of(config), {}}};

  const auto check = evidence::CheckImageProof(proof);
  for (const auto& finding : check.findings) CheckShown(finding.problem);
  if (check.ok()) {
    // What holds does not hold with any of it changed.
    for (auto* document :
         {&proof.documents.index, &proof.documents.manifest, &proof.documents.config}) {
      if (!*document) continue;
      const std::string whole = **document;
      **document += " ";
      UG_CHECK(!evidence::CheckImageProof(proof).ok());
      *document = whole;
    }
    proof.platform.architecture = "other";
    UG_CHECK(!evidence::CheckImageProof(proof).ok());
  }
}

void Run(std::string_view bytes) {
  RunLine(CutLine(bytes, "\n"));
  RunDocuments(bytes);
}

}  // namespace
}  // namespace upgrade_gate::registry

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  upgrade_gate::registry::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
