// Merging of arm overlays.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "framework/plan/launch_argv.h"
#include "framework/plan/resolve.h"

namespace upgrade_gate::plan {
namespace {

constexpr std::string_view kPort = "$PORT";

bool BeginsWith(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

// `--x` itself, or `--x=value`.
bool IsOption(std::string_view element, std::string_view option) {
  return BeginsWith(element, option) &&
         (element.size() == option.size() || element[option.size()] == '=');
}

bool HasValueAfter(const std::vector<std::string>& command, std::size_t i) {
  return i + 1 < command.size() && !BeginsWith(command[i + 1], "--");
}

std::vector<std::string> OptionsOf(const std::vector<std::string>& command) {
  std::vector<std::string> options;
  for (const std::string& element : command) {
    if (BeginsWith(element, "-")) options.push_back(element.substr(0, element.find('=')));
  }
  return options;
}

class Merger {
 public:
  Merger(const Plan& plan, const Incomplete& incomplete, Errors& errors)
      : plan_(plan), incomplete_(incomplete), errors_(errors), merged_(plan.arms.size()) {}

  std::vector<Arm> Run() {
    std::vector<Arm> arms;
    for (std::size_t i = 0; i < plan_.arms.size(); ++i) arms.push_back(Merge(i));
    return arms;
  }

 private:
  Location Place(std::size_t arm, const std::string& key) const {
    return PlaceOf(plan_, fmt::format("arms[{}].{}", arm, key), plan_.arms[arm].location);
  }

  // The arm that `like` names; absent if there is none, or after an error.
  std::optional<std::size_t> Parent(std::size_t index) {
    const ArmOverlay& overlay = plan_.arms[index];
    if (!overlay.like) return std::nullopt;
    const auto it = std::find_if(plan_.arms.begin(), plan_.arms.end(),
                                 [&](const ArmOverlay& a) { return a.name == *overlay.like; });
    if (it != plan_.arms.end()) return static_cast<std::size_t>(it - plan_.arms.begin());
    std::vector<std::string> names;
    for (const ArmOverlay& a : plan_.arms) {
      if (a.name != overlay.name) names.push_back(a.name);
    }
    errors_.Add(Place(index, "like"), fmt::format("unknown arm {}{}", Quoted(*overlay.like),
                                                  DidYouMean(*overlay.like, names)));
    broken_ = true;
    return std::nullopt;
  }

  const Arm& Merge(std::size_t index) {
    if (merged_[index]) return *merged_[index];
    path_.push_back(index);
    const ArmOverlay& overlay = plan_.arms[index];
    Arm arm;
    const auto parent = Parent(index);
    if (parent && !IsCircle(*parent)) {
      arm = Merge(*parent);
    } else {
      arm.command = plan_.server.command;
      arm.env = plan_.server.env;
    }
    path_.pop_back();
    arm.name = overlay.name;
    arm.location = overlay.location;
    arm.role = Role(index);
    MergeImage(overlay, &arm);
    if (overlay.url) arm.url = *overlay.url;
    if (!overlay.before.empty()) arm.before = overlay.before;
    if (!overlay.identity.empty()) arm.identity = overlay.identity;
    if (overlay.executable) arm.executable = overlay.executable;
    if (overlay.files) arm.files = *overlay.files;
    for (const auto& [name, value] : overlay.env) arm.env[name] = value;
    MergeCommand(index, &arm);
    // Without what it is like, an arm lacks more than its own lines say.
    if (!broken_ && !incomplete_.commands) CheckWhole(arm);
    merged_[index] = std::move(arm);
    return *merged_[index];
  }

  bool IsCircle(std::size_t parent) {
    const auto start = std::find(path_.begin(), path_.end(), parent);
    if (start == path_.end()) return false;
    broken_ = true;
    if (start + 1 == path_.end()) {
      errors_.Add(Place(parent, "like"),
                  fmt::format("the arm {} is like itself", Quoted(plan_.arms[parent].name)));
      return true;
    }
    std::string circle;
    for (auto it = start; it != path_.end(); ++it) circle += Quoted(plan_.arms[*it].name) + ", ";
    errors_.Add(Place(parent, "like"), fmt::format("\"like\" goes in a circle: {}{}", circle,
                                                   Quoted(plan_.arms[parent].name)));
    return true;
  }

  ArmRole Role(std::size_t index) {
    const ArmOverlay& overlay = plan_.arms[index];
    std::optional<ArmRole> by_name;
    for (const ArmRole role : {ArmRole::kBaseline, ArmRole::kCandidate}) {
      if (overlay.name == Name(role)) by_name = role;
    }
    if (by_name && overlay.role && *overlay.role != *by_name) {
      errors_.Add(Place(index, "role"),
                  fmt::format("the arm \"{}\" has the role {}, not {}: give it another name",
                              overlay.name, Name(*by_name), Name(*overlay.role)));
    }
    if (by_name) return *by_name;
    // A role that could not be read has its own error.
    if (!overlay.role && !plan_.locations.contains(fmt::format("arms[{}].role", index))) {
      errors_.Add(overlay.location,
                  fmt::format("the arm {} has no role: write role: attribution for an arm that "
                              "explains a difference",
                              Quoted(overlay.name)));
    }
    return overlay.role.value_or(ArmRole::kAttribution);
  }

  // One image an arm: a reference and a file replace each other.
  static void MergeImage(const ArmOverlay& overlay, Arm* arm) {
    if (overlay.image) {
      arm->image = *overlay.image;
      arm->image_file.reset();
      arm->built_from.clear();
    }
    if (overlay.image_file) {
      arm->image_file = overlay.image_file;
      arm->image.clear();
      arm->built_from.clear();
    }
    if (overlay.built_from) arm->built_from = *overlay.built_from;
  }

  void MergeCommand(std::size_t index, Arm* arm) {
    const ArmOverlay& overlay = plan_.arms[index];
    std::vector<std::string>& command = arm->command;
    for (std::size_t i = 0; i < overlay.remove.size(); ++i) {
      const std::string& option = overlay.remove[i];
      if (!Remove(option, &command)) {
        NotThere(Place(index, fmt::format("remove[{}]", i)), option, *arm);
      }
    }
    for (const auto& [option, value] : overlay.replace) {
      Replace(Place(index, "replace." + option), option, value, arm);
    }
    command.insert(command.end(), overlay.append.begin(), overlay.append.end());
  }

  static bool Remove(const std::string& option, std::vector<std::string>* command) {
    std::vector<std::string> rest;
    for (std::size_t i = 0; i < command->size(); ++i) {
      const std::string& element = (*command)[i];
      if (!IsOption(element, option)) {
        rest.push_back(element);
      } else if (element == option && HasValueAfter(*command, i)) {
        ++i;
      }
    }
    const bool removed = rest.size() != command->size();
    *command = std::move(rest);
    return removed;
  }

  void Replace(Location at, const std::string& option, const std::string& value, Arm* arm) {
    std::vector<std::string>& command = arm->command;
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < command.size(); ++i) {
      if (IsOption(command[i], option)) found.push_back(i);
    }
    if (found.empty()) {
      NotThere(at, option, *arm);
    } else if (found.size() > 1) {
      AddUnlessIncomplete(at, fmt::format("{} stands {} times in the command of the arm {}: use "
                                          "remove and append",
                                          Quoted(option), found.size(), Quoted(arm->name)));
    } else if (const std::size_t i = found[0]; command[i] != option) {
      command[i] = option + "=" + value;
    } else if (HasValueAfter(command, i)) {
      command[i + 1] = value;
    } else {
      AddUnlessIncomplete(at, fmt::format("{} has no value in the command of the arm {}: use "
                                          "remove and append",
                                          Quoted(option), Quoted(arm->name)));
    }
  }

  void NotThere(Location at, const std::string& option, const Arm& arm) {
    AddUnlessIncomplete(at,
                        fmt::format("{} is not in the command of the arm {}{}", Quoted(option),
                                    Quoted(arm.name), DidYouMean(option, OptionsOf(arm.command))));
  }

  void AddUnlessIncomplete(Location at, std::string message) {
    if (!broken_ && !incomplete_.commands) errors_.Add(at, std::move(message));
  }

  void CheckWhole(const Arm& arm) {
    const std::string name = Quoted(arm.name);
    if (plan_.server.launcher == LauncherKind::kDocker && arm.image.empty()) {
      errors_.Add(arm.location, fmt::format("the arm {} has no \"image\"", name));
    }
    if (plan_.server.launcher == LauncherKind::kProcess && !arm.executable) {
      errors_.Add(arm.location, fmt::format("the arm {} has no \"executable\"", name));
    }
    if (plan_.server.launcher == LauncherKind::kEndpoint) return CheckEndpointArm(arm);
    if (plan_.server.launcher == LauncherKind::kCommand) CheckCommandArm(arm);
    const auto has_port = [](std::string_view text) { return text.find(kPort) != text.npos; };
    const std::vector<std::string> argv = LaunchArgv(plan_.server, arm);
    const bool in_command = !plan_.server.command_launcher.address.empty() ||
                            std::any_of(argv.begin(), argv.end(), has_port);
    const bool in_env = std::any_of(arm.env.begin(), arm.env.end(), [&](const auto& entry) {
      return entry.second.literal && has_port(*entry.second.literal);
    });
    if (!in_command && !in_env) {
      errors_.Add(arm.location, fmt::format("the arm {} is never told its port: put $PORT into "
                                            "its command or env",
                                            name));
    }
  }

  void CheckCommandArm(const Arm& arm) {
    const std::string name = Quoted(arm.name);
    const CommandSettings& launch = plan_.server.command_launcher;
    const bool uses_command =
        std::find(launch.start.begin(), launch.start.end(), "$COMMAND") != launch.start.end();
    if (!arm.command.empty() && !uses_command && !command_unused_) {
      command_unused_ = true;  // one place, said once
      errors_.Add(PlaceOf(plan_, "server.launch.start", arm.location),
                  fmt::format("\"start\" has no element $COMMAND, so the command of the arm {} "
                              "would change nothing",
                              name));
    }
    if (!arm.built_from.empty() && !arm.image_file) {
      errors_.Add(arm.location,
                  fmt::format("the arm {} has \"built_from\" and no \"image_file\"", name));
    }
    if (!arm.identity.empty() && launch.identity.empty()) {
      errors_.Add(arm.location,
                  fmt::format("the arm {} declares an identity, and nothing asks the server for "
                              "it: give \"launch\" an \"identity\" command",
                              name));
    }
    if (arm.image.empty() && !arm.image_file && arm.identity.empty()) {
      errors_.Add(arm.location, fmt::format("nothing says what the arm {} runs: give it an "
                                            "\"image_file\", an \"image\" or an \"identity\"",
                                            name));
    }
  }

  void CheckEndpointArm(const Arm& arm) {
    if (!arm.url.empty()) return;
    errors_.Add(arm.location, fmt::format("the arm {} has no \"url\"", Quoted(arm.name)));
  }

  const Plan& plan_;
  const Incomplete& incomplete_;
  Errors& errors_;
  std::vector<std::optional<Arm>> merged_;
  std::vector<std::size_t> path_;  // the arms being merged, each like the next
  bool broken_ = false;            // a `like` leads nowhere
  bool command_unused_ = false;    // is said
};

}  // namespace

std::vector<Arm> ResolveArms(const Plan& plan, const Incomplete& incomplete, Errors& errors) {
  return Merger(plan, incomplete, errors).Run();
}

}  // namespace upgrade_gate::plan
