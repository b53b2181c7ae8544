// One gate of a plan as one GoogleTest test: arguments, selection, output and
// exit code of the gate binary.
//
// A gate of plan.yaml is registered as a test; a native gate is one that the
// user wrote. This folder is compiled in the user's build against the user's
// GoogleTest and is the only one that includes it. Single-threaded; call RunGate
// once a process.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "framework/base/exit_code.h"
#include "framework/base/result.h"

namespace upgrade_gate::gtest {

struct GateArguments {
  std::filesystem::path plan;
  std::filesystem::path run;  // the folder that holds evidence/
  std::string gate;           // an id, compared as an exact string
  bool list = false;          // print the ids of the plan's gates instead
  bool measurements = false;  // print the numbers as CTest measurements first
};

// `--plan FILE --list` or `--plan FILE --run DIR --gate=ID [--measurements]`;
// `--name=value` and `--name value` are both read. Anything else is an error,
// GoogleTest's own flags too: a filter that matches nothing would pass.
base::Result<GateArguments> ParseArguments(const std::vector<std::string>& arguments);

// One id a line on stdout. An error if the plan has no gates, if it names a test
// that this binary does not have, and if the binary has a test that the plan
// does not name: such a test would never run.
base::Status ListGates(const GateArguments& arguments);

// Judges the one gate against sealed evidence of the plan's workload, prints its
// message on one line and leaves <run>/fragments/<id>.json; an older fragment is
// removed first. The code is the verdict's, or the error's, which is then on
// stderr. An advisory gate that does not pass is kAccept.
base::ExitCode RunGate(const GateArguments& arguments);

}  // namespace upgrade_gate::gtest
