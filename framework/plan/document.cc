#include "framework/plan/document.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <map>
#include <sstream>
#include <utility>

#include "framework/base/text.h"
#include "framework/plan/plan_file.h"

namespace upgrade_gate::plan {
namespace {

// Thrown through yaml-cpp, which has no other way to be stopped.
struct Stop {
  Location at;
  std::string message;
};

// Lines and characters of byte offsets; yaml-cpp counts bytes.
class Source {
 public:
  explicit Source(std::string_view text) : text_(text) {
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\n') starts_.push_back(i + 1);
    }
  }

  Location At(std::size_t offset) const {
    offset = std::min(offset, text_.size());
    const auto next = std::upper_bound(starts_.begin(), starts_.end(), offset);
    // From the last answer on, if that is on this line and before: events come in
    // order, and a hostile plan is one long line.
    std::size_t from = *std::prev(next);
    std::size_t characters = 0;
    if (last_offset_ >= from && last_offset_ <= offset) {
      from = last_offset_;
      characters = last_characters_;
    }
    characters += base::DisplayWidth(text_.substr(from, offset - from));
    last_offset_ = offset;
    last_characters_ = characters;
    return {static_cast<int>(next - starts_.begin()), static_cast<int>(characters) + 1};
  }
  Location At(const YAML::Mark& mark) const { return At(Offset(mark)); }
  static std::size_t Offset(const YAML::Mark& mark) {
    return static_cast<std::size_t>(std::max(mark.pos, 0));
  }

  // From `offset` on, behind anchors, tags, comments and white space.
  std::string_view ContentAt(std::size_t offset) const {
    std::string_view rest = text_.substr(std::min(offset, text_.size()));
    while (!rest.empty()) {
      constexpr std::string_view kSpace = " \t\r\n";
      if (kSpace.find(rest[0]) != kSpace.npos) {
        rest.remove_prefix(1);
      } else if (rest[0] == '#') {
        rest.remove_prefix(std::min(rest.find('\n'), rest.size()));
      } else if (rest[0] == '&' || rest[0] == '!') {
        rest.remove_prefix(std::min(rest.find_first_of(kSpace), rest.size()));
      } else {
        break;
      }
    }
    return rest;
  }
  std::string_view From(std::size_t offset) const {
    return text_.substr(std::min(offset, text_.size()));
  }

 private:
  std::string_view text_;
  std::vector<std::size_t> starts_{0};
  mutable std::size_t last_offset_ = 0;
  mutable std::size_t last_characters_ = 0;
};

// Whether the quoted scalar that `text` begins with has an end. yaml-cpp 0.7
// takes the end of the file for one, and so the rest of the plan as text.
bool IsClosed(std::string_view text) {
  const char quote = text[0];
  for (std::size_t i = 1; i < text.size(); ++i) {
    if (quote == '"' && text[i] == '\\') {
      ++i;
    } else if (text[i] == quote) {
      if (quote == '"' || i + 1 >= text.size() || text[i + 1] != quote) return true;
      ++i;
    }
  }
  return false;
}

class Builder final : public YAML::EventHandler {
 public:
  Builder(const Source& source, Document& document, Errors& errors)
      : source_(source), document_(document), errors_(errors) {}

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (document_.root == nullptr) return;
    const bool marker = source_.From(Source::Offset(mark)).substr(0, 3) == "---";
    throw Stop{source_.At(mark), marker ? "a second document begins here: a plan is one document"
                                        : "text after the end of the plan"};
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    // The mark of an empty value is that of whatever comes next, which is the
    // right place only where the value is written out or left out in "[a, , b]".
    const std::string_view text = source_.From(Source::Offset(mark));
    bool marked = false;
    for (const std::string_view word : {"~", "null", "Null", "NULL", ","}) {
      marked = marked || text.substr(0, word.size()) == word;
    }
    Put(New(Node::Kind::kNull, marked && !InMapping() ? source_.At(mark) : last_), anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const Location at = source_.At(mark);
    const auto target = anchors_.find(anchor);
    if (target == anchors_.end()) {
      throw Stop{at, "an alias stands inside the value that it repeats"};
    }
    if (ExpectsKey()) throw Stop{at, "a key must be text, not an alias"};
    const Measure& measure = measures_.at(target->second);
    Count(measure.nodes, at);
    CheckDepth(stack_.size() + measure.height, at);
    Attach(target->second, measure);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    const Location at = source_.At(mark);
    const bool quoted = tag == "!";
    const std::string_view text = source_.ContentAt(Source::Offset(mark));
    const char first = text.empty() ? '\0' : text[0];
    const bool in_quotes = quoted && (first == '"' || first == '\'');
    const bool in_block = quoted && (first == '|' || first == '>');
    if ((tag != "?" && !quoted) || (quoted && !in_quotes && !in_block)) RefuseTag(at);
    if (in_quotes && !IsClosed(text)) {
      throw Stop{at, fmt::format("the quote {} is never closed", first)};
    }
    if (value.find('\0') != value.npos) throw Stop{at, "a NUL character is not allowed"};
    last_ = at;
    Node* node = New(Node::Kind::kScalar, at);
    node->text = value;
    node->quoted = quoted;
    Put(node, anchor);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    Open(Node::Kind::kSequence, mark, tag, anchor);
  }
  void OnSequenceEnd() override { Close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    Open(Node::Kind::kMapping, mark, tag, anchor);
  }
  void OnMapEnd() override { Close(); }

