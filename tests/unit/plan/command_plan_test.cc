// Plans of the launchers command and endpoint: what they hold, and every message.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/plan/launch_argv.h"
#include "framework/plan/server_url.h"
#include "tests/unit/plan/plan_text.h"

namespace upgrade_gate::plan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr std::string_view kCommandPlan = R"(version: 1
name: demo
model: {served_name: m}
deadline: 6h
server:
  launcher: command
  command: [serve, --port, $PORT]
  launch:
    start: [srun, --job-name=$RUN, "--container-image=$IMAGE_FILE", $COMMAND]
    stop: [scancel, --name=$RUN]
    cleanup: [scancel, --name=$RUN]
    address: [./address, $RUN]
    identity: [./identity]
    logs: [logs/$RUN-$BOOT.out]
arms:
  baseline:
    image_file: {path: old.sqsh, sha256: 1111111111111111111111111111111111111111111111111111111111111111}
    built_from: vllm@sha256:1111111111111111111111111111111111111111111111111111111111111111
    identity: {version: "1"}
  candidate:
    like: baseline
    image: vllm@sha256:2222222222222222222222222222222222222222222222222222222222222222
    append: [--new]
workload:
  prompts: {kind: synthetic-tokens, seed: 7}
  cases:
    - {name: short, input_tokens: 64, output_tokens: 16, concurrency: 2, requests: 4}
gates:
  - provenance: {}
)";

constexpr std::string_view kEndpointPlan = R"(version: 1
name: demo
model: {served_name: m}
server:
  launcher: endpoint
  endpoint:
    identity_header: x-revision
    identity: [./replicas, $URL]
    ca: ca.pem
    token: {from_env: GATEWAY_TOKEN}
arms:
  baseline:
    url: https://gateway.example:8443/team
    before: [./switch, old]
    identity: {version: "1", models: m}
  candidate:
    url: http://[::1]:8000
workload:
  prompts: {kind: synthetic-tokens, seed: 7}
  cases:
    - {name: short, input_tokens: 64, output_tokens: 16, concurrency: 2, requests: 4}
gates:
  - provenance: {}
)";

TEST(CommandPlan, IsReadAndMerged) {
  const ResolvedPlan plan = MustResolve(kCommandPlan);
  EXPECT_EQ(plan.server.launcher, LauncherKind::kCommand);
  EXPECT_EQ(plan.deadline, std::chrono::hours(6));
  const CommandSettings& launch = plan.server.command_launcher;
  EXPECT_THAT(launch.stop, ElementsAre("scancel", "--name=$RUN"));
  EXPECT_EQ(launch.cleanup, launch.stop);
  EXPECT_THAT(launch.address, ElementsAre("./address", "$RUN"));
  EXPECT_THAT(launch.identity, ElementsAre("./identity"));
  EXPECT_THAT(launch.logs, ElementsAre("logs/$RUN-$BOOT.out"));
  const Arm& baseline = *plan.baseline();
  EXPECT_EQ(baseline.image_file->path, "old.sqsh");
  EXPECT_EQ(baseline.built_from, "vllm@sha256:" + std::string(kOnes));
  EXPECT_EQ(baseline.identity.at("version"), "1");
  const Arm& candidate = *plan.candidate();
  EXPECT_FALSE(candidate.image_file) << "an image replaces the file";
  EXPECT_EQ(candidate.built_from, "");
  EXPECT_EQ(candidate.image, "vllm@sha256:" + std::string(kTwos));
  EXPECT_EQ(candidate.identity.at("version"), "1");
  EXPECT_THAT(LaunchArgv(plan.server, candidate),
              ElementsAre("srun", "--job-name=$RUN", "--container-image=$IMAGE_FILE", "serve",
                          "--port", "$PORT", "--new"));
}

TEST(CommandPlan, AFileMayBeBuiltFromALayout) {
  const std::string layout = "oci:images/vllm:1@sha256:" + std::string(kOnes);
  const std::string from = "vllm@sha256:" + std::string(kOnes);
  EXPECT_EQ(MustResolve(Edit(kCommandPlan, from, layout)).baseline()->built_from, layout);
}

