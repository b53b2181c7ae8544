// `server:` and `arms:`.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "framework/base/text.h"
#include "framework/evidence/oci_reference.h"
#include "framework/plan/decode.h"

namespace upgrade_gate::plan {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

constexpr std::string_view kNotDocker = "is for the launcher docker; this plan's is process";
constexpr std::string_view kNotProcess = "is for the launcher process; this plan's is docker";

bool IsVariableName(std::string_view name) {
  const auto letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  return !name.empty() && letter(name[0]) && std::all_of(name.begin(), name.end(), [&](char c) {
    return letter(c) || (c >= '0' && c <= '9');
  });
}

// HF_TOKEN, VLLM_API_KEY, DB_PASSWORD: by the last words of the name.
bool IsSecretVariable(std::string_view name) {
  constexpr std::array<std::string_view, 6> kWords = {"TOKEN",   "SECRET", "PASSWORD",
                                                      "API_KEY", "APIKEY", "ACCESS_KEY"};
  return std::any_of(kWords.begin(), kWords.end(), [&](std::string_view word) {
    return name == word ||
           (name.size() > word.size() && name.substr(name.size() - word.size()) == word &&
            name[name.size() - word.size() - 1] == '_');
  });
}

Location KeyOf(const Value& entry) {
  return entry.context.locations.at(entry.path);
}

void DecodeMount(const Value& value, Mount* mount) {
  Mapping m(value.context, value.node, "a mount", value.path);
  m.Required("source", &mount->source);
  m.Required("target", &mount->target);
  m.Optional("read_only", &mount->read_only);
  // Docker would take a relative source for the name of a new, empty volume, and
  // ":" and "," for its own syntax.
  for (const auto& [key, path] :
       {std::pair("source", &mount->source), std::pair("target", &mount->target)}) {
    if (path->empty()) continue;
    const auto at = m.Take(key);
    if (path->front() != '/') {
      at->Fail(fmt::format("\"{}\" must be an absolute path, not {}", key, Quoted(*path)));
    } else if (path->find_first_of(":,") != std::string::npos) {
      at->Fail(fmt::format("\"{}\" must not hold \":\" or \",\": {}", key, Quoted(*path)));
    }
  }
}

void DecodeMounts(const Value& value, std::vector<Mount>* mounts) {
  if (!IsList(value)) return;
  std::set<std::string> targets;
  for (const Value& item : Items(value, "mount")) {
    Mount mount;
    DecodeMount(item, &mount);
    if (!mount.target.empty() && !targets.insert(mount.target).second) {
      item.Fail(fmt::format("two mounts have the target {}", Quoted(mount.target)));
    }
    mounts->push_back(std::move(mount));
  }
}

// "all", or the ids as a list or as "0,1".
void DecodeGpus(const Value& value, std::string* gpus) {
  std::vector<std::string> ids;
  if (value.node.kind == Node::Kind::kSequence) {
    if (!Read(value, &ids)) return;
  } else {
    std::string text;
    if (!Read(value, &text)) return;
    for (std::size_t at = 0; at <= text.size();) {
      const std::size_t comma = std::min(text.find(',', at), text.size());
      ids.push_back(text.substr(at, comma - at));
      at = comma + 1;
    }
  }
  std::string joined;
  for (const std::string& id : ids) {
    if (!base::IsPlainName(id) || (id == "all" && ids.size() > 1)) {
      value.Fail(
          fmt::format("\"gpus\" must be all or a list of ids like [0, 1], not {}", Quoted(id)));
      return;
    }
    joined += (joined.empty() ? "" : ",") + id;
  }
  if (joined.empty()) value.Fail("\"gpus\" is empty: leave the key out for no GPU");
  *gpus = std::move(joined);
}

void DecodeTimeout(const std::optional<Value>& value, std::string_view what,
                   milliseconds* timeout) {
  if (!value) return;
  Mapping m(value->context, value->node, std::string(what), value->path);
  m.Required("timeout", timeout, Span{milliseconds(1), hours(24)});
}

void DecodePinnedFile(const Value& value, std::string_view what, PinnedFile* file) {
  Mapping m(value.context, value.node, std::string(what), value.path);
  m.Required("path", &file->path);
  if (const auto digest = m.Need("sha256", "pin it, so that a changed file is noticed")) {
    Read(*digest, &file->sha256, Digest{});
  }
}

bool IsReferenceName(std::string_view name) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("._/:-").find(c) != std::string_view::npos;
  };
  // A leading "-" would be an option to the engine's command.
  return !name.empty() && name[0] != '-' && std::all_of(name.begin(), name.end(), allowed);
}