 private:
  // The size of a node when every alias in it is expanded.
  struct Measure {
    std::size_t nodes = 1;
    std::size_t height = 0;
  };
  struct Frame {
    Node* node = nullptr;
    YAML::anchor_t anchor = YAML::NullAnchor;
    Measure measure;
    bool has_key = false;
    std::string key;
    Location key_at;
    std::map<std::string, Location> keys;
  };

  [[noreturn]] static void RefuseTag(Location at) {
    throw Stop{at, "tags (words that begin with !) are not allowed in a plan"};
  }

  bool InMapping() const {
    return !stack_.empty() && stack_.back().node->kind == Node::Kind::kMapping;
  }
  bool ExpectsKey() const { return InMapping() && !stack_.back().has_key; }

  Node* New(Node::Kind kind, Location at) {
    Count(1, at);
    Node& node = document_.nodes.emplace_back();
    node.kind = kind;
    node.at = at;
    return &node;
  }

  void Count(std::size_t nodes, Location at) {
    nodes_ += nodes;
    if (nodes_ > static_cast<std::size_t>(kMaxPlanNodes)) {
      throw Stop{at, fmt::format("more than {} values (with aliases expanded)",
                                 base::WithThousands(kMaxPlanNodes))};
    }
  }

  static void CheckDepth(std::size_t depth, Location at) {
    if (depth > static_cast<std::size_t>(kMaxPlanDepth)) {
      throw Stop{at, fmt::format("nested deeper than {} levels", kMaxPlanDepth)};
    }
  }

  // A whole scalar or null: a key, or a value.
  void Put(Node* node, YAML::anchor_t anchor) {
    const Measure measure;
    if (anchor != YAML::NullAnchor) Remember(anchor, node, measure);
    if (ExpectsKey()) {
      TakeKey(*node);
    } else {
      Attach(node, measure);
    }
  }

  void TakeKey(const Node& node) {
    if (node.kind != Node::Kind::kScalar) throw Stop{node.at, "a key is missing"};
    if (node.text == "<<") {
      throw Stop{node.at,
                 "merge keys (<<) are not allowed: write the keys out, or let an arm be \"like\" "
                 "another"};
    }
    Frame& frame = stack_.back();
    frame.has_key = true;
    frame.key = node.text;
    frame.key_at = node.at;
  }

  void Attach(const Node* node, const Measure& measure) {
    if (stack_.empty()) {
      document_.root = node;
      return;
    }
    Frame& frame = stack_.back();
    frame.measure.nodes += measure.nodes;
    frame.measure.height = std::max(frame.measure.height, measure.height + 1);
    if (frame.node->kind == Node::Kind::kSequence) {
      frame.node->items.push_back(node);
      return;
    }
    frame.has_key = false;
    const auto [first, is_new] = frame.keys.emplace(frame.key, frame.key_at);
    if (is_new) {
      frame.node->entries.push_back({std::move(frame.key), frame.key_at, node});
    } else {
      errors_.Add(frame.key_at, fmt::format("doubled key {}, first at {}:{}", Quoted(frame.key),
                                            first->second.line, first->second.column));
    }
  }

  void Open(Node::Kind kind, const YAML::Mark& mark, const std::string& tag,
            YAML::anchor_t anchor) {
    const Location at = source_.At(mark);
    if (tag != "?") RefuseTag(at);
    if (ExpectsKey()) {
      throw Stop{at, fmt::format("a key must be text, not a {}",
                                 kind == Node::Kind::kSequence ? "list" : "mapping")};
    }
    CheckDepth(stack_.size() + 1, at);
    last_ = at;
    Frame frame;
    frame.node = New(kind, at);
    frame.anchor = anchor;
    frame.measure.height = 1;
    stack_.push_back(std::move(frame));
  }

  void Close() {
    const Frame frame = std::move(stack_.back());
    stack_.pop_back();
    if (frame.anchor != YAML::NullAnchor) Remember(frame.anchor, frame.node, frame.measure);
    Attach(frame.node, frame.measure);
  }

