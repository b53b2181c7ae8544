// The keys of the launcher docker: values, one exact message for every error, and
// what they do to the workload's digest.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tests/unit/plan/plan_text.h"

namespace upgrade_gate::plan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

ServerSettings Settings(std::string_view lines) {
  return MustResolve(Edit(kDockerPlan, "gpus: all", lines)).server;
}

TEST(DockerSettings, AreTheEnginesUnlessThePlanSays) {
  const ServerSettings server = Settings("gpus: all");
  EXPECT_EQ(server.docker.network, "host");
  EXPECT_EQ(server.docker.shm_bytes, 0u);
  EXPECT_FALSE(server.docker.entrypoint);
  EXPECT_FALSE(server.limits.pull);
}

TEST(DockerSettings, AreRead) {
  const ServerSettings server = Settings(R"(network: gate-net
  shm_size: 16GiB
  ulimits: {memlock: unlimited, nofile: {soft: 1024, hard: 65536}, core: 0}
  user: 1000:video
  entrypoint: [vllm, serve]
  devices: [/dev/kfd, "/dev/dri:/dev/dri:rw"]
  group_add: [video, "110"]
  security_opt: [seccomp=unconfined]
  cap_add: [SYS_PTRACE]
  compile_cache: /root/.cache/vllm
  deadlines: {pull: 1h, boot: 2min, load: 30min, ready: 90s})");
  const DockerSettings& docker = server.docker;
  EXPECT_EQ(docker.network, "gate-net");
  EXPECT_EQ(docker.shm_bytes, std::uint64_t{16} << 30);
  ASSERT_EQ(docker.ulimits.size(), 3u);
  EXPECT_EQ(docker.ulimits[0].name, "memlock");
  EXPECT_EQ(docker.ulimits[0].hard, -1);
  EXPECT_EQ(docker.ulimits[1].soft, 1024);
  EXPECT_EQ(docker.ulimits[1].hard, 65536);
  EXPECT_EQ(docker.ulimits[2].soft, 0);
  EXPECT_EQ(docker.user, "1000:video");
  EXPECT_THAT(*docker.entrypoint, ElementsAre("vllm", "serve"));
  EXPECT_THAT(docker.devices, ElementsAre("/dev/kfd", "/dev/dri:/dev/dri:rw"));
  EXPECT_THAT(docker.group_add, ElementsAre("video", "110"));
  EXPECT_THAT(docker.security_opt, ElementsAre("seccomp=unconfined"));
  EXPECT_THAT(docker.cap_add, ElementsAre("SYS_PTRACE"));
  EXPECT_EQ(docker.compile_cache, "/root/.cache/vllm");
  EXPECT_EQ(server.limits.pull, std::chrono::hours(1));
  EXPECT_EQ(server.limits.boot, std::chrono::minutes(2));
  EXPECT_EQ(server.limits.load, std::chrono::minutes(30));
  EXPECT_EQ(server.limits.ready, std::chrono::seconds(90));
}

TEST(DockerImages, MayLieInALayout) {
  const std::string registry = "vllm@sha256:" + std::string(kTwos);
  const std::string layout = "oci:../images:v1@sha256:" + std::string(kTwos);
  const ResolvedPlan plan = MustResolve(Edit(kDockerPlan, registry, layout));
  EXPECT_EQ(plan.candidate()->image, layout);
  EXPECT_THAT(WriteWorkload(plan), HasSubstr("\"image\":\"" + layout + "\""));
  EXPECT_NE(WorkloadDigest(plan), WorkloadDigest(MustResolve(kDockerPlan)));
}

TEST(DockerSettings, EachIsPartOfTheWorkloadAndNoneByItsDefault) {
  const std::string standard = WriteWorkload(MustResolve(kDockerPlan));
  EXPECT_EQ(
      WriteWorkload(MustResolve(Edit(kDockerPlan, "gpus: all", "gpus: all\n  network: host"))),
      standard);
  EXPECT_THAT(standard, Not(HasSubstr("network")));
  std::set<std::string> seen{standard};
  for (const char* line :
       {"network: bridge", "shm_size: 1GiB", "ulimits: {memlock: 1}", "ulimits: {memlock: 2}",
        "user: root", "entrypoint: []", "entrypoint: [a]", "devices: [/dev/kfd]",
        "group_add: [video]", "security_opt: [a]", "cap_add: [A]", "compile_cache: /c",
        "deadlines: {pull: 1h}", "deadlines: {boot: 1h}", "deadlines: {load: 1h}",
        "deadlines: {ready: 1h}"}) {
    const std::string plan = Edit(kDockerPlan, "gpus: all", std::string("gpus: all\n  ") + line);
    EXPECT_TRUE(seen.insert(WriteWorkload(MustResolve(plan))).second) << line;
  }
}

class DockerMessages : public testing::TestWithParam<BadEdit> {};

TEST_P(DockerMessages, NameThePlaceTheCauseAndWhatToDo) {
  ExpectErrors(GetParam());
}