void DecodeLayoutImage(const Value& value, std::string text, std::optional<std::string>* image) {
  const auto reference = evidence::ParseOciReference(text);
  if (!reference) {
    value.Fail(fmt::format("the image {} {}", Quoted(text), reference.error().message));
  } else if (!reference->digest) {
    value.Fail(
        fmt::format("the image {} is not pinned, and a layout can be written anew: run "
                    "upgrade-gate pin, or write {}@sha256:…",
                    Quoted(text), base::Shorten(base::Visible(text), 80)));
  } else {
    *image = std::move(text);
  }
}

void DecodeImage(const Value& value, std::optional<std::string>* image) {
  std::string text;
  if (!Read(value, &text)) return;
  if (evidence::IsOciReference(text)) return DecodeLayoutImage(value, std::move(text), image);
  const std::size_t at = text.find('@');
  const std::string name = text.substr(0, at);
  if (!IsReferenceName(name)) {
    value.Fail(fmt::format("{} is not the name of an image", Quoted(text)));
    return;
  }
  if (at == std::string::npos) {
    value.Fail(
        fmt::format("the image {} is not pinned, and a tag can move: run upgrade-gate pin, "
                    "or write {}@sha256:…",
                    Quoted(text), base::Shorten(name, 80)));
    return;
  }
  constexpr std::string_view kPrefix = "sha256:";
  const std::string digest = text.substr(at + 1);
  if (digest.compare(0, kPrefix.size(), kPrefix) != 0 ||
      !base::IsSha256Hex(std::string_view(digest).substr(kPrefix.size()))) {
    value.Fail(
        fmt::format("after \"@\" an image must have \"sha256:\" and 64 lower-case "
                    "hexadecimal digits, not {}",
                    Quoted(digest)));
    return;
  }
  *image = std::move(text);
}

void DecodeReplace(const Value& value, std::map<std::string, std::string>* replace) {
  for (const Value& entry : Entries(value)) {
    if (entry.key.empty() || entry.key[0] != '-') {
      entry.context.errors.Add(KeyOf(entry), fmt::format("{} is not an option: it must begin with "
                                                         "\"-\"",
                                                         Quoted(entry.key)));
    } else if (IsSecretOption(entry.key)) {
      RefuseSecrets(entry, {entry.key, "value"});
    } else {
      Read(entry, &(*replace)[entry.key], Text::kMayBeEmpty);
    }
  }
}

void DecodeRemove(const Value& value, std::vector<std::string>* remove) {
  if (!Read(value, remove)) return;
  for (const Value& item : Items(value, "remove")) {
    if (item.node.text[0] != '-') {
      item.Fail(
          fmt::format("{} is not an option: it must begin with \"-\"", Quoted(item.node.text)));
    }
  }
}

