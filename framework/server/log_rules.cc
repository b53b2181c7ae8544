#include "framework/server/log_rules.h"

#include <fmt/format.h>
#include <re2/re2.h>
#include <re2/set.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>
#include <utility>

#include "framework/base/file.h"
#include "framework/base/json.h"
#include "framework/base/text.h"
#include "framework/plan/plan_file.h"
#include "framework/server/log_rules_re2.h"

namespace upgrade_gate::server {
namespace {

using evidence::Fact;
using evidence::FactState;

constexpr std::size_t kLineCap = std::size_t{64} << 10;  // LogSettings::line_cap
constexpr std::size_t kLineShown = 400;
constexpr std::int64_t kPatternMemory = std::int64_t{4} << 20;
constexpr std::int64_t kSetMemory = std::int64_t{64} << 20;

using Pattern = std::unique_ptr<const re2::RE2>;

Pattern MakePattern(const std::string& text) {
  re2::RE2::Options options = PatternOptions();
  options.set_max_mem(kPatternMemory);
  auto pattern = std::make_unique<re2::RE2>(text, options);
  UG_CHECK(pattern->ok());  // ParseRules has read it
  return pattern;
}

re2::StringPiece Piece(std::string_view text) {
  return {text.data(), text.size()};
}

bool Matches(const Pattern& pattern, std::string_view text) {
  return re2::RE2::PartialMatch(Piece(text), *pattern);
}

std::string ShownLine(std::string_view line) {
  return base::Shorten(base::Visible(line.substr(0, 4 * kLineShown)), kLineShown);
}

// A longer value is told from another by its digest.
std::string BoundedValue(const std::string& value) {
  const std::string visible = base::Visible(value);
  if (visible.size() <= kMaxFactValueBytes) return visible;
  return fmt::format("{} sha256:{}", base::Shorten(visible, kMaxFactValueBytes),
                     base::Sha256Of(value));
}

std::string InWords(const FactRule& rule, const std::string& value) {
  const auto other = rule.names.find(value);
  return other == rule.names.end() ? value : other->second;
}

enum class Use { kFact, kAbsent, kRecognise, kIgnore, kReady, kFault, kStall };

// Where a pattern belongs: an entry of a set.
struct Entry {
  Use use = Use::kFact;
  std::size_t set = 0, rule = 0;
  Pattern pattern;
};

}  // namespace

struct LogRules::Compiled {
  std::vector<RuleSet> sets;
  std::vector<bool> named;  // by set
  std::string user_file;
  Pattern prefix;              // of all sets; null: none has one
  std::vector<Entry> entries;  // by their number in `all`
  std::unique_ptr<re2::RE2::Set> all;
  std::map<const FaultRule*, std::vector<Pattern>> but;

  const FaultRule& Rule(const Entry& entry) const {
    const RuleSet& set = sets[entry.set];
    return entry.use == Use::kStall ? set.stalls[entry.rule] : set.faults[entry.rule];
  }

  std::string_view WithoutPrefix(std::string_view line) const {
    re2::StringPiece found;
    if (prefix == nullptr ||
        !prefix->Match(Piece(line), 0, line.size(), re2::RE2::ANCHOR_START, &found, 1)) {
      return line;
    }
    return line.substr(found.size());
  }

  // The numbers of the entries whose patterns are in the line.
  void Find(std::string_view line, std::vector<int>& found) const {
    found.clear();
    re2::RE2::Set::ErrorInfo error{};
    if (entries.empty()) return;
    if (all->Match(Piece(line), &found, &error)) {
      std::sort(found.begin(), found.end());  // of two faults in one line the first rule's
      return;
    }
    if (error.kind == re2::RE2::Set::kNoError) return;
    // Out of the memory that one automaton of all may have: one after the other.
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (Matches(entries[i].pattern, line)) found.push_back(static_cast<int>(i));
    }
  }

  bool IsFault(const Entry& entry, std::string_view line) const {
    const auto excluded = but.find(&Rule(entry));
    return excluded == but.end() ||
           std::none_of(excluded->second.begin(), excluded->second.end(),
                        [&](const Pattern& pattern) { return Matches(pattern, line); });
  }
};

std::string Describe(const LogFault& fault) {
  return fmt::format("the server's log has a fatal line ({}, line {}): \"{}\": {}", fault.kind,
                     base::WithThousands(fault.line), fault.text, fault.means);
}

LogRules::LogRules(std::unique_ptr<const Compiled> compiled) : compiled_(std::move(compiled)) {}
LogRules::~LogRules() = default;
const std::vector<RuleSet>& LogRules::sets() const {
  return compiled_->sets;
}
const std::string& LogRules::user_file() const {
  return compiled_->user_file;
}

