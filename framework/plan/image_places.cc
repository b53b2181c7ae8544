#include "framework/plan/image_places.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "framework/plan/document.h"
#include "framework/plan/errors.h"

namespace upgrade_gate::plan {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
constexpr std::string_view kBlank = " \t\r\n";

const Node* Member(const Node* node, std::string_view key) {
  if (node == nullptr || node->kind != Node::Kind::kMapping) return nullptr;
  const auto found = std::find_if(node->entries.begin(), node->entries.end(),
                                  [&](const Node::Entry& entry) { return entry.key == key; });
  return found == node->entries.end() ? nullptr : found->value;
}

// The byte where a line and column, counted in characters, are.
std::size_t OffsetOf(std::string_view yaml, Location at) {
  std::size_t offset = yaml.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
  for (int line = 1; line < at.line; ++line) offset = yaml.find('\n', offset) + 1;
  const auto continues = [&] {
    return offset < yaml.size() && (static_cast<unsigned char>(yaml[offset]) & 0xc0) == 0x80;
  };
  for (int column = 1; column < at.column && offset < yaml.size(); ++column) {
    ++offset;
    while (continues()) ++offset;
  }
  return offset;
}

// Behind an anchor and an opening quote.
std::size_t SkipToText(std::string_view yaml, std::size_t offset) {
  if (offset < yaml.size() && yaml[offset] == '&') {
    offset = std::min(yaml.find_first_of(kBlank, offset), yaml.size());
    offset = std::min(yaml.find_first_not_of(kBlank, offset), yaml.size());
  }
  if (offset < yaml.size() && (yaml[offset] == '"' || yaml[offset] == '\'')) ++offset;
  return offset;
}

}  // namespace

base::Result<PlanImages> FindImages(std::string_view yaml, std::string_view file) {
  Errors errors(file);
  const std::optional<Document> document = ReadDocument(yaml, errors);
  if (!document || !errors.empty()) return tl::unexpected(errors.ToError());
  PlanImages images;
  const Node* const pull = Member(Member(document->root, "server"), "pull");
  images.pull_never = pull != nullptr && pull->text == "never";
  const Node* const arms = Member(document->root, "arms");
  if (arms == nullptr || arms->kind != Node::Kind::kMapping) return images;
  const auto add = [&](const std::string& arm, const Node* image) {
    if (image == nullptr || image->kind != Node::Kind::kScalar || image->text.empty()) return;
    const std::size_t offset = SkipToText(yaml, OffsetOf(yaml, image->at));
    const auto same = std::find_if(images.places.begin(), images.places.end(),
                                   [&](const ImagePlace& place) { return place.offset == offset; });
    if (same != images.places.end()) {
      if (same->arms.back() != arm) same->arms.push_back(arm);
    } else if (yaml.substr(offset, image->text.size()) == image->text) {
      images.places.push_back({{arm}, image->at, offset, image->text});
    } else {
      errors.Add(image->at, fmt::format("the image {} must stand on one line and without escapes, "
                                        "so that its pin can be put there",
                                        Quoted(image->text)));
    }
  };
  for (const Node::Entry& arm : arms->entries) {
    for (const char* key : {"image", "built_from"}) add(arm.key, Member(arm.value, key));
  }
  if (!errors.empty()) return tl::unexpected(errors.ToError());
  std::sort(images.places.begin(), images.places.end(),
            [](const ImagePlace& a, const ImagePlace& b) { return a.offset < b.offset; });
  return images;
}

std::string WithImages(std::string_view yaml, const std::vector<ImageEdit>& edits) {
  std::vector<const ImageEdit*> in_order;
  for (const ImageEdit& edit : edits) in_order.push_back(&edit);
  std::sort(in_order.begin(), in_order.end(), [](const ImageEdit* a, const ImageEdit* b) {
    return a->place.offset < b->place.offset;
  });
  std::string edited;
  std::size_t copied = 0;
  for (const ImageEdit* edit : in_order) {
    UG_CHECK(yaml.substr(edit->place.offset, edit->place.text.size()) == edit->place.text);
    edited += yaml.substr(copied, edit->place.offset - copied);
    edited += edit->text;
    copied = edit->place.offset + edit->place.text.size();
  }
  edited += yaml.substr(copied);
  return edited;
}

}  // namespace upgrade_gate::plan