std::vector<BadEdit> Docker() {
  const std::string_view d = kDockerPlan;
  const std::string from = "gpus: all";
  return {
      {"network_none",
       d,
       from,
       "network: ^none",
       {"nothing could reach a server without a network: write host, bridge or the name of a "
        "network"}},
      {"network_container",
       d,
       from,
       "network: ^container:other",
       {"\"network\" \"container:other\" is not a plain name: begin with a letter or digit, then "
        "use only letters, digits, \".\", \"_\" and \"-\", at most 64"}},
      {"shm_without_unit",
       d,
       from,
       "shm_size: ^16",
       {"\"shm_size\" has no unit: write 16GiB, or KiB, MiB or TiB"}},
      {"shm_unit",
       d,
       from,
       "shm_size: ^16g",
       {"\"shm_size\" has the unit \"g\": write 16GiB, or KiB, MiB or TiB"}},
      {"shm_word",
       d,
       from,
       "shm_size: ^much",
       {"\"shm_size\" must be a size like 512MiB or 16GiB, not \"much\""}},
      {"shm_small",
       d,
       from,
       "shm_size: ^1KiB",
       {"\"shm_size\" must be from 1MiB to 4TiB, not \"1KiB\""}},
      {"shm_of_the_host",
       d,
       from,
       "ipc: host\n  shm_size: ^1GiB",
       {"\"shm_size\" says nothing with ipc: host: the host's is used"}},
      {"ulimit_name",
       d,
       from,
       "ulimits: {^memloc: 1}",
       {"unknown limit \"memloc\" (did you mean \"memlock\"?)"}},
      {"ulimit_value",
       d,
       from,
       "ulimits: {memlock: ^-1}",
       {"\"memlock\" must be from 0 to 4,611,686,018,427,387,904, not \"-1\""}},
      {"ulimit_order",
       d,
       from,
       "ulimits: {nofile: {soft: ^2, hard: 1}}",
       {"\"soft\" of the limit \"nofile\" is above \"hard\""}},
      {"ulimit_half",
       d,
       from,
       "ulimits: {nofile: ^{soft: 2}}",
       {"the limit \"nofile\" has no \"hard\""}},
      {"user",
       d,
       from,
       "user: ^\"a:b:c\"",
       {"\"user\" must be a user, or a user and a group like 1000:1000, not \"a:b:c\""}},
      {"entrypoint_secret",
       d,
       from,
       "entrypoint: [serve, ^--api-key, abc]",
       {"the value of \"--api-key\" would be copied into the evidence: give the secret to the "
        "server in a variable with from_env"}},
      {"device",
       d,
       from,
       "devices: [/dev/kfd, ^kfd]",
       {"a device must be a path, or a path here, a path in the container and what it may do "
        "there, like /dev/dri:/dev/dri:rwm, not \"kfd\""}},
      {"device_rights",
       d,
       from,
       "devices: [^\"/dev/dri:/dev/dri:x\"]",
       {"a device must be a path, or a path here, a path in the container and what it may do "
        "there, like /dev/dri:/dev/dri:rwm, not \"/dev/dri:/dev/dri:x\""}},
      {"device_end",
       d,
       from,
       "devices: [^\"/dev/dri:\"]",
       {"a device must be a path, or a path here, a path in the container and what it may do "
        "there, like /dev/dri:/dev/dri:rwm, not \"/dev/dri:\""}},
      {"capability",
       d,
       from,
       "cap_add: [^sys_ptrace]",
       {"a capability is written like SYS_PTRACE, not \"sys_ptrace\""}},
      {"cache_relative",
       d,
       from,
       "compile_cache: ^cache",
       {"\"compile_cache\" must be an absolute path without \":\" and \",\", not \"cache\""}},
      {"cache_twice",
       d,
       from,
       "mounts: [{source: /a, target: /c}]\n  compile_cache: ^/c",
       {"\"compile_cache\" and a mount have the target \"/c\""}},
      {"deadline_unit",
       d,
       from,
       "deadlines: {pull: ^30}",
       {"\"pull\" has no unit: write 30s, or ms, min or h"}},
      {"deadline_name",
       d,
       from,
       "deadlines: {^pul: 30s}",
       {"unknown key \"pul\" (did you mean \"pull\"?)"}},
      {"of_a_process",
       kProcessPlan,
       "  launcher: process",
       "  launcher: process\n  ^network: host\n  ^compile_cache: /c",
       {"\"network\" is for the launcher docker; this plan's is process",
        "\"compile_cache\" is for the launcher docker; this plan's is process"}},
  };
}

std::string NameOf(const testing::TestParamInfo<BadEdit>& info) {
  return info.param.name;
}
INSTANTIATE_TEST_SUITE_P(Docker, DockerMessages, testing::ValuesIn(Docker()), NameOf);

}  // namespace
}  // namespace upgrade_gate::plan