base::Result<std::shared_ptr<const LogRules>> LogRules::Compile(std::vector<RuleSet> sets,
                                                                const std::string& file,
                                                                std::vector<std::string> named) {
  auto compiled = std::make_unique<Compiled>();
  compiled->sets = std::move(sets);
  compiled->user_file = file;
  re2::RE2::Options options = PatternOptions();
  options.set_max_mem(kSetMemory);
  compiled->all = std::make_unique<re2::RE2::Set>(options, re2::RE2::UNANCHORED);
  std::string prefixes;
  const auto add = [&](Use use, std::size_t set, std::size_t rule,
                       const std::vector<std::string>& patterns) {
    for (const std::string& text : patterns) {
      UG_CHECK(compiled->all->Add(text, nullptr) == static_cast<int>(compiled->entries.size()));
      compiled->entries.push_back({use, set, rule, MakePattern(text)});
    }
  };
  for (std::size_t i = 0; i < compiled->sets.size(); ++i) {
    const RuleSet& set = compiled->sets[i];
    compiled->named.push_back(std::find(named.begin(), named.end(), set.name) != named.end());
    if (!set.prefix.empty()) prefixes += (prefixes.empty() ? "(?:" : "|(?:") + set.prefix + ")";
    add(Use::kRecognise, i, 0, set.recognise);
    add(Use::kIgnore, i, 0, set.ignore);
    if (!set.ready.empty()) add(Use::kReady, i, 0, {set.ready});
    for (std::size_t r = 0; r < set.facts.size(); ++r) {
      add(Use::kFact, i, r, set.facts[r].log);
      add(Use::kAbsent, i, r, set.facts[r].absent_log);
    }
    for (const auto& [use, rules] :
         {std::pair(Use::kFault, &set.faults), std::pair(Use::kStall, &set.stalls)}) {
      for (std::size_t r = 0; r < rules->size(); ++r) {
        const FaultRule& rule = (*rules)[r];
        add(use, i, r, rule.log);
        for (const std::string& text : rule.but) compiled->but[&rule].push_back(MakePattern(text));
      }
    }
  }
  if (compiled->entries.size() > kMaxPatterns) {
    return base::UsageError(fmt::format("the log rules have {} patterns; at most {} can be used",
                                        compiled->entries.size(), kMaxPatterns));
  }
  if (!prefixes.empty()) compiled->prefix = MakePattern(prefixes);
  if (!compiled->all->Compile()) {
    return base::UsageError("the log rules need too much memory: they have too many patterns");
  }
  return std::shared_ptr<const LogRules>(new LogRules(std::move(compiled)));
}

namespace {

// Adds the shipped set and what it uses, each once.
base::Status AddShipped(const std::string& name, std::vector<RuleSet>& sets) {
  if (std::any_of(sets.begin(), sets.end(), [&](const RuleSet& set) { return set.name == name; })) {
    return {};
  }
  const auto& all = AllShippedRules();
  const auto shipped = std::find_if(all.begin(), all.end(),
                                    [&](const ShippedRules& rules) { return rules.name == name; });
  if (shipped == all.end()) {
    std::vector<std::string> names;
    for (const ShippedRules& rules : all) names.emplace_back(rules.name);
    return base::UsageError(fmt::format("log_rules: no set {} ships; there are {}{}",
                                        base::Visible(base::Shorten(name, 80)),
                                        base::JoinList(names), base::DidYouMean(name, names)));
  }
  UG_ASSIGN(RuleSet set, ParseRules(shipped->yaml, name + ".yaml"));
  set.name = name;
  sets.push_back(set);
  for (const std::string& used : set.uses) UG_TRY(AddShipped(used, sets));
  return {};
}

}  // namespace

base::Result<std::shared_ptr<const LogRules>> LogRules::Load(
    const plan::LogRulesSettings& settings, const std::filesystem::path& plan_directory) {
  std::vector<RuleSet> sets;
  std::vector<std::string> named = settings.sets;
  std::string text;
  if (settings.sets.empty()) {
    for (const ShippedRules& rules : AllShippedRules()) {
      UG_TRY(AddShipped(std::string(rules.name), sets));
    }
  }
  for (const std::string& name : settings.sets) UG_TRY(AddShipped(name, sets));
  if (!settings.file.empty()) {
    auto read = base::ReadFile(plan_directory / settings.file, plan::kMaxPlanBytes);
    if (!read) return base::UsageError("log_rules: " + base::Visible(read.error().message));
    text = *std::move(read);
    UG_ASSIGN(RuleSet set, ParseRules(text, settings.file));
    for (const std::string& used : set.uses) UG_TRY(AddShipped(used, sets));
    named.push_back(set.name);
    sets.push_back(std::move(set));
  }
  return Compile(std::move(sets), text, std::move(named));
}

