// A runner that starts one server and then hangs until it is killed, or, with
// --die-before-go, kills itself between the server's fork and its permission to run.
//   doomed_runner WATCHDOG RUN_ID FOLDER [--die-before-go] SERVER ARGUMENTS…
// Prints "watchdog PID", then the server's "pids …" line.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include "fixtures/process/process_launcher.h"
#include "framework/base/digest.h"
#include "framework/server/forked_child.h"
#include "framework/server/spawn.h"
#include "tests/support/processes.h"

using namespace upgrade_gate;  // NOLINT: a program of one file

namespace {

int Fail(const base::Error& error) {
  std::fprintf(stderr, "doomed_runner: %s\n", error.message.c_str());
  return 13;
}

// The launcher's own order of steps, with death where the last guard would be.
int DieBeforeGo(server::Watchdog& watchdog, const std::string& server,
                const std::vector<std::string>& arguments) {
  auto output = server::MakePipe();
  server::SpawnRequest request;
  request.path = server;
  request.argv = arguments;
  request.argv.insert(request.argv.begin(), server);
  request.working_directory = "/";
  request.output = output->write.get();
  const auto child = server::Spawn(request, [&](pid_t group) -> base::Status {
    std::printf("pids %d\n", group);
    std::fflush(stdout);
    UG_TRY(watchdog.Guard(group));
    kill(getpid(), SIGKILL);
    return {};
  });
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> args(argv + 1, argv + argc);
  if (args.size() < 4) return 12;
  const std::string run_id = args[1];
  auto watchdog = server::Watchdog::Start(args[0], run_id);
  if (!watchdog) return Fail(watchdog.error());
  std::printf("watchdog %d\n", watchdog->pid());
  std::fflush(stdout);
  const std::filesystem::path folder = args[2];
  const bool die = args[3] == "--die-before-go";
  args.erase(args.begin(), args.begin() + (die ? 4 : 3));
  const std::string server = args[0];
  args.erase(args.begin());
  if (die) return DieBeforeGo(*watchdog, server, args);

  base::SystemClock clock;
  const auto launcher = process::MakeProcessLauncher(clock, *watchdog);
  server::ServerSpec spec;
  spec.arm.name = "candidate";
  spec.arm.executable = plan::PinnedFile{server, *base::Sha256OfFile(server)};
  spec.arm.command = args;
  spec.plan_directory = folder;
  spec.run_id = run_id;
  spec.boot = 1;
  const auto running = launcher->Start(spec);
  if (!running) return Fail(running.error());
  std::string log;
  const bool ready = testing_support::Eventually([&] {
    log = (*running)->log().text();
    return log.ends_with("ready\n");
  });
  if (!ready) return 13;
  std::fputs(log.c_str(), stdout);
  std::fflush(stdout);
  for (;;) pause();
}