TEST(CommandPlan, IsResolvedIntoTheWorkload) {
  const std::string resolved = WriteResolved(MustResolve(kCommandPlan));
  for (const char* part : {R"("launch": {)", R"("start": [)", R"("built_from")", R"("image_file")",
                           R"("identity")", R"("deadline_ms": 21600000)"}) {
    EXPECT_THAT(resolved, HasSubstr(part));
  }
  const auto digest = [](std::string_view from, std::string_view to) {
    return WorkloadDigest(MustResolve(Edit(kCommandPlan, from, to)));
  };
  const auto original = WorkloadDigest(MustResolve(kCommandPlan));
  EXPECT_NE(digest("[./identity]", "[./other]"), original);
  EXPECT_NE(digest("{version: \"1\"}", "{version: \"2\"}"), original);
  EXPECT_EQ(digest("deadline: 6h", "deadline: 7h"), original) << "a limit changes no measurement";
  EXPECT_THAT(WriteResolved(MustResolve(kProcessPlan)),
              Not(testing::AnyOf(HasSubstr("launch\""), HasSubstr("endpoint"),
                                 HasSubstr("identity"), HasSubstr("deadline"))));
}

TEST(EndpointPlan, IsRead) {
  const ResolvedPlan plan = MustResolve(kEndpointPlan);
  EXPECT_EQ(plan.server.launcher, LauncherKind::kEndpoint);
  EXPECT_EQ(plan.server.endpoint.identity_header, "x-revision");
  EXPECT_THAT(plan.server.endpoint.identity, ElementsAre("./replicas", "$URL"));
  EXPECT_EQ(plan.server.endpoint.ca_file, "ca.pem");
  EXPECT_EQ(plan.server.endpoint.token_variable, "GATEWAY_TOKEN");
  EXPECT_EQ(plan.baseline()->url, "https://gateway.example:8443/team");
  EXPECT_THAT(plan.baseline()->before, ElementsAre("./switch", "old"));
  EXPECT_EQ(plan.baseline()->identity.size(), 2U);
  EXPECT_TRUE(LaunchArgv(plan.server, *plan.baseline()).empty());
  EXPECT_THAT(WriteResolved(plan), HasSubstr(R"("from_env": "GATEWAY_TOKEN")"));
}

TEST(ServerUrl, HostsAndProblems) {
  EXPECT_EQ(HostOf("https://gateway.example:8443/team"), "gateway.example");
  EXPECT_EQ(HostOf("http://[::1]:8000"), "::1");
  EXPECT_TRUE(IsLoopback("127.0.0.2"));
  EXPECT_TRUE(IsLoopback("localhost"));
  EXPECT_FALSE(IsLoopback("node-1"));
  EXPECT_EQ(ProblemOfUrl("http://node-1:8000"), "");
  EXPECT_EQ(ProblemOfUrl("https://[2001:db8::1]/a/b"), "");
  EXPECT_EQ(ProblemOfUrl("node-1:8000"),
            "it is no address: write http://HOST:PORT or https://HOST");
  EXPECT_EQ(ProblemOfUrl("http://a?b"), "leave out the query and the fragment");
  EXPECT_EQ(ProblemOfUrl("http://u:p@a"), "it must not hold a name or a password");
  EXPECT_EQ(ProblemOfUrl("http://a b"), "it has a character that an address cannot have");
  EXPECT_EQ(ProblemOfUrl("http://a\n"), "it has a character that an address cannot have");
  EXPECT_EQ(ProblemOfUrl("http://:80"), "it names no host");
  EXPECT_EQ(ProblemOfUrl("http://a/"), "leave out the \"/\" at its end");
  EXPECT_EQ(ProblemOfUrl("http://a/v1"), "leave out the /v1 at its end");
  EXPECT_EQ(ProblemOfUrl("http://" + std::string(1000, 'a')), "it is too long for an address");
}

class LauncherMessages : public testing::TestWithParam<BadEdit> {};