std::optional<LogFault> LogRules::FindFault(std::string_view text, std::string_view kind) const {
  for (std::int64_t line = 1; !text.empty(); ++line) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view one = text.substr(0, end);
    for (const Entry& entry : compiled_->entries) {
      if (entry.use != Use::kFault || compiled_->Rule(entry).kind != kind) continue;
      if (Matches(entry.pattern, one) && compiled_->IsFault(entry, one)) {
        return LogFault{std::string(kind), line, ShownLine(one), compiled_->Rule(entry).means};
      }
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return std::nullopt;
}

struct LogWatcher::State {
  struct OfRule {
    std::map<std::string, std::int64_t> values;  // and the line that first told
    bool too_many = false;
    std::int64_t absent_line = 0;  // that would have been another if there were such a thing
  };
  struct OfSet {
    std::vector<OfRule> facts;
    std::map<std::size_t, evidence::LogWarning> stalls;
    bool recognised = false;
    bool ready = false;
  };

  std::atomic<std::int64_t> lines = 0;
  std::vector<int> found;  // of the feeding thread alone

  mutable std::mutex mutex;  // guards what follows
  std::vector<OfSet> sets;
  std::int64_t cut_line = 0;  // the first that came cut
  std::optional<LogFault> fault;
};

LogWatcher::LogWatcher(std::shared_ptr<const LogRules> rules)
    : rules_(std::move(rules)), state_(std::make_unique<State>()) {
  for (const RuleSet& set : rules_->sets()) {
    state_->sets.emplace_back().facts.resize(set.facts.size());
  }
}

LogWatcher::~LogWatcher() = default;

void LogWatcher::OnLine(std::string_view line) {
  const LogRules::Compiled& compiled = *rules_->compiled_;
  const std::int64_t number = ++state_->lines;
  const bool cut = line.size() >= kLineCap;
  if (line.ends_with('\r')) line.remove_suffix(1);
  line = compiled.WithoutPrefix(line.substr(0, kLineCap));
  compiled.Find(line, state_->found);
  if (state_->found.empty() && !cut) return;

  const std::lock_guard lock(state_->mutex);
  if (cut && state_->cut_line == 0) state_->cut_line = number;
  const bool ignored = std::any_of(state_->found.begin(), state_->found.end(), [&](int i) {
    return compiled.entries[static_cast<std::size_t>(i)].use == Use::kIgnore;
  });
  for (const int i : state_->found) {
    const Entry& entry = compiled.entries[static_cast<std::size_t>(i)];
    State::OfSet& set = state_->sets[entry.set];
    switch (entry.use) {
      case Use::kIgnore:
        break;
      case Use::kRecognise:
        set.recognised = true;
        break;
      case Use::kReady:
        set.ready = true;
        break;
      case Use::kAbsent: {
        auto& absent_line = set.facts[entry.rule].absent_line;
        if (absent_line == 0) absent_line = number;
        break;
      }
      case Use::kFact: {
        State::OfRule& of_rule = set.facts[entry.rule];
        std::string value;
        const std::string& form = compiled.sets[entry.set].facts[entry.rule].value;
        if (ignored || of_rule.too_many ||
            !re2::RE2::Extract(Piece(line), *entry.pattern, form, &value)) {
          break;
        }
        of_rule.values.try_emplace(
            InWords(compiled.sets[entry.set].facts[entry.rule], BoundedValue(value)), number);
        of_rule.too_many = of_rule.values.size() > kMaxFactValues;
        break;
      }
      case Use::kFault:
      case Use::kStall: {
        if (ignored || !compiled.IsFault(entry, line)) break;
        const FaultRule& rule = compiled.Rule(entry);
        if (entry.use == Use::kFault) {
          if (!state_->fault) {
            state_->fault = LogFault{rule.kind, number, ShownLine(line), rule.means};
          }
          break;
        }
        const auto [stall, first] = set.stalls.try_emplace(entry.rule);
        if (first) stall->second = {rule.kind, 0, number, ShownLine(line), rule.means};
        ++stall->second.count;
        break;
      }
    }
  }
}

std::optional<LogFault> LogWatcher::fault() const {
  const std::lock_guard lock(state_->mutex);
  return state_->fault;
}

std::vector<evidence::LogWarning> LogWatcher::warnings() const {
  const std::lock_guard lock(state_->mutex);
  std::vector<evidence::LogWarning> warnings;
  for (const State::OfSet& set : state_->sets) {
    for (const auto& [rule, stall] : set.stalls) warnings.push_back(stall);
  }
  return warnings;
}

bool LogWatcher::ready() const {
  const std::lock_guard lock(state_->mutex);
  for (std::size_t i = 0; i < state_->sets.size(); ++i) {
    if (!rules_->sets()[i].ready.empty() && !state_->sets[i].ready) return false;
  }
  return true;
}

std::vector<std::string> LogWatcher::Endpoints() const {
  const std::lock_guard lock(state_->mutex);
  std::set<std::string> endpoints;
  for (std::size_t i = 0; i < state_->sets.size(); ++i) {
    if (!rules_->compiled_->named[i] && !state_->sets[i].recognised) continue;
    for (const FactRule& rule : rules_->sets()[i].facts) {
      if (!rule.endpoint.empty()) endpoints.insert(rule.endpoint);
    }
  }
  return {endpoints.begin(), endpoints.end()};
}

namespace {

Fact FromAnswer(const FactRule& rule, const std::map<std::string, Answer>& answers) {
  Fact fact{rule.fact, FactState::kUnknown, "", "", rule.compared};
  const auto answer = answers.find(rule.endpoint);
  if (answer == answers.end()) {
    fact.source = rule.endpoint + " was not asked";
    return fact;
  }
  if (!answer->second.body) {
    fact.source = rule.endpoint + ": " + answer->second.problem;
    return fact;
  }
  const auto json = base::ParseJson(*answer->second.body);
  if (!json) {
    fact.source = rule.endpoint + " is not JSON: " + json.error().message;
    return fact;
  }
  const base::Json* member = nullptr;
  try {
    const base::Json::json_pointer pointer(rule.member);
    if (json->contains(pointer)) member = &json->at(pointer);
  } catch (const base::Json::exception&) {
    member = nullptr;  // a pointer that this answer has no place for
  }
  if (member != nullptr && !member->is_null()) {
    fact.state = FactState::kPresent;
    fact.value = InWords(rule, BoundedValue(member->is_string() ? member->get<std::string>()
                                                                : base::WriteJsonLine(*member)));
    fact.source = rule.endpoint;
  } else if (rule.absent_member && json->is_object()) {
    fact.state = FactState::kAbsent;
    fact.source = rule.endpoint + " has no " + rule.member;
  } else {
    fact.source = rule.endpoint + " has no " + rule.member;
  }
  return fact;
}

// The sets by which this boot was read, and their digests: other rules, other facts.
Fact RulesFact(const std::vector<RuleSet>& sets) {
  std::vector<std::string> parts;
  for (const RuleSet& set : sets) {
    parts.push_back(fmt::format("{} sha256:{}", base::Visible(set.name), set.sha256));
  }
  return {"log_rules", FactState::kPresent, base::JoinList(parts), "this client", false};
}

}  // namespace

std::vector<Fact> LogWatcher::Facts(const std::map<std::string, Answer>& answers) const {
  const std::lock_guard lock(state_->mutex);
  std::map<std::string, Fact> facts;
  const auto from_log = [&](const FactRule& rule, const State::OfRule& seen) {
    Fact fact{rule.fact, FactState::kUnknown, "", "no line of the log tells", rule.compared};
    if (seen.too_many) {
      fact.source = fmt::format("lines tell more than {} different values", kMaxFactValues);
    } else if (!seen.values.empty()) {
      std::int64_t first = INT64_MAX;
      for (const auto& [value, line] : seen.values) {
        fact.value += (fact.value.empty() ? "" : ", ") + value;
        first = std::min(first, line);
      }
      fact.state = FactState::kPresent;
      fact.source = fmt::format("log line {}", first);
    } else if (seen.absent_line > 0 && state_->cut_line > 0) {
      fact.source = fmt::format("log line {} was too long to be read whole", state_->cut_line);
    } else if (seen.absent_line > 0) {
      fact.state = FactState::kAbsent;
      fact.source = fmt::format("log line {}, and no line tells of it", seen.absent_line);
    }
    return fact;
  };
  for (std::size_t i = 0; i < state_->sets.size(); ++i) {
    const State::OfSet& seen = state_->sets[i];
    if (!rules_->compiled_->named[i] && !seen.recognised) continue;
    const RuleSet& set = rules_->sets()[i];
    for (std::size_t r = 0; r < set.facts.size(); ++r) {
      const FactRule& rule = set.facts[r];
      Fact fact = rule.endpoint.empty() ? from_log(rule, seen.facts[r]) : FromAnswer(rule, answers);
      const auto [known, is_new] = facts.try_emplace(rule.fact, fact);
      // Present before absent before unknown, whichever rule says so first.
      if (!is_new && fact.state < known->second.state) known->second = std::move(fact);
    }
  }
  facts.insert_or_assign("log_rules", RulesFact(rules_->sets()));
  std::vector<Fact> list;
  for (auto& [name, fact] : facts) list.push_back(std::move(fact));
  return list;
}

}  // namespace upgrade_gate::server
