// Where a plan writes the images of its arms (`image`, and `built_from` of an image that
// is a file), to the byte, so that they can be
// replaced and nothing else. The plan need not be valid otherwise: a tag without a
// digest is an error of ParsePlan, and what `upgrade-gate pin` is for.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "framework/base/result.h"
#include "framework/plan/plan.h"

namespace upgrade_gate::plan {

struct ImagePlace {
  std::vector<std::string> arms;  // several where an alias repeats one text
  Location at;
  std::size_t offset = 0;  // of the text itself, behind an anchor and a quote, in bytes
  std::string text;
};

struct PlanImages {
  std::vector<ImagePlace> places;  // in the order of the file, each text once
  bool pull_never = false;  // `server: {pull: never}`: what is pinned is in no registry, maybe
};

// Errors are those of ParsePlan, as far as they are about YAML, and one for a text
// that cannot be replaced where it stands: a block, or one with escapes.
base::Result<PlanImages> FindImages(std::string_view yaml, std::string_view file);

// The plan with another text at some of its places; every other byte stays.
struct ImageEdit {
  ImagePlace place;
  std::string text;
};
std::string WithImages(std::string_view yaml, const std::vector<ImageEdit>& edits);

}  // namespace upgrade_gate::plan
