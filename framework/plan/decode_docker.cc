// The keys of `server:` that the launcher docker has of its own, and the deadlines of
// a start.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "framework/base/text.h"
#include "framework/plan/decode.h"

namespace upgrade_gate::plan {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

constexpr std::array<const char*, 10> kDockerKeys = {
    "network", "shm_size",  "ulimits",      "user",    "entrypoint",
    "devices", "group_add", "security_opt", "cap_add", "compile_cache"};

Location KeyOf(const Value& entry) {
  return entry.context.locations.at(entry.path);
}

bool IsAbsolute(const Value& value, const std::string& path) {
  if (path.starts_with('/') && path.find_first_of(":,") == path.npos) return true;
  value.Fail(fmt::format("\"{}\" must be an absolute path without \":\" and \",\", not {}",
                         value.key, Quoted(path)));
  return false;
}

void DecodeNetwork(const Value& value, std::string* network) {
  std::string name;
  if (!Read(value, &name, PlainName{})) return;
  if (name == "none") {
    value.Fail(
        "nothing could reach a server without a network: write host, bridge or the name of "
        "a network");
    return;
  }
  *network = std::move(name);
}

bool DecodeLimit(const Value& value, std::int64_t* limit) {
  if (value.node.kind == Node::Kind::kScalar && value.node.text == "unlimited") {
    *limit = -1;
    return true;
  }
  return Read(value, limit, Whole{0, std::int64_t{1} << 62});
}

// "memlock: unlimited", "nofile: {soft: 1024, hard: 65536}"
void DecodeUlimits(const Value& value, std::vector<Ulimit>* ulimits) {
  static const std::vector<std::string> kNames = {
      "core",   "cpu",   "data", "fsize",  "locks",  "memlock",    "msgqueue", "nice",
      "nofile", "nproc", "rss",  "rtprio", "rttime", "sigpending", "stack"};
  for (const Value& entry : Entries(value)) {
    if (std::find(kNames.begin(), kNames.end(), entry.key) == kNames.end()) {
      entry.context.errors.Add(KeyOf(entry), fmt::format("unknown limit {}{}", Quoted(entry.key),
                                                         DidYouMean(entry.key, kNames)));
      continue;
    }
    Ulimit limit;
    limit.name = entry.key;
    if (entry.node.kind == Node::Kind::kMapping) {
      Mapping m(entry.context, entry.node, fmt::format("the limit {}", Quoted(entry.key)),
                entry.path);
      const auto soft = m.Need("soft");
      const auto hard = m.Need("hard");
      if (!soft || !hard || !DecodeLimit(*soft, &limit.soft) || !DecodeLimit(*hard, &limit.hard)) {
        continue;
      }
      if (limit.hard >= 0 && (limit.soft < 0 || limit.soft > limit.hard)) {
        soft->Fail(fmt::format("\"soft\" of the limit {} is above \"hard\"", Quoted(entry.key)));
        continue;
      }
    } else {
      if (!DecodeLimit(entry, &limit.soft)) continue;
      limit.hard = limit.soft;
    }
    ulimits->push_back(std::move(limit));
  }
}

// "1000", "1000:1000", "vllm:video"
void DecodeUser(const Value& value, std::string* user) {
  std::string text;
  if (!Read(value, &text)) return;
  const std::size_t colon = text.find(':');
  const bool grouped = colon != text.npos;
  if (!base::IsPlainName(text.substr(0, colon)) ||
      (grouped && !base::IsPlainName(text.substr(colon + 1)))) {
    value.Fail(fmt::format("\"user\" must be a user, or a user and a group like 1000:1000, not {}",
                           Quoted(text)));
    return;
  }
  *user = std::move(text);
}

// "/dev/kfd", "/dev/dri:/dev/dri:rw"
void DecodeDevices(const Value& value, std::vector<std::string>* devices) {
  if (!Read(value, devices)) return;
  for (const Value& item : Items(value, "device")) {
    std::string_view rest = item.node.text;
    bool good = true;
    for (int part = 0; part < 3 && good; ++part) {
      const std::size_t colon = std::min(rest.find(':'), rest.size());
      const std::string_view text = rest.substr(0, colon);
      good = part < 2 ? text.starts_with('/')
                      : !text.empty() && text.find_first_not_of("rwm") == text.npos;
      rest.remove_prefix(colon);
      if (rest.empty()) break;
      rest.remove_prefix(1);
      good = good && part < 2 && !rest.empty();
    }
    if (!good) {
      item.Fail(
          fmt::format("a device must be a path, or a path here, a path in the container and "
                      "what it may do there, like /dev/dri:/dev/dri:rwm, not {}",
                      Quoted(item.node.text)));
    }
  }
}

void DecodeCapabilities(const Value& value, std::vector<std::string>* capabilities) {
  if (!Read(value, capabilities)) return;
  for (const Value& item : Items(value, "capability")) {
    if (item.node.text.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789") !=
        std::string::npos) {
      item.Fail(
          fmt::format("a capability is written like SYS_PTRACE, not {}", Quoted(item.node.text)));
    }
  }
}

}  // namespace

void DecodeDocker(Mapping& m, ServerSettings* server) {
  DockerSettings& docker = server->docker;
  if (const auto network = m.Take("network")) DecodeNetwork(*network, &docker.network);
  constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
  if (m.Optional("shm_size", &docker.shm_bytes, Size{kMiB, kMiB << 22}) && server->ipc == "host") {
    m.Take("shm_size")->Fail("\"shm_size\" says nothing with ipc: host: the host's is used");
  }
  if (const auto ulimits = m.Take("ulimits")) DecodeUlimits(*ulimits, &docker.ulimits);
  if (const auto user = m.Take("user")) DecodeUser(*user, &docker.user);
  if (const auto entrypoint = m.Take("entrypoint");
      entrypoint && Read(*entrypoint, &docker.entrypoint.emplace(), Text::kMayBeEmpty)) {
    RefuseSecrets(*entrypoint, *docker.entrypoint);
  }
  if (const auto devices = m.Take("devices")) DecodeDevices(*devices, &docker.devices);
  m.Optional("group_add", &docker.group_add);
  m.Optional("security_opt", &docker.security_opt);
  if (const auto capabilities = m.Take("cap_add")) {
    DecodeCapabilities(*capabilities, &docker.cap_add);
  }
  if (const auto cache = m.Take("compile_cache");
      cache && Read(*cache, &docker.compile_cache) && IsAbsolute(*cache, docker.compile_cache)) {
    for (const Mount& mount : server->mounts) {
      if (mount.target == docker.compile_cache) {
        cache->Fail(
            fmt::format("\"compile_cache\" and a mount have the target {}", Quoted(mount.target)));
      }
    }
  }
}

void RefuseDocker(Mapping& m, std::string_view why) {
  for (const char* key : kDockerKeys) m.Refuse(key, why);
}

void DecodeDeadlines(const Value& value, StageLimits* limits) {
  Mapping m(value.context, value.node, "\"deadlines\"", value.path);
  const Span span{milliseconds(1), hours(24)};
  m.Optional("pull", &limits->pull, span);
  m.Optional("boot", &limits->boot, span);
  m.Optional("load", &limits->load, span);
  m.Optional("ready", &limits->ready, span);
}

}  // namespace upgrade_gate::plan
