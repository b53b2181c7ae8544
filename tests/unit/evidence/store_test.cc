#include "framework/evidence/store.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "framework/base/compression.h"
#include "framework/base/json.h"
#include "framework/evidence/limits.h"
#include "tests/unit/evidence/evidence_test_support.h"

namespace upgrade_gate::evidence {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

class StoreTest : public testing::Test {
 protected:
  Layout layout() const { return Layout(temp_.path() / "run"); }
  fs::path first() const { return layout().round("1k-512-c1", 1, "baseline", 1); }
  std::string Write(const RoundRecord& round, const std::vector<RawStream>& streams = {}) const {
    return ErrorOf(WriteRound(layout(), round, streams));
  }
  std::string Read() const { return ErrorOf(ReadRound(first())); }
  // Writes a round and replaces one piece of its round.json.
  std::string ReadAfter(const std::string& from, const std::string& to) {
    fs::remove_all(layout().run());
    EXPECT_EQ(Write(RoundOf("baseline", 1, 1,
                            {Accepted(0), Failed(1, FailureKind::kEmptyOutput), Accepted(2)})),
              "(no error)");
    Replace(first() / kRoundFile, from, to);
    return Read();
  }
  void PutRequests(std::string_view jsonl) const {
    Put(first() / kRequestsFile, base::Compress(jsonl));
  }
  std::string Requests() const {
    return *base::Decompress(Get(first() / kRequestsFile), kMaxRecordsBytes);
  }