void DecodeArm(const Value& value, std::optional<LauncherKind> launcher, ArmOverlay* arm) {
  Mapping m(value.context, value.node, fmt::format("the arm {}", Quoted(arm->name)), value.path);
  m.Optional("like", &arm->like, PlainName{});
  const Choices<ArmRole> roles = {{Name(ArmRole::kBaseline), ArmRole::kBaseline},
                                  {Name(ArmRole::kCandidate), ArmRole::kCandidate},
                                  {Name(ArmRole::kAttribution), ArmRole::kAttribution}};
  m.Optional("role", &arm->role, roles);
  if (launcher == LauncherKind::kDocker) {
    m.Refuse("executable", kNotProcess);
    m.Refuse("files", kNotProcess);
  } else if (launcher == LauncherKind::kProcess) {
    m.Refuse("image", kNotDocker);
  }
  DecodeLaunchedArm(
      m, launcher, arm,
      [](const Value& v, PinnedFile* file) { DecodePinnedFile(v, "the image's file", file); },
      DecodeImage);
  if (launcher != LauncherKind::kProcess) {
    if (const auto image = m.Take("image")) {
      DecodeImage(*image, &arm->image);
      if (launcher == LauncherKind::kCommand && arm->image &&
          evidence::IsOciReference(*arm->image)) {
        image->Fail(
            "an OCI layout is for the launcher docker, which checks and loads it; this "
            "plan's is command: give the arm the \"image_file\" that it starts, and the "
            "layout as its \"built_from\"");
      }
    }
  }
  if (launcher != LauncherKind::kDocker) {
    if (const auto file = m.Take("executable")) {
      DecodePinnedFile(*file, "the executable", &arm->executable.emplace());
    }
    if (const auto files = m.Take("files"); files && IsList(*files)) {
      arm->files.emplace();
      for (const Value& item : Items(*files, "file")) {
        DecodePinnedFile(item, "a file", &arm->files->emplace_back());
      }
    }
  }
  if (const auto remove = m.Take("remove")) DecodeRemove(*remove, &arm->remove);
  if (const auto replace = m.Take("replace")) DecodeReplace(*replace, &arm->replace);
  if (const auto append = m.Take("append");
      append && Read(*append, &arm->append, Text::kMayBeEmpty)) {
    RefuseSecrets(*append, arm->append);
  }
  if (const auto env = m.Take("env")) DecodeEnvironment(*env, &arm->env);
}

}  // namespace

bool IsSecretOption(std::string_view option) {
  constexpr std::array<std::string_view, 5> kOptions = {"--api-key", "--hf-token", "--token",
                                                        "--password", "--secret"};
  option = option.substr(0, option.find('='));
  return std::find(kOptions.begin(), kOptions.end(), option) != kOptions.end();
}

void RefuseSecrets(const Value& argv, const std::vector<std::string>& elements) {
  for (std::size_t i = 0; i < elements.size(); ++i) {
    if (!IsSecretOption(elements[i])) continue;
    const bool joined = elements[i].find('=') != std::string::npos;
    const bool has_value =
        joined || (i + 1 < elements.size() && elements[i + 1].compare(0, 2, "--") != 0);
    if (!has_value) continue;
    const auto at = argv.context.locations.find(fmt::format("{}[{}]", argv.path, i));
    argv.context.errors.Add(
        at != argv.context.locations.end() ? at->second : KeyOf(argv),
        fmt::format("the value of {} would be copied into the evidence: give the secret to the "
                    "server in a variable with from_env",
                    Quoted(elements[i].substr(0, elements[i].find('=')))));
  }
}

void DecodeEnvironment(const Value& value, Environment* env) {
  for (const Value& entry : Entries(value)) {
    if (!IsVariableName(entry.key)) {
      entry.context.errors.Add(KeyOf(entry), fmt::format("{} is not the name of an environment "
                                                         "variable",
                                                         Quoted(entry.key)));
      continue;
    }
    EnvironmentValue& variable = (*env)[entry.key];
    if (entry.node.kind == Node::Kind::kMapping) {
      Mapping m(entry.context, entry.node, fmt::format("the variable {}", Quoted(entry.key)),
                entry.path);
      std::string name;
      if (m.Required("from_env", &name)) {
        if (!IsVariableName(name)) {
          m.Take("from_env")
              ->Fail(fmt::format("{} is not the name of an environment variable", Quoted(name)));
        }
        variable.from_environment = std::move(name);
      }
    } else if (Read(entry, &variable.literal, Text::kMayBeEmpty) && IsSecretVariable(entry.key) &&
               !variable.literal->empty()) {
      entry.Fail(
          fmt::format("{} looks like a secret, and a plan is copied into the evidence: "
                      "write {}: {{from_env: {}}}",
                      Quoted(entry.key), entry.key, entry.key));
    }
  }
}

