#include "framework/evidence/oci_reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "framework/base/text.h"
#include "framework/evidence/image_documents.h"

namespace upgrade_gate::evidence {
namespace {

constexpr std::string_view kPrefix = "oci:";
constexpr std::size_t kMaxBytes = 1'024;  // of a reference in evidence

// What OCI lets such a name be made of, without "@", which begins the digest here.
bool IsName(std::string_view text) {
  const auto alnum = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  return !text.empty() && alnum(text.front()) && alnum(text.back()) &&
         std::all_of(text.begin(), text.end(), [&](char c) {
           return alnum(c) || std::string_view("-._:/+").find(c) != std::string_view::npos;
         });
}

}  // namespace

std::string OciReference::Pinned(const base::Sha256Hex& to) const {
  return fmt::format("{}{}{}{}@{}", kPrefix, path, name.empty() ? "" : ":", name, ShownDigest(to));
}

bool IsOciReference(std::string_view text) {
  return text.starts_with(kPrefix);
}

base::Result<OciReference> ParseOciReference(std::string_view text) {
  UG_CHECK(IsOciReference(text));
  if (text.size() > kMaxBytes) {
    return base::UsageError(
        fmt::format("is longer than {} bytes, the most that an image's name may have", kMaxBytes));
  }
  OciReference reference;
  std::string_view rest = text.substr(kPrefix.size());
  if (const auto at = rest.find('@'); at != rest.npos) {
    auto digest = ParseDigest(rest.substr(at + 1));
    if (!digest) {
      return base::UsageError("must have behind its \"@\" a digest: " + digest.error().message);
    }
    reference.digest = *std::move(digest);
    rest = rest.substr(0, at);
  }
  const auto colon = rest.find(':');
  reference.path = rest.substr(0, colon);
  if (reference.path.empty()) {
    return base::UsageError(
        "names no folder: an OCI layout is written oci:PATH or oci:PATH:NAME, and pinned with "
        "@sha256:… behind it");
  }
  if (base::Visible(reference.path) != reference.path) {
    return base::UsageError("has a path with control characters or bytes that are no UTF-8");
  }
  if (colon != rest.npos) {
    reference.name = rest.substr(colon + 1);
    if (!IsName(reference.name)) {
      return base::UsageError(
          "has behind its path no name of an image in the layout: letters, digits, \"-\", \".\", "
          "\"_\", \":\", \"/\" and \"+\", as its org.opencontainers.image.ref.name");
    }
  }
  return reference;
}

}  // namespace upgrade_gate::evidence