TEST_P(LauncherMessages, NameThePlaceTheCauseAndWhatToDo) {
  ExpectErrors(GetParam());
}

std::vector<BadEdit> Command() {
  const std::string_view p = kCommandPlan;
  return {
      {"no_launch",
       p,
       "launcher: command\n  command: [serve, --port, $PORT]\n"
       "  launch:\n    start: [srun, --job-name=$RUN, \"--container-image=$IMAGE_FILE\", "
       "$COMMAND]\n"
       "    stop: [scancel, --name=$RUN]\n    cleanup: [scancel, --name=$RUN]\n    address: "
       "[./address, $RUN]\n    identity: [./identity]\n    logs: [logs/$RUN-$BOOT.out]\n",
       "^launcher: command\n  command: [serve, --port, $PORT]\n",
       {"the server has no \"launch\": say how a server is started: launch: {start: [...]}"}},
      {"no_start",
       p,
       "    start: [srun, --job-name=$RUN, \"--container-image=$IMAGE_FILE\", "
       "$COMMAND]\n    stop:",
       "    ^stop:",
       {"\"launch\" has no \"start\": the argv whose life is the server's"}},
      {"empty_stop",
       p,
       "stop: [scancel, --name=$RUN]",
       "stop: ^[]",
       {"\"stop\" is an empty list: write a command, or leave the key out"}},
      {"command_in_part",
       p,
       "$COMMAND]",
       "^-c=$COMMAND]",
       {"$COMMAND stands for several elements and must be one of its own, not a part of "
        "\"-c=$COMMAND\""}},
      {"command_elsewhere",
       p,
       "[./identity]",
       "[./identity, ^$COMMAND]",
       {"$COMMAND is the arm's command, which only \"start\" is given"}},
      {"command_unused",
       p,
       "    start: [srun, --job-name=$RUN, \"--container-image=$IMAGE_FILE\", "
       "$COMMAND]",
       "    start: ^[srun]",
       {"\"start\" has no element $COMMAND, so the command of the arm \"baseline\" would change "
        "nothing"}},
      {"secret",
       p,
       "[./address, $RUN]",
       "[./address, ^--token, abc]",
       {"the value of \"--token\" would be copied into the evidence: give the secret to the server "
        "in a variable with from_env"}},
      {"mounts",
       p,
       "  launch:\n",
       "  ^mounts: []\n  launch:\n",
       {"\"mounts\" is for the launcher docker; this plan's is command"}},
      {"endpoint",
       p,
       "  launch:\n",
       "  ^endpoint: {}\n  launch:\n",
       {"\"endpoint\" is for the launcher endpoint; this plan's is command"}},
      {"url",
       p,
       "    append: [--new]",
       "    append: [--new]\n    ^url: http://a",
       {"\"url\" is for the launcher endpoint; this plan's is command"}},
      {"executable",
       p,
       "    append: [--new]",
       "    append: [--new]\n    ^executable: {path: a, sha256: " + std::string(kOnes) + "}",
       {"\"executable\" is for the launcher process; this plan's is command"}},
      {"image_and_file",
       p,
       "    append: [--new]",
       "    append: [--new]\n    image_file: ^{path: a, sha256: " + std::string(kOnes) + "}",
       {"an arm has \"image\" or \"image_file\", not both"}},
      {"built_from_tag",
       p,
       "built_from: vllm@sha256:" + std::string(kOnes),
       "built_from: ^vllm:1",
       {"the image \"vllm:1\" is not pinned, and a tag can move: run upgrade-gate pin, or write "
        "vllm:1@sha256:…"}},
      {"built_from_layout_by_name",
       p,
       "built_from: vllm@sha256:" + std::string(kOnes),
       "built_from: ^oci:images/vllm:1",
       {"the image \"oci:images/vllm:1\" is not pinned, and a layout can be written anew: run "
        "upgrade-gate pin, or write oci:images/vllm:1@sha256:…"}},
      {"image_of_a_layout",
       p,
       "image: vllm@sha256:" + std::string(kTwos),
       "image: ^oci:images/vllm@sha256:" + std::string(kTwos),
       {"an OCI layout is for the launcher docker, which checks and loads it; this plan's is "
        "command: give the arm the \"image_file\" that it starts, and the layout as its "
        "\"built_from\""}},
      {"unknown_key",
       p,
       "    logs:",
       "    ^adress: [a]\n    logs:",
       {"unknown key \"adress\" (did you mean \"address\"?)"}},
      {"deadline",
       p,
       "deadline: 6h",
       "deadline: ^1s",
       {"\"deadline\" must be from 10s to 720h, not \"1s\""}},
      {"launch_of_process",
       kProcessPlan,
       "  launcher: process\n",
       "  launcher: process\n  ^launch: {start: [a]}\n",
       {"\"launch\" is for the launcher command; this plan's is process"}},
      {"identity_of_docker",
       kDockerPlan,
       "  candidate: {",
       "  candidate: {^identity: {a: b}, ",
       {"\"identity\" is for the launcher command or endpoint; this plan's is docker"}},
  };
}

