// Rules that turn what a server writes and answers into named facts, and that know
// the lines after which it cannot go on.
//
// Rules are data: the sets that ship (fixtures/log_rules, built in) and a file of
// the user's, all in RE2's syntax, matched against lines without the prefix that
// the engine's logger puts before them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/base/digest.h"
#include "framework/base/result.h"
#include "framework/evidence/records.h"
#include "framework/plan/plan.h"

namespace upgrade_gate::server {

inline constexpr std::size_t kMaxPatterns = 1'000;  // of all sets together
inline constexpr std::size_t kMaxPatternBytes = 2'000;
inline constexpr std::size_t kMaxFactValues = 32;  // different ones of a fact; more make it unknown
inline constexpr std::size_t kMaxFactValueBytes = 1'000;

// One way to learn a fact; a fact may have several, and the first that tells counts.
struct FactRule {
  std::string fact;
  std::vector<std::string> log;                   // patterns of lines
  std::map<std::string, std::string> names = {};  // other words for values: "true" -> "enabled"
  std::string value = "\\1";                      // what a match makes: groups are \1, \2, …
  std::string endpoint;  // instead of `log`: a path that answers JSON, "/version"
  std::string member;    // of the answer, a JSON pointer, "/version"
  bool compared = true;  // false: recorded, and different by nature
  // Proof that there is no such thing: a line by which an engine shows that it
  // would have told, or a whole answer without the member.
  std::vector<std::string> absent_log;
  bool absent_member = false;
};

struct FaultRule {
  std::string kind;              // "cuda"; of a stall "stall"
  std::vector<std::string> log;  // patterns
  std::vector<std::string> but;  // a line that one of these matches too is none
  std::string means;             // for people: what it is and what to do
};

struct RuleSet {
  std::string name;                    // "vllm"; a user's file: its name
  std::vector<std::string> uses;       // other sets that come with it
  std::vector<std::string> recognise;  // lines that only this engine writes
  std::string prefix;                  // of a line, put there by the logger
  std::vector<std::string> ignore;     // lines that quote what they were sent: no faults
  std::string ready;                   // a line without which the server is not ready; optional
  std::vector<FactRule> facts;
  std::vector<FaultRule> faults;  // the first such line ends the boot
  std::vector<FaultRule> stalls;  // a warning each
  base::Sha256Hex sha256;         // of the file
};

// kUsage errors with the place of each: "rules.yaml:7:12: …".
base::Result<RuleSet> ParseRules(std::string_view yaml, const std::string& file);

struct ShippedRules {
  std::string_view name, yaml;
};
const std::vector<ShippedRules>& AllShippedRules();

// What an endpoint said; absent body: nothing usable, and `problem` says why.
struct Answer {
  std::optional<std::string> body;
  std::string problem;
};

struct LogFault {
  std::string kind;
  std::int64_t line = 0;  // number in the log, from 1
  std::string text;       // made visible and shortened
  std::string means;
};
// "the server's log has a fatal line (cuda, line 1,204): … : …"
std::string Describe(const LogFault& fault);

// Compiled sets; immutable, and shared by all boots of a run.
class LogRules {
 public:
  // kUsage errors: a set that does not ship, a file that cannot be read or is wrong.
  static base::Result<std::shared_ptr<const LogRules>> Load(
      const plan::LogRulesSettings& settings, const std::filesystem::path& plan_directory);
  // The named ones are looked for whether or not their engine is recognised.
  static base::Result<std::shared_ptr<const LogRules>> Compile(std::vector<RuleSet> sets,
                                                               const std::string& file,
                                                               std::vector<std::string> named);
  ~LogRules();

  const std::vector<RuleSet>& sets() const;
  // The user's file as it was read; empty: none.
  const std::string& user_file() const;
  // The first rule whose patterns are in the text (of a kernel's log, of a command).
  std::optional<LogFault> FindFault(std::string_view text, std::string_view kind) const;

 private:
  friend class LogWatcher;
  struct Compiled;
  explicit LogRules(std::unique_ptr<const Compiled> compiled);
  const std::unique_ptr<const Compiled> compiled_;
};

// Reads one boot's log. OnLine is for the thread that feeds the log; everything
// else may be called from any thread, at any time.
class LogWatcher {
 public:
  explicit LogWatcher(std::shared_ptr<const LogRules> rules);
  ~LogWatcher();

  // A line of `line_cap` bytes or more is taken for one that was cut.
  void OnLine(std::string_view line);
  // The endpoints that the facts of the engines recognised so far need.
  std::vector<std::string> Endpoints() const;

  std::optional<LogFault> fault() const;
  std::vector<evidence::LogWarning> warnings() const;
  // True if no set names a line of readiness, or each that does has seen it.
  bool ready() const;
  // By name, each once; with "log_rules", which says by what rules.
  std::vector<evidence::Fact> Facts(const std::map<std::string, Answer>& answers) const;

 private:
  struct State;
  const std::shared_ptr<const LogRules> rules_;
  const std::unique_ptr<State> state_;
};

}  // namespace upgrade_gate::server
