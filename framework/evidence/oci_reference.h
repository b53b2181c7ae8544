// The name of an image in an OCI image layout, as skopeo and buildah write it
// (oci:PATH, oci:PATH:NAME) and as a plan pins it: oci:PATH[:NAME]@sha256:….
//
// Everything that begins with "oci:" is one, so that a registry's image of that name
// needs its host before it. The digest decides; the name tells people, and
// `upgrade-gate pin`, which image of the layout is meant.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "framework/base/digest.h"
#include "framework/base/result.h"

namespace upgrade_gate::evidence {

struct OciReference {
  std::string path;  // of the layout's folder; relative: to the plan's
  std::string name;  // its org.opencontainers.image.ref.name; empty: not given
  std::optional<base::Sha256Hex> digest;

  // As it was written, with this digest.
  std::string Pinned(const base::Sha256Hex& to) const;
};

bool IsOciReference(std::string_view text);

// The path ends at the first ":", as with skopeo. An error of kind kUsage says what is
// wrong and how such a name is written, without the text itself.
base::Result<OciReference> ParseOciReference(std::string_view text);

}  // namespace upgrade_gate::evidence