  // Only whole nodes are remembered, so an alias can never reach an open one.
  void Remember(YAML::anchor_t anchor, const Node* node, const Measure& measure) {
    anchors_[anchor] = node;
    measures_[node] = measure;
  }

  const Source& source_;
  Document& document_;
  Errors& errors_;
  std::vector<Frame> stack_;
  std::map<YAML::anchor_t, const Node*> anchors_;
  std::map<const Node*, Measure> measures_;
  std::size_t nodes_ = 0;
  Location last_{1, 1};
};

// yaml-cpp's messages are those of its scanner; these are for the user.
std::string InPlainWords(const std::string& message) {
  static constexpr std::pair<const char*, const char*> kWords[] = {
      {"illegal map value",
       "a \":\" is not expected here: is the line above indented or quoted as "
       "it should be?"},
      {"illegal map key", "a key is not expected here: check the indentation"},
      {"illegal block entry", "a \"-\" is not expected here: check the indentation"},
      {"illegal tab when looking for indentation", "indentation must be spaces, not tabs"},
      {"illegal flow end", "a \"]\" or \"}\" closes nothing"},
      {"end of map not found",
       "this line does not belong to the mapping above: check the "
       "indentation"},
      {"end of sequence not found",
       "this line does not belong to the list above: check the "
       "indentation"},
      {"end of map flow not found", "a \"{\" before this place is never closed"},
      {"end of sequence flow not found", "a \"[\" before this place is never closed"},
      {"illegal EOF in scalar", "the file ends inside a quoted text"},
      {"the referenced anchor is not defined", "this alias (*) has no anchor (&) before it"},
      {"unknown token", "this character cannot begin a value: put the text into quotes"},
  };
  for (const auto& [theirs, ours] : kWords) {
    if (message == theirs) return ours;
  }
  return "not valid YAML: " + base::Visible(message);
}

// Adds an error for bytes that are not a text; false if there is one.
bool CheckText(std::string_view yaml, const Source& source, Errors& errors) {
  for (std::size_t i = 0; i < yaml.size();) {
    std::size_t length = 1;
    while (length <= 4 && !base::IsValidUtf8(yaml.substr(i, length))) ++length;
    if (length > 4) {
      errors.Add(source.At(i), fmt::format("the byte {} is not UTF-8: save the plan as UTF-8 text",
                                           base::Visible(yaml.substr(i, 1))));
      return false;
    }
    const auto byte = static_cast<unsigned char>(yaml[i]);
    const bool line_end =
        byte == '\n' || (byte == '\r' && i + 1 < yaml.size() && yaml[i + 1] == '\n');
    if ((byte < 0x20 && byte != '\t' && !line_end) || byte == 0x7f) {
      errors.Add(source.At(i), fmt::format("the control character {} is not allowed in a plan",
                                           base::Visible(yaml.substr(i, 1))));
      return false;
    }
    i += length;
  }
  return true;
}

}  // namespace

std::optional<Document> ReadDocument(std::string_view yaml, Errors& errors) {
  if (yaml.size() > kMaxPlanBytes) {
    errors.Add({}, fmt::format("longer than {} bytes, the most a plan may have",
                               base::WithThousands(kMaxPlanBytes)));
    return std::nullopt;
  }
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (yaml.substr(0, 3) == kByteOrderMark) yaml.remove_prefix(3);
  const Source source(yaml);
  if (!CheckText(yaml, source, errors)) return std::nullopt;

  // yaml-cpp's scanner buffers a whole run of open brackets before its first
  // event, where the caps below could stop it.
  const auto brackets =
      std::count_if(yaml.begin(), yaml.end(), [](char c) { return c == '[' || c == '{'; });
  if (brackets > kMaxPlanNodes) {
    errors.Add({}, fmt::format("more than {} brackets", base::WithThousands(kMaxPlanNodes)));
    return std::nullopt;
  }

  Document document;
  try {
    std::istringstream stream{std::string(yaml)};
    YAML::Parser parser(stream);
    Builder builder(source, document, errors);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const Stop& stop) {
    errors.Add(stop.at, stop.message);
    return std::nullopt;
  } catch (const YAML::Exception& exception) {
    errors.Add(source.At(exception.mark), InPlainWords(exception.msg));
    return std::nullopt;
  } catch (const std::exception& exception) {
    errors.Add({}, std::string("cannot be read as YAML: ") + exception.what());
    return std::nullopt;
  }
  if (document.root == nullptr) {
    errors.Add({}, "holds no plan: it is empty, or all of it is a comment");
    return std::nullopt;
  }
  return document;
}

}  // namespace upgrade_gate::plan
