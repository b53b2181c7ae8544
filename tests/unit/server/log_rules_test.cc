#include "framework/server/log_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <re2/re2.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <set>

#include "framework/base/text.h"
#include "tests/unit/base/temp_folder.h"

namespace upgrade_gate::server {
namespace {

using evidence::Fact;
using evidence::FactState;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Rules = std::shared_ptr<const LogRules>;

Rules RulesOf(std::string_view yaml) {
  auto set = ParseRules(yaml, "rules.yaml");
  EXPECT_TRUE(set) << set.error().message;
  auto rules = LogRules::Compile({*set}, std::string(yaml), {"rules.yaml"});
  EXPECT_TRUE(rules) << rules.error().message;
  return *rules;
}

Rules Shipped(const std::vector<std::string>& sets = {}) {
  auto rules = LogRules::Load({.sets = sets, .file = ""}, "");
  EXPECT_TRUE(rules) << rules.error().message;
  return *rules;
}

std::string ErrorOf(std::string_view yaml) {
  const auto set = ParseRules(yaml, "rules.yaml");
  return set ? "no error" : set.error().message;
}

Fact FactOf(const LogWatcher& watcher, const std::string& name,
            const std::map<std::string, Answer>& answers = {}) {
  for (Fact& fact : watcher.Facts(answers)) {
    if (fact.name == name) return fact;
  }
  return {"none of that name", FactState::kUnknown, "", ""};
}

std::string Told(const Fact& fact) {
  return std::string(Name(fact.state)) + " \"" + fact.value + "\" by " + fact.source;
}

// --- each shipped pattern against lines ----------------------------------------

struct Lines {
  std::string set;
  YAML::Node root;
};

std::vector<Lines> AllLines() {
  std::vector<Lines> all;
  for (const ShippedRules& rules : AllShippedRules()) {
    const std::string set(rules.name);
    all.push_back(
        {set, YAML::LoadFile(std::string(UPGRADE_GATE_LOG_RULES_LINES "/") + set + ".yaml")});
  }
  return all;
}

const RuleSet& SetOf(const LogRules& rules, const std::string& name) {
  const auto found = std::find_if(rules.sets().begin(), rules.sets().end(),
                                  [&](const RuleSet& set) { return set.name == name; });
  EXPECT_NE(found, rules.sets().end()) << name;
  return *found;
}

TEST(ShippedRules, EveryFactHasLinesThatGiveItAndLinesThatDoNot) {
  const Rules rules = Shipped({"gpu", "sglang", "vllm"});
  for (const Lines& lines : AllLines()) {
    const YAML::Node facts = lines.root["facts"];
    std::set<std::string> known;
    for (const FactRule& rule : SetOf(*rules, lines.set).facts) {
      if (rule.log.empty()) continue;
      known.insert(rule.fact);
      ASSERT_TRUE(facts && facts[rule.fact]) << lines.set << " " << rule.fact << " has no lines";
      EXPECT_GE(facts[rule.fact]["no"].size(), 1U) << lines.set << " " << rule.fact;
      for (const std::string& pattern : rule.log) {
        bool hit = false;
        for (const auto& each : facts[rule.fact]["yes"]) {
          hit = hit || re2::RE2::PartialMatch(each["line"].as<std::string>(), pattern);
        }
        EXPECT_TRUE(hit) << lines.set << " " << rule.fact << ": no line for " << pattern;
      }
    }
    if (!facts) continue;
    for (const auto& fact : facts) {
      const auto name = fact.first.as<std::string>();
      EXPECT_TRUE(known.contains(name)) << lines.set << " has no fact " << name;
      const Rules alone = *LogRules::Compile({SetOf(*rules, lines.set)}, "", {lines.set});
      for (const auto& each : fact.second["yes"]) {
        LogWatcher watcher(alone);
        watcher.OnLine(each["line"].as<std::string>());
        EXPECT_EQ(FactOf(watcher, name).value, each["value"].as<std::string>())
            << each["line"].as<std::string>();
      }
      for (const auto& line : fact.second["no"]) {
        LogWatcher watcher(alone);
        watcher.OnLine(line.as<std::string>());
        EXPECT_NE(FactOf(watcher, name).state, FactState::kPresent) << line.as<std::string>();
      }
    }
  }
}

TEST(ShippedRules, EveryFaultAndStallHasLinesThatAreOneAndLinesThatAreNot) {
  const Rules rules = Shipped({"gpu", "sglang", "vllm"});
  for (const Lines& lines : AllLines()) {
    const RuleSet& set = SetOf(*rules, lines.set);
    const Rules alone = *LogRules::Compile({set}, "", {});
    for (const auto& [key, list] :
         {std::pair("faults", &set.faults), std::pair("stalls", &set.stalls)}) {
      for (const FaultRule& rule : *list) {
        const YAML::Node of_rule = lines.root[key][rule.kind];
        ASSERT_TRUE(of_rule) << lines.set << " " << rule.kind << " has no lines";
        EXPECT_GE(of_rule["no"].size(), 1U) << lines.set << " " << rule.kind;
        for (const std::string& pattern : rule.log) {
          const bool hit =
              std::any_of(of_rule["yes"].begin(), of_rule["yes"].end(), [&](const auto& l) {
                return re2::RE2::PartialMatch(l.template as<std::string>(), pattern);
              });
          EXPECT_TRUE(hit) << lines.set << " " << rule.kind << ": no line for " << pattern;
        }
        for (const auto& line : of_rule["yes"]) {
          LogWatcher watcher(alone);
          watcher.OnLine("an earlier line");
          watcher.OnLine(line.as<std::string>());
          if (rule.kind == "stall") {
            ASSERT_EQ(watcher.warnings().size(), 1U) << line.as<std::string>();
            EXPECT_EQ(watcher.warnings()[0].line, 2);
            EXPECT_FALSE(watcher.fault());
          } else {
            ASSERT_TRUE(watcher.fault()) << line.as<std::string>();
            EXPECT_EQ(watcher.fault()->kind, rule.kind) << line.as<std::string>();
            EXPECT_EQ(watcher.fault()->line, 2);
          }
        }
        // Benign lines are so for every rule that ships, not for this one alone.
        for (const auto& line : of_rule["no"]) {
          LogWatcher watcher(rules);
          watcher.OnLine(line.as<std::string>());
          EXPECT_FALSE(watcher.fault()) << line.as<std::string>();
          EXPECT_THAT(watcher.warnings(), IsEmpty()) << line.as<std::string>();
        }
      }
    }
  }
}

// What a real engine wrote, from its start to its end.
TEST(ShippedRules, ReadARealLogAsItIs) {
  std::ifstream log(UPGRADE_GATE_LOG_RULES_LINES "/vllm-0.32.0-cpu.log");
  ASSERT_TRUE(log);
  LogWatcher watcher(Shipped());
  std::string line;
  while (std::getline(log, line) && line.find("[shutdown]") == line.npos) watcher.OnLine(line);
  ASSERT_TRUE(log) << "the log has no end of the server";
  EXPECT_FALSE(watcher.fault()) << Describe(*watcher.fault());
  EXPECT_THAT(watcher.warnings(), IsEmpty());
  const std::pair<const char*, const char*> present[] = {{"engine_version", "0.32.0"},
                                                         {"dtype", "bfloat16"},
                                                         {"enforce_eager", "True"},
                                                         {"prefix_caching", "True"},
                                                         {"chunked_prefill", "True"},
                                                         {"compilation_mode", "NONE"},
                                                         {"cudagraph_mode", "NONE"},
                                                         {"model_runner", "V1"},
                                                         {"fusions", "norm_quant, act_quant"},
                                                         {"kv_cache_layout", "LBHNC"},
                                                         {"kv_cache_tokens", "1,048,576"},
                                                         {"tensor_parallel_size", "1"},
                                                         {"quantization", "None"},
                                                         {"speculative_config", "None"},
                                                         {"moe_backend_choice", "auto"}};
  for (const auto& [fact, value] : present) EXPECT_EQ(FactOf(watcher, fact).value, value) << fact;
  // On a CPU nothing tells the backend, and chunked prefill is on without its line.
  EXPECT_EQ(FactOf(watcher, "attention_backend").state, FactState::kUnknown);
  EXPECT_EQ(FactOf(watcher, "chunked_prefill_tokens").state, FactState::kUnknown);

  // Stopped on purpose with a request under way it speaks of a dead engine: what
  // comes after the stop says nothing of the boot (capture/boot_session.cc).
  while (std::getline(log, line)) watcher.OnLine(line);
  ASSERT_TRUE(watcher.fault());
  EXPECT_EQ(watcher.fault()->kind, "engine");
}

TEST(ShippedRules, AnUnknownSetIsAnErrorThatNamesThoseThatShip) {
  const auto rules = LogRules::Load({.sets = {"vlm"}, .file = ""}, "");
  ASSERT_FALSE(rules);
  EXPECT_EQ(rules.error().kind, base::ErrorKind::kUsage);
  EXPECT_EQ(rules.error().message,
            "log_rules: no set vlm ships; there are gpu, sglang and vllm (did you mean \"vllm\"?)");
}

TEST(ShippedRules, ASetBringsWhatItUses) {
  LogWatcher watcher(Shipped({"vllm"}));
  watcher.OnLine("RuntimeError: NCCL error: unhandled system error");
  ASSERT_TRUE(watcher.fault());
  EXPECT_EQ(watcher.fault()->kind, "nccl");
}

// --- facts ------------------------------------------------------------------------

constexpr std::string_view kEngine = R"(
version: 1
recognise: 'Engine (\d+)'
prefix: '\[\d+\] '
ignore: 'Request '
facts:
  - {fact: kernel, log: 'Using (\w+) kernel', absent: 'Engine \d+ is up'}
  - {fact: dtype, endpoint: /info, member: /config/dtype, absent: no_member}
  - {fact: replay, endpoint: /info, member: /replay, names: {"true": enabled}}
  - {fact: path, log: '^path: (.*)$'}
faults:
  - {class: cuda, log: 'CUDA error', but: 'harmless', means: the GPU is gone}
stalls:
  - {log: 'no answer for \d+ s', means: a worker hangs}
)";

TEST(Facts, SeveralValuesAreJoinedInOrderAndTheFirstLineIsNamed) {
  LogWatcher watcher(RulesOf(kEngine));
  watcher.OnLine("[1] Using B kernel");
  watcher.OnLine("[2] Using A kernel");
  watcher.OnLine("[3] Using B kernel");
  EXPECT_EQ(Told(FactOf(watcher, "kernel")), "present \"A, B\" by log line 1");
}

TEST(Facts, ThePrefixIsCutOffBeforeAPatternIsTried) {
  LogWatcher watcher(RulesOf(kEngine));
  watcher.OnLine("[1] path: x");
  EXPECT_EQ(FactOf(watcher, "path").value, "x");
}

TEST(Facts, NoMatchIsUnknownUntilALineProvesAbsence) {
  LogWatcher watcher(RulesOf(kEngine));
  watcher.OnLine("[1] something else");
  EXPECT_EQ(Told(FactOf(watcher, "kernel")), "unknown \"\" by no line of the log tells");
  watcher.OnLine("[2] Engine 7 is up");
  EXPECT_EQ(Told(FactOf(watcher, "kernel")), "absent \"\" by log line 2, and no line tells of it");
}

TEST(Facts, ALineThatCameCutLeavesAbsenceUnproved) {
  LogWatcher watcher(RulesOf(kEngine));
  watcher.OnLine(std::string(64 << 10, 'x'));
  watcher.OnLine("[2] Engine 7 is up");
  EXPECT_EQ(Told(FactOf(watcher, "kernel")),
            "unknown \"\" by log line 1 was too long to be read whole");
}

TEST(Facts, AnEndpointGivesAValueAbsenceOrNothing) {
  LogWatcher watcher(RulesOf(kEngine));
  const auto told = [&](const Answer& answer, const std::string& fact) {
    return Told(FactOf(watcher, fact, {{"/info", answer}}));
  };
  EXPECT_EQ(told({R"({"config":{"dtype":"fp8"},"replay":true})", ""}, "dtype"),
            "present \"fp8\" by /info");
  EXPECT_EQ(told({R"({"config":{"dtype":"fp8"},"replay":true})", ""}, "replay"),
            "present \"enabled\" by /info");
  EXPECT_EQ(told({R"({"config":{}})", ""}, "dtype"), "absent \"\" by /info has no /config/dtype");
  EXPECT_EQ(told({R"({"config":{}})", ""}, "replay"), "unknown \"\" by /info has no /replay");
  EXPECT_EQ(told({R"([1])", ""}, "dtype"), "unknown \"\" by /info has no /config/dtype");
  EXPECT_THAT(told({"<html>", ""}, "dtype"), HasSubstr("unknown \"\" by /info is not JSON: "));
  EXPECT_EQ(told({std::nullopt, "answered 404"}, "dtype"), "unknown \"\" by /info: answered 404");
  EXPECT_EQ(Told(FactOf(watcher, "dtype")), "unknown \"\" by /info was not asked");
}

TEST(Facts, ManyDifferentValuesAreNoValue) {
  LogWatcher watcher(RulesOf(kEngine));
  for (int i = 0; i < 40; ++i) watcher.OnLine("Using k" + std::to_string(i) + " kernel");
  EXPECT_EQ(Told(FactOf(watcher, "kernel")),
            "unknown \"\" by lines tell more than 32 different values");
}

TEST(Facts, LongValuesAreBoundedAndStillToldApart) {
  LogWatcher one(RulesOf(kEngine));
  LogWatcher other(RulesOf(kEngine));
  const std::string same(5'000, 'x');
  one.OnLine("path: " + same + "1");
  other.OnLine("path: " + same + "2");
  EXPECT_LT(FactOf(one, "path").value.size(), kMaxFactValueBytes + 100);
  EXPECT_NE(FactOf(one, "path").value, FactOf(other, "path").value);
}

TEST(Facts, AnEngineThatIsNotRecognisedHasNoneUnlessItsSetIsNamed) {
  LogWatcher all(Shipped());
  all.OnLine("hello from some other server");
  EXPECT_EQ(all.Facts({}).size(), 1U);  // "log_rules"
  EXPECT_THAT(all.Endpoints(), IsEmpty());
  LogWatcher named(Shipped({"vllm"}));
  EXPECT_EQ(FactOf(named, "attention_backend").state, FactState::kUnknown);
  EXPECT_THAT(named.Endpoints(), ElementsAre("/server_info?config_format=json", "/version"));
  all.OnLine("(APIServer pid=1) INFO 11-29 10:20:58 [utils.py:299] vLLM API server version 0.32.0");
  EXPECT_THAT(all.Endpoints(), ElementsAre("/server_info?config_format=json", "/version"));
}

TEST(Facts, TheRulesThemselvesAreOne) {
  const LogWatcher watcher(RulesOf(kEngine));
  const Fact fact = FactOf(watcher, "log_rules");
  EXPECT_FALSE(fact.compared);
  EXPECT_EQ(fact.value, "rules.yaml sha256:" + base::Sha256Of(kEngine));
}

TEST(Facts, ALineThatQuotesARequestTellsNothing) {
  LogWatcher watcher(RulesOf(kEngine));
  watcher.OnLine("Request 'Using X kernel' 'CUDA error' 'no answer for 9 s'");
  EXPECT_EQ(FactOf(watcher, "kernel").state, FactState::kUnknown);
  EXPECT_FALSE(watcher.fault());
  EXPECT_THAT(watcher.warnings(), IsEmpty());
}

// --- faults -------------------------------------------------------------------------

TEST(Faults, TheFirstFatalLineStaysWithItsNumberAndMeaning) {
  LogWatcher watcher(RulesOf(kEngine));
  watcher.OnLine("CUDA error, harmless");
  EXPECT_FALSE(watcher.fault());
  watcher.OnLine("[2] CUDA error: \x1b[31mgone");
  watcher.OnLine("[3] CUDA error: again");
  ASSERT_TRUE(watcher.fault());
  EXPECT_EQ(Describe(*watcher.fault()),
            "the server's log has a fatal line (cuda, line 2): \"CUDA error: \\x1b[31mgone\": "
            "the GPU is gone");
}

TEST(Faults, AStallIsCountedAndWarnsOnly) {
  LogWatcher watcher(RulesOf(kEngine));
  for (int i = 0; i < 3; ++i) watcher.OnLine("no answer for 60 s");
  ASSERT_EQ(watcher.warnings().size(), 1U);
  EXPECT_EQ(watcher.warnings()[0].count, 3);
  EXPECT_EQ(watcher.warnings()[0].line, 1);
  EXPECT_EQ(watcher.warnings()[0].means, "a worker hangs");
  EXPECT_FALSE(watcher.fault());
}

TEST(Faults, AKernelsLogIsSearchedForOneClass) {
  const auto fault = Shipped()->FindFault(
      "[1.0] usb 1-1: new device\n[2.0] NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off\n",
      "xid");
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->line, 2);
  EXPECT_FALSE(Shipped()->FindFault("CUDA error: x", "xid"));
}

TEST(Readiness, IsWaitedForOnlyWhereALineIsNamed) {
  EXPECT_TRUE(LogWatcher(Shipped()).ready());
  LogWatcher watcher(RulesOf("version: 1\nready: 'is up'\n"));
  EXPECT_FALSE(watcher.ready());
  watcher.OnLine("it is up");
  EXPECT_TRUE(watcher.ready());
}

// --- hostile logs ----------------------------------------------------------------------

TEST(Hostile, ALineOfAMebibyteAndBytesOfAllKindsDoNoHarm) {
  LogWatcher watcher(Shipped());
  std::string line(1 << 20, 'C');
  for (std::size_t i = 0; i + 8 < line.size(); i += 9) line.replace(i, 5, "CUDA ");
  watcher.OnLine(line);
  std::string bytes;
  for (int i = 0; i < 64 * 1024; ++i) bytes.push_back(static_cast<char>(i % 251));
  watcher.OnLine(bytes);
  watcher.OnLine(std::string("\xff\xfe CUDA error: \x80\x00 gone", 24));
  ASSERT_TRUE(watcher.fault());
  EXPECT_EQ(watcher.fault()->line, 3);
  EXPECT_TRUE(base::IsValidUtf8(watcher.fault()->text));
}

// A bound far above what it takes (README.md of the rules says how much), so that
// only a matcher that is not linear breaks it.
TEST(Hostile, AHundredThousandLinesTakeLessThanASecondEach) {
  LogWatcher watcher(Shipped());
  const std::string line =
      "(EngineCore pid=214) INFO 11-29 10:21:07 [loggers.py:127] Engine 000: Avg prompt "
      "throughput: "
      "8192.0 tokens/s, Avg generation throughput: 256.0 tokens/s, Running: 8 reqs";
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 100'000; ++i) watcher.OnLine(line);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  RecordProperty("lines_per_s", std::to_string(100'000 / took.count()));
  EXPECT_LT(took.count(), 20.0);
  EXPECT_FALSE(watcher.fault());
}