std::optional<LauncherKind> DecodeServer(const Value& value, ServerSettings* server) {
  Mapping m(value.context, value.node, "the server", value.path);
  std::optional<LauncherKind> launcher;
  const Choices<LauncherKind> launchers = {
      {Name(LauncherKind::kDocker), LauncherKind::kDocker},
      {Name(LauncherKind::kProcess), LauncherKind::kProcess},
      {Name(LauncherKind::kCommand), LauncherKind::kCommand},
      {Name(LauncherKind::kEndpoint), LauncherKind::kEndpoint}};
  if (m.Required("launcher", &launcher, launchers)) server->launcher = *launcher;
  if (const auto command = m.Take("command");
      command && Read(*command, &server->command, Text::kMayBeEmpty)) {
    RefuseSecrets(*command, server->command);
  }
  if (const auto env = m.Take("env")) DecodeEnvironment(*env, &server->env);
  DecodeTimeout(m.Take("ready"), "\"ready\"", &server->ready_timeout);
  DecodeTimeout(m.Take("stop"), "\"stop\"", &server->stop_timeout);
  if (const auto deadlines = m.Take("deadlines")) DecodeDeadlines(*deadlines, &server->limits);
  if (const auto rules = m.Take("log_rules")) DecodeLogRules(*rules, &server->log_rules);
  if (const auto facts = m.Take("facts")) DecodeFactProbes(*facts, &server->fact_probes);
  DecodeLaunchers(m, launcher, server);
  if (launcher == LauncherKind::kCommand || launcher == LauncherKind::kEndpoint) return launcher;

  if (launcher == LauncherKind::kProcess) {
    for (const char* key : {"mounts", "gpus", "ipc", "pull"}) m.Refuse(key, kNotDocker);
    RefuseDocker(m, kNotDocker);
    return launcher;
  }
  if (const auto mounts = m.Take("mounts")) DecodeMounts(*mounts, &server->mounts);
  if (const auto gpus = m.Take("gpus")) DecodeGpus(*gpus, &server->gpus);
  m.Optional("ipc", &server->ipc, Choices<std::string>{{"host", "host"}, {"private", "private"}});
  const Choices<PullPolicy> policies = {{Name(PullPolicy::kNever), PullPolicy::kNever},
                                        {Name(PullPolicy::kMissing), PullPolicy::kMissing}};
  m.Optional("pull", &server->pull, policies);
  DecodeDocker(m, server);
  return launcher;
}

void DecodeArms(const Value& value, std::optional<LauncherKind> launcher,
                std::vector<ArmOverlay>* arms) {
  for (const Value& entry : Entries(value)) {
    ArmOverlay& arm = arms->emplace_back();
    arm.name = entry.key;
    arm.location = KeyOf(entry);
    if (!base::IsPlainName(arm.name)) {
      entry.context.errors.Add(arm.location,
                               fmt::format("the arm {} has no plain name: begin with a letter or "
                                           "digit, then use only letters, digits, \".\", \"_\" "
                                           "and \"-\", at most 64",
                                           Quoted(arm.name)));
    }
    const std::string index_path = fmt::format("{}[{}]", value.path, arms->size() - 1);
    DecodeArm({entry.context, entry.key, index_path, entry.node}, launcher, &arm);
  }
}

}  // namespace upgrade_gate::plan
