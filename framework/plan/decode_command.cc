// What the launchers command and endpoint have of their own, in `server:` and `arms:`.
#include <fmt/format.h>

#include <functional>
#include <initializer_list>
#include <utility>

#include "framework/base/text.h"
#include "framework/plan/decode.h"
#include "framework/plan/server_url.h"

namespace upgrade_gate::plan {
namespace {

using Launchers = std::initializer_list<LauncherKind>;

constexpr LauncherKind kProcess = LauncherKind::kProcess;
constexpr LauncherKind kDocker = LauncherKind::kDocker;
constexpr LauncherKind kCommand = LauncherKind::kCommand;
constexpr LauncherKind kEndpoint = LauncherKind::kEndpoint;

// Refuses the key where the plan's launcher is none of those that it is for.
void Only(Mapping& m, const char* key, std::optional<LauncherKind> launcher, Launchers launchers) {
  if (!launcher) {
    m.Take(key);  // another error says what is missing
    return;
  }
  std::vector<std::string> names;
  for (const LauncherKind each : launchers) {
    if (each == *launcher) return;
    names.emplace_back(Name(each));
  }
  m.Refuse(key, fmt::format("is for the launcher {}; this plan's is {}",
                            base::JoinList(names, "or"), Name(*launcher)));
}

enum class Command { kMayUse, kMayNotUse };  // whether $COMMAND is known there

void DecodeArgv(const std::optional<Value>& value, std::vector<std::string>* argv,
                Command command = Command::kMayNotUse) {
  if (!value || !Read(*value, argv, Text::kMayBeEmpty)) return;
  if (argv->empty()) {
    value->Fail(fmt::format("{} is an empty list: write a command, or leave the key out",
                            Quoted(value->key)));
    return;
  }
  RefuseSecrets(*value, *argv);
  for (const Value& item : Items(*value, value->key)) {
    const std::size_t at = item.node.text.find("$COMMAND");
    if (at == std::string::npos) continue;
    if (command == Command::kMayNotUse) {
      item.Fail("$COMMAND is the arm's command, which only \"start\" is given");
    } else if (item.node.text != "$COMMAND") {
      item.Fail(
          fmt::format("$COMMAND stands for several elements and must be one of its own, "
                      "not a part of {}",
                      Quoted(item.node.text)));
    }
  }
}

void DecodeLaunch(const Value& value, CommandSettings* launch) {
  Mapping m(value.context, value.node, "\"launch\"", value.path);
  DecodeArgv(m.Need("start", "the argv whose life is the server's"), &launch->start,
             Command::kMayUse);
  DecodeArgv(m.Take("stop"), &launch->stop);
  DecodeArgv(m.Take("cleanup"), &launch->cleanup);
  DecodeArgv(m.Take("address"), &launch->address);
  DecodeArgv(m.Take("identity"), &launch->identity);
  m.Optional("logs", &launch->logs);
}

bool IsHeaderName(std::string_view name) {
  return !name.empty() && name.find_first_not_of(
                              "abcdefghijklmnopqrstuvwxyz"
                              "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                              "0123456789-_") == name.npos;
}

void DecodeToken(const Value& value, std::string* variable) {
  if (value.node.kind != Node::Kind::kMapping) {
    value.Fail("a secret does not belong in a plan: write token: {from_env: NAME}");
    return;
  }
  Mapping m(value.context, value.node, "the token", value.path);
  m.Required("from_env", variable);
}

void DecodeEndpoint(const Value& value, EndpointSettings* endpoint) {
  Mapping m(value.context, value.node, "\"endpoint\"", value.path);
  DecodeArgv(m.Take("identity"), &endpoint->identity);
  if (m.Optional("identity_header", &endpoint->identity_header) &&
      !IsHeaderName(endpoint->identity_header)) {
    m.Take("identity_header")
        ->Fail(fmt::format("{} is not the name of a header", Quoted(endpoint->identity_header)));
  }
  m.Optional("ca", &endpoint->ca_file);
  if (const auto token = m.Take("token")) DecodeToken(*token, &endpoint->token_variable);
}

void DecodeIdentity(const Value& value, std::map<std::string, std::string>* identity) {
  for (const Value& entry : Entries(value)) {
    if (entry.key.empty()) {
      entry.Fail("a value of the identity has no name");
    } else {
      Read(entry, &(*identity)[entry.key]);
    }
  }
}

}  // namespace

void DecodeLaunchers(Mapping& m, std::optional<LauncherKind> launcher, ServerSettings* server) {
  Only(m, "launch", launcher, {kCommand});
  Only(m, "endpoint", launcher, {kEndpoint});
  if (launcher == kCommand || launcher == kEndpoint) {
    for (const char* key : {"mounts", "gpus", "ipc", "pull"}) Only(m, key, launcher, {kDocker});
    RefuseDocker(m, fmt::format("is for the launcher docker; this plan's is {}", Name(*launcher)));
  }
  if (launcher == kCommand) {
    if (const auto launch =
            m.Need("launch", "say how a server is started: launch: {start: [...]}")) {
      DecodeLaunch(*launch, &server->command_launcher);
    }
  }
  if (launcher == kEndpoint) {
    m.Refuse("command", "is nothing for the launcher endpoint, which starts no server");
    if (const auto endpoint = m.Take("endpoint")) DecodeEndpoint(*endpoint, &server->endpoint);
  }
}

void DecodeLaunchedArm(
    Mapping& m, std::optional<LauncherKind> launcher, ArmOverlay* arm,
    const std::function<void(const Value&, PinnedFile*)>& pinned_file,
    const std::function<void(const Value&, std::optional<std::string>*)>& image) {
  Only(m, "image_file", launcher, {kCommand});
  Only(m, "built_from", launcher, {kCommand});
  Only(m, "url", launcher, {kEndpoint});
  Only(m, "before", launcher, {kEndpoint});
  Only(m, "identity", launcher, {kCommand, kEndpoint});
  if (launcher == kCommand || launcher == kEndpoint) {
    Only(m, "executable", launcher, {kProcess});
    Only(m, "files", launcher, {kProcess});
  }
  if (launcher == kEndpoint) {
    Only(m, "image", launcher, {kDocker, kCommand});
    for (const char* key : {"remove", "replace", "append"}) {
      m.Refuse(key, "is nothing for the launcher endpoint, which starts no server");
    }
  }
  if (launcher == kCommand) {
    if (m.Has("image") && m.Has("image_file")) {
      m.Take("image_file")->Fail("an arm has \"image\" or \"image_file\", not both");
    }
    if (const auto file = m.Take("image_file")) pinned_file(*file, &arm->image_file.emplace());
    if (const auto from = m.Take("built_from")) image(*from, &arm->built_from);
  }
  if (launcher == kEndpoint) {
    std::string url;
    if (const auto value = m.Take("url"); value && Read(*value, &url)) {
      if (const std::string wrong = ProblemOfUrl(url); !wrong.empty()) {
        value->Fail(fmt::format("\"url\" {}: {}", Quoted(url), wrong));
      }
      arm->url = std::move(url);
    }
    DecodeArgv(m.Take("before"), &arm->before);
  }
  if (launcher == kCommand || launcher == kEndpoint) {
    if (const auto identity = m.Take("identity")) DecodeIdentity(*identity, &arm->identity);
  }
}

}  // namespace upgrade_gate::plan