 private:
  TempFolder temp_;
};

TEST_F(StoreTest, ARoundIsReadAsItWasWritten) {
  RoundRecord round = RoundOf("baseline", 1, 1, {Accepted(0), Failed(2, FailureKind::kHttpStatus)});
  round.planned = 4;
  round.stopped = StopReason::kServiceLost;
  round.stop_detail = "exit code 3";
  round.requests[0].notes = {"literal U+FFFD in the text"};
  round.requests[1].http_status = 503;
  round.requests[1].usage = std::nullopt;
  round.requests[1].finish_reason = "";
  round.warmup = {Accepted(0)};
  ASSERT_EQ(Write(round), "(no error)");
  const auto read = ReadRound(first());
  ASSERT_TRUE(read) << ErrorOf(read);
  EXPECT_EQ(read->case_name, round.case_name);
  EXPECT_EQ(read->arm, "baseline");
  EXPECT_EQ(read->planned, 4);
  EXPECT_EQ(read->concurrency, 1);
  EXPECT_EQ(read->duration, Ms(1000));
  EXPECT_EQ(read->started_at, round.started_at);
  EXPECT_EQ(read->stopped, StopReason::kServiceLost);
  EXPECT_EQ(read->stop_detail, "exit code 3");
  EXPECT_FALSE(read->superseded);
  ASSERT_EQ(read->requests.size(), 2U);
  const RequestRecord& good = read->requests[0];
  EXPECT_TRUE(good.accepted());
  EXPECT_EQ(good.body_sha256, round.requests[0].body_sha256);
  EXPECT_EQ(good.prompt_sha256, round.requests[0].prompt_sha256);
  EXPECT_EQ(good.input_tokens, 32);
  EXPECT_EQ(good.output_tokens, 11);
  EXPECT_EQ(good.times.scheduled, Ms(0));
  EXPECT_EQ(good.times.sent, Ms(1));
  EXPECT_EQ(good.times.first_byte, Ms(99));
  EXPECT_EQ(good.times.first_token, Ms(100));
  EXPECT_EQ(good.times.first_text, Ms(100));
  EXPECT_EQ(good.times.last_token, Ms(200));
  EXPECT_EQ(good.times.done, Ms(201));
  EXPECT_EQ(good.times.closed, Ms(202));
  EXPECT_EQ(good.http_status, 200);
  EXPECT_EQ(good.usage->completion_tokens, 11);
  EXPECT_EQ(good.finish_reason, "length");
  EXPECT_EQ(good.text_bytes, 44);
  EXPECT_EQ(good.chunks, 11);
  EXPECT_THAT(good.notes, ElementsAre("literal U+FFFD in the text"));
  const RequestRecord& bad = read->requests[1];
  EXPECT_EQ(bad.index, 2);
  EXPECT_EQ(bad.failure->kind, FailureKind::kHttpStatus);
  EXPECT_EQ(bad.failure->detail, "said so");
  EXPECT_EQ(bad.http_status, 503);
  EXPECT_FALSE(bad.usage);
  EXPECT_FALSE(bad.times.first_text);
  EXPECT_EQ(bad.finish_reason, "");
  EXPECT_EQ(read->warmup.size(), 1U);
}

TEST_F(StoreTest, TheFilesSayWhatTheyHold) {
  RoundRecord round = RoundOf("baseline", 1, 1, {Accepted(0), Failed(1, FailureKind::kStalled)});
  ASSERT_EQ(Write(round), "(no error)");
  const auto json = base::ParseJson(Get(first() / kRoundFile));
  ASSERT_TRUE(json);
  EXPECT_EQ(json->at("schema"), 1);
  EXPECT_EQ(json->at("case"), "1k-512-c1");
  EXPECT_EQ(json->at("planned"), 2);
  EXPECT_EQ(json->at("sent"), 2);
  EXPECT_EQ(json->at("not_sent"), 0);
  EXPECT_EQ(json->at("accepted"), 1);
  EXPECT_EQ(json->at("failures").dump(), "{\"stalled\":1}");
  EXPECT_EQ(json->at("duration_ns"), 1'000'000'000);
  const std::string lines = Requests();
  const auto line = base::ParseJson(lines.substr(lines.find('\n') + 1));
  ASSERT_TRUE(line);
  EXPECT_EQ(line->at("schema"), 1);
  EXPECT_EQ(line->at("phase"), "formal");
  EXPECT_EQ(line->at("sent_ns"), 1'000'000);
  EXPECT_TRUE(line->at("first_text_ns").is_null());
  EXPECT_EQ(line->at("failure").at("kind"), "stalled");
}

TEST_F(StoreTest, RawStreamsAreKeptCompressedUnderTheirIndex) {
  RoundRecord round = RoundOf("baseline", 1, 1, {Accepted(0), Failed(1, FailureKind::kNoEvents)});
  round.warmup = {Failed(1, FailureKind::kNoEvents)};
  const std::string bytes("data: \0\xff\r\n\r\n", 12);
  ASSERT_EQ(Write(round, {{1, Phase::kFormal, bytes}, {1, Phase::kWarmup, "warm"}}), "(no error)");
  EXPECT_EQ(*base::Decompress(Get(first() / "streams/00001.raw.zst"), 100), bytes);
  EXPECT_EQ(*base::Decompress(Get(first() / "streams/warmup-00001.raw.zst"), 100), "warm");
}

TEST_F(StoreTest, AStreamBelongsToARequestOfTheRound) {
  const RoundRecord round = RoundOf("baseline", 1, 1, {Accepted(0)});
  EXPECT_THAT(Write(round, {{1, Phase::kFormal, ""}}), HasSubstr("belongs to no request"));
  EXPECT_THAT(Write(round, {{0, Phase::kWarmup, ""}}), HasSubstr("belongs to no request"));
  EXPECT_THAT(Write(round, {{0, Phase::kDiagnostic, ""}}), HasSubstr("belongs to no request"));
  EXPECT_THAT(Write(round, {{0, Phase::kFormal, ""}, {0, Phase::kFormal, ""}}),
              HasSubstr("is there twice"));
  EXPECT_FALSE(fs::exists(layout().rounds()));
}

TEST_F(StoreTest, NothingIsOverwritten) {
  const RoundRecord round = RoundOf("baseline", 1, 1, {Accepted(0)});
  ASSERT_EQ(Write(round), "(no error)");
  EXPECT_THAT(Write(round), HasSubstr("is already there"));
}

TEST_F(StoreTest, WhatTheReaderWouldRefuseIsNotWritten) {
  RoundRecord round = RoundOf("baseline", 1, 1, {Accepted(0)});
  const auto refused = [&](auto change) {
    RoundRecord changed = round;
    change(changed);
    const std::string error = Write(changed);
    EXPECT_FALSE(fs::exists(layout().rounds()));
    return error;
  };
  EXPECT_THAT(refused([](auto& r) { r.case_name = "../x"; }), HasSubstr("not plain names"));
  EXPECT_THAT(refused([](auto& r) { r.arm = "a/b"; }), HasSubstr("not plain names"));
  EXPECT_THAT(refused([](auto& r) { r.round = 0; }), HasSubstr("round 0: numbers start at 1"));
  EXPECT_THAT(refused([](auto& r) { r.step = 0; }), HasSubstr("step 0: numbers start at 1"));
  EXPECT_THAT(refused([](auto& r) { r.superseded = true; }), HasSubstr("superseded"));
  EXPECT_THAT(refused([](auto& r) { r.planned = 2; }),
              HasSubstr("1 of 2 planned requests were not sent, but nothing stopped the round"));
  EXPECT_THAT(refused([](auto& r) { r.round = 2, r.warmup = {Accepted(0)}; }),
              HasSubstr("which only round 1 has"));
  EXPECT_THAT(refused([](auto& r) { r.requests[0].body_sha256 = "abc"; }),
              HasSubstr("request 0: the body's digest"));
  EXPECT_THAT(refused([](auto& r) { r.requests[0].http_status = 500; }),
              HasSubstr("request 0: accepted without HTTP status 200"));
  EXPECT_THAT(refused([](auto& r) { r.requests[0].usage.reset(); }), HasSubstr("without usage"));
  EXPECT_THAT(refused([](auto& r) { r.requests[0].text_bytes = 0; }), HasSubstr("without text"));
  EXPECT_THAT(refused([](auto& r) { r.requests[0].times.first_text.reset(); }),
              HasSubstr("the times of its first and last output are not those of what came"));
  EXPECT_THAT(refused([](auto& r) {
                r.requests[0].text_bytes = 0;
                r.requests[0].times.first_token.reset();
                r.requests[0].times.first_text.reset();
                r.requests[0].times.last_token.reset();
              }),
              HasSubstr("without text or other output"));
  EXPECT_THAT(refused([](auto& r) { r.requests[0].times.done.reset(); }), HasSubstr("terminator"));
  EXPECT_THAT(refused([](auto& r) { r.requests[0].times.first_text = Ms(98); }),
              HasSubstr("first_text is 2000000 ns before first_token"));
  EXPECT_THAT(refused([](auto& r) { r.duration = Ms(199); }),
              HasSubstr("the round's duration is 199000000 ns, but its accepted requests span "
                        "200000000 ns"));
  EXPECT_THAT(refused([](auto& r) { r.requests[0].notes = {std::string(70'000, 'x')}; }),
              HasSubstr("is over the cap of 65536"));
}

TEST_F(StoreTest, OtherOutputThanStreamedTextIsKept) {
  RequestRecord reasoning = Accepted(0);
  reasoning.text_bytes = 0;
  reasoning.reasoning_bytes = 7;
  reasoning.reasoning_field = "reasoning";
  reasoning.times.first_text.reset();
  RequestRecord call = reasoning;
  call.index = 1;
  call.reasoning_bytes = 0;
  call.reasoning_field.clear();
  call.tool_calls = 2;
  RequestRecord body = Accepted(2);
  body.streamed = false;
  body.times.done.reset();
  body.times.first_token.reset();
  body.times.first_text.reset();
  body.input_tokens.reset();
  RequestRecord empty = body;
  empty.index = 3;
  empty.text_bytes = 0;
  empty.times.last_token.reset();
  empty.empty_allowed = true;
  ASSERT_EQ(Write(RoundOf("baseline", 1, 1, {reasoning, call, body, empty})), "(no error)");
  const auto round = ReadRound(first());
  ASSERT_TRUE(round) << ErrorOf(round);
  EXPECT_EQ(round->requests[0].reasoning_field, "reasoning");
  EXPECT_EQ(round->requests[0].reasoning_bytes, 7);
  EXPECT_EQ(round->requests[1].tool_calls, 2);
  EXPECT_TRUE(round->requests[1].streamed);
  EXPECT_FALSE(round->requests[2].streamed);
  EXPECT_EQ(round->requests[2].input_tokens, std::nullopt);
  EXPECT_TRUE(round->requests[3].empty_allowed);
}

TEST_F(StoreTest, HostileTextIsMadeVisibleWhenWritten) {
  RoundRecord round = RoundOf("baseline", 1, 1, {Failed(0, FailureKind::kInBandError)});
  round.requests[0].failure->detail = "\x1b[2J\xff";
  ASSERT_EQ(Write(round), "(no error)");
  EXPECT_EQ(ReadRound(first())->requests[0].failure->detail, "\\x1b[2J\\xff");
}

TEST_F(StoreTest, TheNameOfTheFolderMustAgreeWithTheRecord) {
  ASSERT_EQ(Write(RoundOf("baseline", 1, 1, {Accepted(0)})), "(no error)");
  for (const fs::path& other :
       {layout().round("1k-512-c1", 1, "baseline", 2),
        layout().round("1k-512-c1", 2, "baseline", 1),
        layout().round("1k-512-c1", 1, "candidate", 1), layout().round("8k", 1, "baseline", 1)}) {
    fs::create_directories(other.parent_path());
    fs::copy(first(), other);
    EXPECT_THAT(ErrorOf(ReadRound(other)), HasSubstr("not what its folder's name says")) << other;
  }
  fs::rename(first(), first().string() + "x");
  EXPECT_THAT(ErrorOf(ReadRound(first().string() + "x")), HasSubstr("is not the name of a round"));
}

TEST_F(StoreTest, CountsMustAddUpAndTheErrorSaysByHowMuch) {
  EXPECT_EQ(ReadAfter("\"planned\": 3", "\"planned\": 5"),
            first().string() + "/round.json: 5 planned, but 3 sent + 0 not sent = 3: 2 too few");
  EXPECT_THAT(ReadAfter("\"not_sent\": 0", "\"not_sent\": 1"),
              HasSubstr("3 planned, but 3 sent + 1 not sent = 4: 1 too many"));
  EXPECT_THAT(ReadAfter("\"accepted\": 2", "\"accepted\": 3"),
              HasSubstr("3 sent, but 3 accepted + 1 empty_output = 4: 1 too many"));
  EXPECT_THAT(ReadAfter("\"empty_output\": 1", "\"stalled\": 1"),
              HasSubstr("1 stalled, but 0 records of it = 0: 1 too few"));
  EXPECT_THAT(ReadAfter("\"warmup\": 0", "\"warmup\": 2"),
              HasSubstr("2 in the warm-up, but 0 records = 0: 2 too few"));
  EXPECT_THAT(ReadAfter("\"schema\": 1", "\"schema\": 2"), HasSubstr("\"schema\" is 2"));
  EXPECT_THAT(ReadAfter("\"planned\": 3,", "\"planned\": 3, \"planned\": 4,"),
              HasSubstr("doubled key"));
  EXPECT_THAT(ReadAfter("\"planned\": 3", "\"planned\": 99999999999999999999"),
              HasSubstr("\"planned\" is not an integer"));
  EXPECT_THAT(ReadAfter("\"duration_ns\": 1000000000", "\"duration_ns\": 9223372036854775807"),
              HasSubstr("\"duration_ns\" is 9223372036854775807"));
}

TEST_F(StoreTest, RecordsThatAreMissingOrDoubledAreErrors) {
  ASSERT_EQ(Write(RoundOf("baseline", 1, 1, {Accepted(0), Accepted(1)})), "(no error)");
  const std::string lines = Requests();
  const std::string one = lines.substr(0, lines.find('\n') + 1);
  PutRequests(one);
  EXPECT_THAT(Read(), HasSubstr("round.json: 2 sent, but 1 records = 1: 1 too few"));
  PutRequests(one + one);
  EXPECT_THAT(Read(), HasSubstr("request 0: comes after request 0"));
  PutRequests(lines.substr(one.size()) + one);
  EXPECT_THAT(Read(), HasSubstr("request 0: comes after request 1"));
  PutRequests(lines.substr(0, lines.size() - 1));
  EXPECT_THAT(Read(), HasSubstr("requests.jsonl.zst: line 2: does not end with a newline"));
  PutRequests(one + "\n" + lines.substr(one.size()));
  EXPECT_THAT(Read(), HasSubstr("requests.jsonl.zst: line 2: not valid JSON"));
  fs::rename(first() / kRequestsFile, first() / kWarmupFile);
  EXPECT_THAT(Read(), HasSubstr("requests.jsonl.zst: missing"));
}

TEST_F(StoreTest, AWarmUpCannotStandInForFormalRequests) {
  RoundRecord round = RoundOf("baseline", 1, 1, {Accepted(0)});
  round.warmup = {Accepted(0)};
  ASSERT_EQ(Write(round), "(no error)");
  fs::copy_file(first() / kWarmupFile, first() / kRequestsFile,
                fs::copy_options::overwrite_existing);
  EXPECT_THAT(Read(), HasSubstr("\"phase\" is \"warmup\" in a file of \"formal\""));
}

TEST_F(StoreTest, HostileRecordsAreErrorsAndNotCrashes) {
  ASSERT_EQ(Write(RoundOf("baseline", 1, 1, {Accepted(0)})), "(no error)");
  PutRequests(std::string(1000, '[') + "\n");
  EXPECT_THAT(Read(), HasSubstr("nested deeper than 64 levels"));
  PutRequests("\"" + std::string(70'000, 'x') + "\"\n");
  EXPECT_THAT(Read(), HasSubstr("line 1: is longer than the cap of 65536 bytes"));
  PutRequests("{\"schema\":1}\n");
  EXPECT_THAT(Read(), HasSubstr("line 1: \"phase\" is missing"));
  Put(first() / kRequestsFile, "not zstd");
  EXPECT_THAT(Read(), HasSubstr("requests.jsonl.zst: not a valid zstd frame"));
  Put(first() / kRequestsFile, "");
  EXPECT_THAT(Read(), HasSubstr("requests.jsonl.zst: zstd frame is cut short"));
  fs::remove(first() / kRequestsFile);
  fs::create_symlink("/etc/passwd", first() / kRequestsFile);
  EXPECT_THAT(Read(), HasSubstr("is a symbolic link"));
}

TEST_F(StoreTest, ACompressionBombIsStoppedAtItsCap) {
  ASSERT_EQ(Write(RoundOf("baseline", 1, 1, {Accepted(0)})), "(no error)");
  const std::string frame = base::Compress(std::string(16U << 20, '0'));
  std::string bomb;
  for (int i = 0; i < 64; ++i) bomb += frame;  // 1 GiB in 100 KB
  ASSERT_LT(bomb.size(), 1U << 20);
  Put(first() / kRequestsFile, bomb);
  EXPECT_THAT(Read(), HasSubstr("requests.jsonl.zst: decompresses to more than 268435456 bytes"));
}

TEST_F(StoreTest, ReadRoundsGivesAllInOrderAndSupersededOnesMarked) {
  for (const int number : {2, 1}) {
    ASSERT_EQ(Write(RoundOf("baseline", 1, number, {Accepted(0)})), "(no error)");
  }
  ASSERT_TRUE(Supersede(layout(), RoundOf("baseline", 1, 1, {})));
  const auto rounds = ReadRounds(layout(), true);
  ASSERT_TRUE(rounds) << ErrorOf(rounds);
  ASSERT_EQ(rounds->size(), 2U);
  EXPECT_TRUE(rounds->at(0).superseded);
  EXPECT_EQ(rounds->at(0).round, 1);
  EXPECT_FALSE(rounds->at(1).superseded);
  EXPECT_TRUE(fs::exists(first().string() + ".superseded"));
  // Measured again under the same number, and superseded again.
  ASSERT_EQ(Write(RoundOf("baseline", 1, 1, {Accepted(0)})), "(no error)");
  ASSERT_TRUE(Supersede(layout(), RoundOf("baseline", 1, 1, {})));
  EXPECT_TRUE(fs::exists(first().string() + ".superseded-2"));
  EXPECT_EQ(ReadRounds(layout(), true)->size(), 3U);
  EXPECT_FALSE(Supersede(layout(), RoundOf("baseline", 1, 1, {})));
}

TEST_F(StoreTest, BootsAndRoundsBeyondNineAreStillInNumericalOrder) {
  for (const int number : {10, 9}) {
    ASSERT_EQ(Write(RoundOf("baseline", 1, number, {Accepted(0)})), "(no error)");
    ASSERT_TRUE(WriteBoot(layout(), BootOf("baseline", number * 11)));  // 110, 99
  }
  const auto rounds = ReadRounds(layout(), true);
  ASSERT_TRUE(rounds);
  EXPECT_EQ(rounds->at(0).round, 9);
  EXPECT_EQ(ReadBoots(layout())->at(0).number, 99);
}

TEST_F(StoreTest, LeftoversAreIgnoredWhileWritingAndErrorsOnceSealed) {
  ASSERT_EQ(Write(RoundOf("baseline", 1, 1, {Accepted(0)})), "(no error)");
  ASSERT_TRUE(WriteBoot(layout(), BootOf("baseline", 1)));
  const fs::path left = layout().rounds() / "1k-512-c1" / ".writing-01-baseline-r2";
  Put(left / kRoundFile, "{");
  Put(layout().boot(1, "baseline") / "boot.json.tmp99", "{");
  Put(layout().boots() / ".writing-02-candidate" / "boot.json", "{");
  const auto open = ReadRounds(layout(), false);
  ASSERT_TRUE(open) << ErrorOf(open);
  EXPECT_EQ(open->size(), 1U);
  EXPECT_EQ(ReadBoots(layout())->size(), 1U);
  EXPECT_EQ(ErrorOf(ReadRounds(layout(), true)),
            left.string() + ": is left over from a write that never finished");
  ASSERT_TRUE(RemoveUnfinished(layout()));
  EXPECT_FALSE(fs::exists(left));
  EXPECT_FALSE(fs::exists(layout().boot(1, "baseline") / "boot.json.tmp99"));
  EXPECT_FALSE(fs::exists(layout().boots() / ".writing-02-candidate"));
  EXPECT_TRUE(fs::exists(first() / kRoundFile));
  EXPECT_EQ(ReadRounds(layout(), true)->size(), 1U);
}

TEST_F(StoreTest, ALeftoverDoesNotStopTheRoundFromBeingWritten) {
  Put(UnfinishedName(first()) / "old", "x");
  ASSERT_EQ(Write(RoundOf("baseline", 1, 1, {Accepted(0)})), "(no error)");
  EXPECT_FALSE(fs::exists(UnfinishedName(first())));
  EXPECT_FALSE(fs::exists(first() / "old"));
}

TEST_F(StoreTest, WhatDoesNotBelongBetweenTheRoundsIsAnError) {
  ASSERT_EQ(Write(RoundOf("baseline", 1, 1, {Accepted(0)})), "(no error)");
  const auto error_with = [&](const fs::path& path) {
    Put(path, "x");
    const std::string error = ErrorOf(ReadRounds(layout(), false));
    fs::remove_all(path);
    return error;
  };
  EXPECT_THAT(error_with(layout().rounds() / "file"), HasSubstr("is not the folder of a case"));
  EXPECT_THAT(error_with(layout().rounds() / "1k-512-c1" / "notes"), HasSubstr("does not belong"));
  EXPECT_THAT(error_with(layout().rounds() / "1k-512-c1" / "02-a-r1"),
              HasSubstr("does not belong"));
  fs::create_directory_symlink(first(), layout().rounds() / "1k-512-c1" / "01-baseline-r2");
  EXPECT_THAT(ErrorOf(ReadRounds(layout(), false)), HasSubstr("does not belong here"));
}

TEST_F(StoreTest, NoRoundsAtAllIsAnEmptyList) {
  EXPECT_THAT(*ReadRounds(layout(), true), IsEmpty());
  EXPECT_THAT(*ReadBoots(layout()), IsEmpty());
  EXPECT_TRUE(RemoveUnfinished(layout()));
}

TEST_F(StoreTest, ABootIsReadAsItWasWrittenAndReplacedAsItGoesOn) {
  BootRecord boot = BootOf("candidate", 2);
  boot.resumes = 1;
  boot.gpus = {"0", "11"};
  boot.exit = "";
  ASSERT_TRUE(WriteBoot(layout(), boot));
  EXPECT_EQ(ReadBoots(layout())->at(0).exit, "");
  boot.stopped = StopReason::kServiceLost;
  boot.stop_detail = "gone";
  boot.exit = "signal 9 (Killed)";
  ASSERT_TRUE(WriteBoot(layout(), boot));
  const auto boots = ReadBoots(layout());
  ASSERT_TRUE(boots) << ErrorOf(boots);
  ASSERT_EQ(boots->size(), 1U);
  const BootRecord& read = boots->at(0);
  EXPECT_EQ(read.number, 2);
  EXPECT_EQ(read.step, 2);
  EXPECT_EQ(read.arm, "candidate");
  EXPECT_EQ(read.resumes, 1);
  EXPECT_EQ(read.host, "host-a");
  EXPECT_THAT(read.gpus, ElementsAre("0", "11"));
  EXPECT_EQ(read.client_sha256, boot.client_sha256);
  EXPECT_EQ(read.started_at, boot.started_at);
  EXPECT_EQ(read.version, "1.2.3");
  ASSERT_EQ(read.pins.size(), 2U);
  EXPECT_EQ(read.pins[0].name, "executable");
  EXPECT_EQ(read.pins[0].declared, boot.pins[0].declared);
  EXPECT_EQ(read.pins[0].found, boot.pins[0].found);
  EXPECT_EQ(read.pins[1].found, "");
  EXPECT_EQ(read.identity, boot.identity);
  EXPECT_THAT(read.argv, ElementsAre("serve", "--port", "$PORT"));
  EXPECT_EQ(read.ready_after, Ms(1500));
  EXPECT_EQ(read.stopped, StopReason::kServiceLost);
  EXPECT_EQ(read.stop_detail, "gone");
  EXPECT_EQ(read.exit, "signal 9 (Killed)");
}

std::vector<Fact> SomeFacts() {
  return {{"attention", FactState::kPresent, "FA3, \"x\"\nü", "log line 7"},
          {"dtype", FactState::kUnknown, "", "/info answered 404"},
          {"replay", FactState::kAbsent, "", "log line 9, and no line tells of it"},
          {"version", FactState::kPresent, "0.32.0", "/version", false}};
}

TEST_F(StoreTest, FactsWarningsAndAChangedIdentityAreReadAsTheyWereWritten) {
  BootRecord boot = BootOf("baseline", 1);
  boot.facts = SomeFacts();
  boot.host_facts = {{"kernel", FactState::kPresent, "6.1.0", "/proc/sys/kernel/osrelease"}};
  boot.warnings = {{"stall", 3, 12, "no answer", "a worker hangs"}};
  boot.identity_change = "image a at the start, b at the end";
  ASSERT_TRUE(WriteBoot(layout(), boot));
  EXPECT_TRUE(ReadBoots(layout())->at(0).facts.empty());
  ASSERT_TRUE(WriteFacts(layout(), boot));
  const auto boots = ReadBoots(layout());
  ASSERT_TRUE(boots) << ErrorOf(boots);
  const BootRecord& read = boots->at(0);
  ASSERT_EQ(read.facts.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(read.facts[i].name, boot.facts[i].name);
    EXPECT_EQ(read.facts[i].state, boot.facts[i].state);
    EXPECT_EQ(read.facts[i].value, boot.facts[i].value);
    EXPECT_EQ(read.facts[i].source, boot.facts[i].source);
    EXPECT_EQ(read.facts[i].compared, boot.facts[i].compared);
  }
  ASSERT_EQ(read.host_facts.size(), 1U);
  EXPECT_EQ(read.host_facts[0].value, "6.1.0");
  ASSERT_EQ(read.warnings.size(), 1U);
  EXPECT_EQ(read.warnings[0].count, 3);
  EXPECT_EQ(read.warnings[0].line, 12);
  EXPECT_EQ(read.warnings[0].text, "no answer");
  EXPECT_EQ(read.warnings[0].means, "a worker hangs");
  EXPECT_EQ(read.identity_change, "image a at the start, b at the end");
}

TEST_F(StoreTest, FactsThatContradictThemselvesAreRefusedAndNotRead) {
  BootRecord boot = BootOf("baseline", 1);
  boot.facts = {{"b", FactState::kPresent, "1", "x"}, {"a", FactState::kPresent, "1", "x"}};
  ASSERT_TRUE(WriteBoot(layout(), boot));
  EXPECT_THAT(ErrorOf(WriteFacts(layout(), boot)),
              HasSubstr("facts[1]: a comes after b; facts are by name, each once"));
  boot.facts = SomeFacts();
  ASSERT_TRUE(WriteFacts(layout(), boot));
  const fs::path path = layout().boot(1, "baseline") / kFactsFile;
  Replace(path, "\"absent\"", "\"present\"");
  EXPECT_THAT(
      ErrorOf(ReadBoots(layout())),
      HasSubstr("facts.json: facts[2]: replay is present, and its \"value\" says otherwise"));
  Replace(path, "\"present\",\n      \"value\": null", "\"lost\",\n      \"value\": null");
  EXPECT_THAT(ErrorOf(ReadBoots(layout())),
              HasSubstr("\"state\" of replay is neither present, absent nor unknown"));
}

TEST_F(StoreTest, AThrottledRoundSaysSo) {
  RoundRecord round = RoundOf("baseline", 1, 1, {Accepted(0)});
  EXPECT_EQ(ReadRound(first()) ? ReadRound(first())->throttled : "", "");
  round.throttled = "GPU 0: thermal slowdown";
  ASSERT_EQ(Write(round), "(no error)");
  EXPECT_EQ(ReadRound(first())->throttled, "GPU 0: thermal slowdown");
  EXPECT_EQ(SummarizeRound(round).throttled, "GPU 0: thermal slowdown");
}

TEST_F(StoreTest, ABootsFolderMustAgreeWithItsRecordAndNumbersAreUnique) {
  ASSERT_TRUE(WriteBoot(layout(), BootOf("baseline", 1)));
  fs::copy(layout().boot(1, "baseline"), layout().boot(2, "baseline"));
  EXPECT_THAT(ErrorOf(ReadBoots(layout())),
              HasSubstr("02-baseline/boot.json: is of 01-baseline, but its folder is named"));
  fs::remove_all(layout().boot(2, "baseline"));
  ASSERT_TRUE(WriteBoot(layout(), BootOf("candidate", 1)));
  EXPECT_THAT(ErrorOf(ReadBoots(layout())), HasSubstr("boot 1 is there twice"));
  EXPECT_FALSE(WriteBoot(layout(), BootOf("../x", 1)));
  EXPECT_FALSE(WriteBoot(layout(), BootOf("baseline", 0)));
}

TEST_F(StoreTest, AServerLogIsKeptBesideItsBoot) {
  EXPECT_THAT(ErrorOf(WriteServerLog(layout(), BootOf("baseline", 1), "x")),
              HasSubstr("the boot has no record yet"));
  ASSERT_TRUE(WriteBoot(layout(), BootOf("baseline", 1)));
  ASSERT_TRUE(WriteServerLog(layout(), BootOf("baseline", 1), "line\n"));
  EXPECT_EQ(*base::Decompress(Get(layout().boot(1, "baseline") / kServerLogFile), 100), "line\n");
}

TEST_F(StoreTest, CaptureIsReadAsItWasWritten) {
  CaptureRecord capture = CaptureOf();
  capture.complete = false;
  capture.sealed_at = "";
  capture.incidents = {"boot 2: \x1b[2J"};
  ASSERT_TRUE(WriteCapture(layout(), capture));
  const auto read = ReadCapture(layout());
  ASSERT_TRUE(read) << ErrorOf(read);
  EXPECT_EQ(read->plan_name, "small");
  EXPECT_EQ(read->workload, capture.workload);
  EXPECT_EQ(read->key, capture.key);
  EXPECT_EQ(read->client_version, "0.1.0");
  EXPECT_EQ(read->client_sha256, capture.client_sha256);
  EXPECT_EQ(read->host, "host-a");
  EXPECT_EQ(read->started_at, capture.started_at);
  EXPECT_EQ(read->sealed_at, "");
  EXPECT_FALSE(read->complete);
  EXPECT_THAT(read->incidents, ElementsAre("boot 2: \\x1b[2J"));
}

TEST_F(StoreTest, PromptsAreKeptByCase) {
  ASSERT_TRUE(WritePrompts(layout(), "8k", "{}\n"));
  EXPECT_EQ(*base::Decompress(Get(layout().prompts("8k")), 100), "{}\n");
  EXPECT_FALSE(WritePrompts(layout(), "../8k", "{}\n"));
}

TEST_F(StoreTest, SealedEvidenceIsNotWrittenTo) {
  WriteSealedRun(layout());
  EXPECT_THAT(Write(RoundOf("baseline", 1, 3, {Accepted(0)})), HasSubstr("the evidence is sealed"));
  EXPECT_FALSE(WriteBoot(layout(), BootOf("baseline", 1)));
  EXPECT_FALSE(WriteServerLog(layout(), BootOf("baseline", 1), ""));
  EXPECT_FALSE(WriteCapture(layout(), CaptureOf()));
  EXPECT_FALSE(WritePrompts(layout(), "8k", ""));
  EXPECT_FALSE(Supersede(layout(), RoundOf("baseline", 1, 1, {})));
  EXPECT_FALSE(RemoveUnfinished(layout()));
  EXPECT_TRUE(CheckSeal(layout().evidence())->ok());
}

}  // namespace
}  // namespace upgrade_gate::evidence