TEST(Hostile, ManyMatchesDoNotGrowWhatIsKept) {
  LogWatcher watcher(Shipped({"vllm"}));
  for (int i = 0; i < 10'000; ++i) {
    watcher.OnLine("Using B" + std::to_string(i) + " attention backend");
    watcher.OnLine("No available block found in " + std::to_string(i) + " second");
  }
  EXPECT_EQ(FactOf(watcher, "attention_backend").state, FactState::kUnknown);
  ASSERT_EQ(watcher.warnings().size(), 1U);
  EXPECT_EQ(watcher.warnings()[0].count, 10'000);
}

// --- the file ---------------------------------------------------------------------------

TEST(RulesFile, ErrorsSayWhereAndWhat) {
  EXPECT_EQ(ErrorOf("version: 2\nfacts: []\n"),
            "rules.yaml:1:10: these are rules of version 2; only version 1 can be read");
  EXPECT_EQ(ErrorOf("version: 1\nfacts:\n  - {fact: a, log: '('}\n"),
            "rules.yaml:3:20: \"(\" is no pattern that RE2 can read: missing ): (");
  EXPECT_EQ(ErrorOf("version: 1\nfacts:\n  - {fact: a, log: 'x*'}\n"),
            "rules.yaml:3:20: \"x*\" matches every line, even an empty one");
  EXPECT_EQ(ErrorOf("version: 1\nfacts:\n  - {fact: a, log: 'x'}\n"),
            "rules.yaml:3:5: the pattern has no group to take the value from: write (…) in it, or "
            "give \"value\"");
  EXPECT_EQ(ErrorOf("version: 1\nfacts:\n  - {fact: a, log: '(x)', value: '\\2'}\n"),
            "rules.yaml:3:34: \"\\2\" uses group 2, but a pattern of the fact has 1");
  EXPECT_EQ(ErrorOf("version: 1\nfaults:\n  - {class: cudo, log: x, means: y}\n"),
            "rules.yaml:3:13: unknown class \"cudo\" (did you mean \"cuda\"?)");
  EXPECT_EQ(
      ErrorOf("version: 1\nfacts:\n  - {fact: a}\n"),
      "rules.yaml:3:5: a fact has no \"log\": a fact is of a line of the log or of an endpoint");
  EXPECT_EQ(ErrorOf("version: 1\nfacts:\n  - {fact: a, endpoint: version, member: /v}\n"),
            "rules.yaml:3:25: must be a path like /version");
  EXPECT_THAT(ErrorOf("version: 1\nfault: []\n"),
              HasSubstr("rules.yaml:2:1: unknown key \"fault\" (did you mean \"faults\"?)"));
  EXPECT_THAT(ErrorOf("version: 1\nready: '" + std::string(2'001, 'x') + "'\n"),
              HasSubstr("a pattern may have 2000 bytes"));
}

TEST(RulesFile, OfAUserIsReadBesideThePlanAndKept) {
  const base::TempFolder folder;
  std::ofstream(folder.path() / "mine.yaml") << kEngine;
  const auto rules = LogRules::Load({.sets = {"vllm"}, .file = "mine.yaml"}, folder.path());
  ASSERT_TRUE(rules) << rules.error().message;
  EXPECT_EQ((*rules)->user_file(), kEngine);
  LogWatcher watcher(*rules);
  watcher.OnLine("Using X kernel");
  EXPECT_EQ(FactOf(watcher, "kernel").value, "X");
}

TEST(RulesFile, ThatIsMissingIsAnErrorOfUse) {
  const base::TempFolder folder;
  const auto rules = LogRules::Load({.sets = {}, .file = "mine.yaml"}, folder.path());
  ASSERT_FALSE(rules);
  EXPECT_EQ(rules.error().kind, base::ErrorKind::kUsage);
  EXPECT_THAT(rules.error().message, AllOf(HasSubstr("log_rules: "), HasSubstr("mine.yaml")));
}

TEST(RulesFile, TooManyPatternsAreRefused) {
  std::string yaml = "version: 1\nrecognise:\n";
  for (int i = 0; i < 1'001; ++i) yaml += "  - 'line " + std::to_string(i) + "'\n";
  const auto set = ParseRules(yaml, "rules.yaml");
  ASSERT_TRUE(set);
  const auto rules = LogRules::Compile({*set}, "", {});
  ASSERT_FALSE(rules);
  EXPECT_EQ(rules.error().message, "the log rules have 1001 patterns; at most 1000 can be used");
}

}  // namespace
}  // namespace upgrade_gate::server