std::vector<BadEdit> Endpoint() {
  const std::string_view p = kEndpointPlan;
  return {
      {"no_url",
       p,
       "  candidate:\n    url: http://[::1]:8000",
       "  ^candidate: {}",
       {"the arm \"candidate\" has no \"url\""}},
      {"bad_url",
       p,
       "url: http://[::1]:8000",
       "url: ^http://a/v1",
       {"\"url\" \"http://a/v1\": leave out the /v1 at its end"}},
      {"command",
       p,
       "  endpoint:\n",
       "  ^command: [a, $PORT]\n  endpoint:\n",
       {"\"command\" is nothing for the launcher endpoint, which starts no server"}},
      {"append",
       p,
       "    url: http://[::1]:8000",
       "    url: http://[::1]:8000\n    ^append: [a]",
       {"\"append\" is nothing for the launcher endpoint, which starts no server"}},
      {"image",
       p,
       "    url: http://[::1]:8000",
       "    url: http://[::1]:8000\n    ^image: a@sha256:" + std::string(kOnes),
       {"\"image\" is for the launcher docker or command; this plan's is endpoint"}},
      {"token_literal",
       p,
       "token: {from_env: GATEWAY_TOKEN}",
       "token: ^abc",
       {"a secret does not belong in a plan: write token: {from_env: NAME}"}},
      {"header",
       p,
       "identity_header: x-revision",
       "identity_header: ^\"x revision\"",
       {"\"x revision\" is not the name of a header"}},
  };
}

std::string NameOf(const testing::TestParamInfo<BadEdit>& info) {
  return info.param.name;
}
INSTANTIATE_TEST_SUITE_P(Command, LauncherMessages, testing::ValuesIn(Command()), NameOf);
INSTANTIATE_TEST_SUITE_P(Endpoint, LauncherMessages, testing::ValuesIn(Endpoint()), NameOf);

TEST(CommandPlan, AnIdentityThatNobodyAsksForAndAnArmWithoutAny) {
  const std::string asked = Edit(kCommandPlan, "    identity: [./identity]\n", "");
  EXPECT_THAT(ErrorsOf(asked),
              HasSubstr("the arm \"baseline\" declares an identity, and nothing asks the server "
                        "for it: give \"launch\" an \"identity\" command"));
  std::string bare = Edit(kCommandPlan, "    identity: {version: \"1\"}\n", "");
  bare = Edit(bare, "    image: vllm@sha256:" + std::string(kTwos) + "\n", "");
  bare = Edit(bare, "    image_file: {path: old.sqsh, sha256: " + std::string(kOnes) + "}\n", "");
  EXPECT_THAT(ErrorsOf(bare),
              HasSubstr("the arm \"baseline\" has \"built_from\" and no \"image_file\""));
  EXPECT_THAT(ErrorsOf(bare), HasSubstr("nothing says what the arm \"candidate\" runs: give it an "
                                        "\"image_file\", an \"image\" or an \"identity\""));
}

}  // namespace
}  // namespace upgrade_gate::plan
