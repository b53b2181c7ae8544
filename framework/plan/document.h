// A YAML document as a tree that has kept everything a strict reader needs:
// positions, whether a scalar was quoted, and the keys as they were written.
//
// Refused here, so that no section has to think of them: more than one
// document, doubled keys, keys that are not text, merge keys, tags, bytes that
// are not UTF-8 text, and anything over the caps (counted after aliases are
// expanded, while nothing is ever expanded).
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/plan/errors.h"
#include "framework/plan/plan.h"

namespace upgrade_gate::plan {

struct Node {
  enum class Kind { kNull, kScalar, kSequence, kMapping };
  struct Entry {
    std::string key;
    Location at;  // of the key
    const Node* value = nullptr;
  };

  Kind kind = Kind::kNull;
  // Of the value itself; an empty value has the place of its key.
  Location at;
  std::string text;     // kScalar
  bool quoted = false;  // kScalar: quoted or a block (| or >), so text and never a number
  std::vector<const Node*> items;  // kSequence
  std::vector<Entry> entries;      // kMapping; the first of doubled keys only
};

// Nodes point to each other: an alias shares the node of its anchor.
struct Document {
  std::deque<Node> nodes;
  const Node* root = nullptr;
};

// Absent after an error that leaves nothing to decode. A document with doubled
// keys is returned, with the errors added.
std::optional<Document> ReadDocument(std::string_view yaml, Errors& errors);

}  // namespace upgrade_gate::plan
