#include "framework/server/host.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/unit/base/temp_folder.h"

namespace upgrade_gate::server {
namespace {

using evidence::Fact;
using evidence::FactState;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A host made of files, and of what commands print on it.
class HostTest : public ::testing::Test {
 protected:
  HostTest() {
    reader_.root = folder_.path();
    reader_.run = [this](const std::vector<std::string>& argv,
                         std::chrono::milliseconds) -> base::Result<std::string> {
      ++asked_;
      if (argv[0] == "dmesg") return dmesg_;
      if (argv[0] == "rocm-smi") return rocm_;
      if (!nvidia_error_.empty()) return base::InfrastructureError(nvidia_error_);
      return argv[1].starts_with("--query-gpu=") ? gpus_ : apps_;
    };
  }
  void Put(const std::string& path, const std::string& text) {
    const auto file = folder_.path() / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  void PutNvidia() { Put("proc/driver/nvidia/version", "NVRM version: 580\n"); }
  std::string Told(const std::string& name) {
    for (const Fact& fact : ReadHostFacts(reader_)) {
      if (fact.name == name) {
        return std::string(Name(fact.state)) + " " + fact.value +
               (fact.compared ? "" : " (not compared)");
      }
    }
    return "no such fact";
  }
  std::string Checked(const std::vector<std::string>& only = {}) {
    const auto checked = CheckGpus(reader_, only, clock_, [] { return false; });
    return checked ? "free" : checked.error().message;
  }

  base::TempFolder folder_;
  base::ManualClock clock_;
  HostReader reader_;
  int asked_ = 0;
  std::string gpus_ =
      "0, GPU-aa, NVIDIA H20, 580.95.05, 4, 0, 0x0000000000000001\n"
      "1, GPU-bb, NVIDIA H20, 580.95.05, 4, [N/A], 0x0000000000000004\n";
  std::string apps_, dmesg_, rocm_, nvidia_error_;
};

TEST_F(HostTest, SaysWhatTheHostIs) {
  Put("etc/machine-id", "0123456789abcdef0123456789abcdef\n");
  Put("proc/cpuinfo",
      "processor\t: 0\nmodel name\t: Some CPU @ 2.0GHz\n\nprocessor\t: 1\nmodel name\t: Some CPU @ "
      "2.0GHz\n");
  Put("proc/meminfo", "MemTotal:       2097152 kB\nMemFree: 1 kB\nMemAvailable:   1048576 kB\n");
  Put("proc/sys/kernel/osrelease", "6.1.0-20-amd64\n");
  Put("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n");
  Put("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n");
  Put("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "powersave\n");
  Put("sys/devices/system/cpu/cpufreq/boost", "1\n");
  EXPECT_EQ(Told("cpu_model"), "present Some CPU @ 2.0GHz");
  EXPECT_EQ(Told("cpus"), "present 2");
  EXPECT_EQ(Told("memory_mib"), "present 2048");
  EXPECT_EQ(Told("memory_available_mib"), "present 1024 (not compared)");
  EXPECT_EQ(Told("kernel"), "present 6.1.0-20-amd64");
  EXPECT_EQ(Told("clock_source"), "present tsc");
  EXPECT_EQ(Told("cpu_governor"), "present performance and powersave");
  EXPECT_EQ(Told("machine").size(), std::string("present ").size() + 16);
  EXPECT_EQ(Told("gpus"), "absent ");
  EXPECT_EQ(asked_, 0);
  const auto facts = ReadHostFacts(reader_);
  EXPECT_TRUE(std::is_sorted(facts.begin(), facts.end(),
                             [](const Fact& a, const Fact& b) { return a.name < b.name; }));
}

TEST_F(HostTest, AnEmptyHostHasUnknownFactsAndNoGovernor) {
  std::filesystem::create_directories(folder_.path() / "sys/devices/system/cpu/cpu0");
  for (const char* name :
       {"machine", "cpu_model", "cpus", "memory_mib", "kernel", "clock_source"}) {
    EXPECT_EQ(Told(name), "unknown ") << name;
  }
  EXPECT_EQ(Told("cpu_governor"), "absent ");
}

TEST_F(HostTest, TellsHowLongAnybodyWaitedForACpu) {
  EXPECT_EQ(CpuPressure(reader_), std::nullopt);
  for (const char* odd : {"", "some avg10=0.00", "some total=x", "some avg10=1.00 total=-5\n",
                          "full avg10=0.00 total=7\n"}) {
    Put("proc/pressure/cpu", odd);
    EXPECT_EQ(CpuPressure(reader_), std::nullopt) << odd;
  }
  Put("proc/pressure/cpu",
      "some avg10=76.36 avg60=71.36 avg300=65.31 total=5776366468\nfull avg10=0.00 total=0\n");
  EXPECT_EQ(CpuPressure(reader_), std::chrono::microseconds(5776366468));
}

TEST_F(HostTest, TheRealOneIsReadToo) {
  const auto facts = ReadHostFacts({});
  const auto kernel = std::find_if(facts.begin(), facts.end(),
                                   [](const Fact& fact) { return fact.name == "kernel"; });
  ASSERT_NE(kernel, facts.end());
  EXPECT_EQ(kernel->state, FactState::kPresent);
}

TEST_F(HostTest, NamesTheGpusOfNvidia) {
  PutNvidia();
  EXPECT_EQ(Told("gpus"), "present 0 NVIDIA H20 GPU-aa and 1 NVIDIA H20 GPU-bb");
  EXPECT_EQ(Told("gpu_driver"), "present 580.95.05");
  nvidia_error_ =
      "nvidia-smi: exit code 18: Failed to initialize NVML: Driver/library version mismatch";
  EXPECT_EQ(Told("gpus"), "unknown ");
  reader_.run = nullptr;
  EXPECT_EQ(Told("gpus"), "unknown ");
}

TEST_F(HostTest, NamesTheGpusOfAmd) {
  Put("sys/class/kfd/kfd/dev", "1\n");
  rocm_ = R"({"card1":{"Card Series":"MI300X","Unique ID":"0x2"},
              "card0":{"Card Series":"MI300X","Unique ID":"0x1"},"system":{"Driver version":"6.10"}})";
  EXPECT_EQ(Told("gpus"), "present card0 MI300X 0x1 and card1 MI300X 0x2");
  EXPECT_EQ(Told("gpu_driver"), "present 6.10");
  rocm_ = "no JSON";
  EXPECT_EQ(Told("gpus"), "unknown ");
}

TEST_F(HostTest, GpusThatAreFreeAreFree) {
  EXPECT_EQ(Checked(), "free");  // there are none
  EXPECT_EQ(asked_, 0);
  PutNvidia();
  EXPECT_EQ(Checked(), "free");
}

TEST_F(HostTest, AProcessOnAGpuIsNamedAfterItsTimeToEnd) {
  PutNvidia();
  apps_ = "GPU-bb, 4711, python3, 80000\n";
  const base::Instant start = clock_.now();
  EXPECT_EQ(Checked(),
            "the GPUs are not free: GPU 1: process 4711 python3 (80000 MiB); end what does not "
            "belong here, or give this capture other GPUs");
  EXPECT_EQ(clock_.now() - start, std::chrono::seconds(30));
  EXPECT_EQ(Checked({"0"}), "free");  // another GPU than ours is nobody's business
}

TEST_F(HostTest, MemoryThatComesBackInTimeIsWaitedFor) {
  PutNvidia();
  const std::string free = gpus_;
  gpus_ = "0, GPU-aa, NVIDIA H20, 580.95.05, 40000, 0, 0x0\n";
  EXPECT_THAT(Checked(), HasSubstr("GPU 0: 40,000 MiB in use by nobody that nvidia-smi can see"));
  const RunArgv run = reader_.run;
  reader_.run = [&, run](const std::vector<std::string>& argv, std::chrono::milliseconds limit) {
    if (asked_ > 80) gpus_ = free;
    return run(argv, limit);
  };
  asked_ = 70;
  EXPECT_EQ(Checked(), "free");
}

TEST_F(HostTest, AFaultyGpuIsRefused) {
  PutNvidia();
  gpus_ = "0, GPU-aa, NVIDIA H20, 580.95.05, 4, 2, 0x0\n";
  EXPECT_THAT(Checked(), HasSubstr("GPU 0 (GPU-aa) has 2 uncorrected ECC errors; reset it"));
  gpus_ = "0, GPU-aa, NVIDIA H20, 580.95.05, 4, 0, 0x0\n";
  dmesg_ = "[1.0] NVRM: Xid (PCI:0000:3b:00): 43, pid=1, a program's own fault\n";
  EXPECT_EQ(Checked(), "free");
  dmesg_ += "[2.0] NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n";
  EXPECT_EQ(Checked(),
            "the kernel's log has a fault of a GPU that only a reset ends: \"[2.0] NVRM: Xid "
            "(PCI:0000:3b:00): 79, GPU has fallen off the bus.\"");
}

TEST_F(HostTest, ADriverThatDoesNotFitIsAnErrorBeforeTheBoot) {
  PutNvidia();
  nvidia_error_ =
      "nvidia-smi: exit code 18: Failed to initialize NVML: Driver/library version mismatch";
  EXPECT_EQ(Checked(), nvidia_error_);
  nvidia_error_.clear();
  gpus_ = "garbage\n";
  EXPECT_EQ(Checked(), "nvidia-smi: cannot read its line \"garbage\"");
}

TEST_F(HostTest, SlowdownsAreToldAndAPowerCapIsNone) {
  PutNvidia();
  EXPECT_EQ(Throttling(reader_, {}), "");
  gpus_ =
      "0, GPU-aa, NVIDIA H20, 580.95.05, 4, 0, 0x0000000000000044\n"
      "1, GPU-bb, NVIDIA H20, 580.95.05, 4, 0, 0x00000000000000A8\n";
  EXPECT_EQ(Throttling(reader_, {}),
            "GPU 0 (GPU-aa): thermal slowdown by hardware and GPU 1 (GPU-bb): hardware slowdown, "
            "thermal slowdown by software and power brake");
  EXPECT_EQ(Throttling(reader_, {"0"}), "GPU 0 (GPU-aa): thermal slowdown by hardware");
  nvidia_error_ = "gone";
  EXPECT_EQ(Throttling(reader_, {}), "");
}

}  // namespace
}  // namespace upgrade_gate::server
