#include "framework/server/host.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "tests/unit/server/fake_host.h"

namespace upgrade_gate::server {
namespace {

using evidence::Fact;
using evidence::FactState;

class HostTest : public ::testing::Test {
 protected:
  void Put(const std::string& path, const std::string& text) { host_.Put(path, text); }
  std::string Told(const std::string& name) {
    for (const Fact& fact : ReadHostFacts(host_.reader)) {
      if (fact.name == name) {
        return std::string(Name(fact.state)) + " " + fact.value +
               (fact.compared ? "" : " (not compared)");
      }
    }
    return "no such fact";
  }

  FakeHost host_;
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
  EXPECT_EQ(host_.asked, 0);
  const auto facts = ReadHostFacts(host_.reader);
  EXPECT_TRUE(std::is_sorted(facts.begin(), facts.end(),
                             [](const Fact& a, const Fact& b) { return a.name < b.name; }));
}

TEST_F(HostTest, AnEmptyHostHasUnknownFactsAndNoGovernor) {
  std::filesystem::create_directories(host_.Path("sys/devices/system/cpu/cpu0"));
  for (const char* name :
       {"machine", "cpu_model", "cpus", "memory_mib", "kernel", "clock_source"}) {
    EXPECT_EQ(Told(name), "unknown ") << name;
  }
  EXPECT_EQ(Told("cpu_governor"), "absent ");
}

TEST_F(HostTest, TellsHowLongAnybodyWaitedForACpu) {
  EXPECT_EQ(CpuPressure(host_.reader), std::nullopt);
  for (const char* odd : {"", "some avg10=0.00", "some total=x", "some avg10=1.00 total=-5\n",
                          "full avg10=0.00 total=7\n"}) {
    Put("proc/pressure/cpu", odd);
    EXPECT_EQ(CpuPressure(host_.reader), std::nullopt) << odd;
  }
  Put("proc/pressure/cpu",
      "some avg10=76.36 avg60=71.36 avg300=65.31 total=5776366468\nfull avg10=0.00 total=0\n");
  EXPECT_EQ(CpuPressure(host_.reader), std::chrono::microseconds(5776366468));
}

TEST_F(HostTest, TheRealOneIsReadToo) {
  const auto facts = ReadHostFacts({});
  const auto kernel = std::find_if(facts.begin(), facts.end(),
                                   [](const Fact& fact) { return fact.name == "kernel"; });
  ASSERT_NE(kernel, facts.end());
  EXPECT_EQ(kernel->state, FactState::kPresent);
}

}  // namespace
}  // namespace upgrade_gate::server
