#include "framework/server/gpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/server/fake_host.h"

namespace upgrade_gate::server {
namespace {

using evidence::Fact;
using ::testing::HasSubstr;

class NvidiaTest : public ::testing::Test {
 protected:
  NvidiaTest() {
    host_.Put("proc/driver/nvidia/version", "NVRM version: 580\n");
    gpus_ =
        "0, GPU-aa, NVIDIA H20, 580.95.05, 4, 0, 0x0000000000000001, 00000000:3B:00.0\n"
        "1, GPU-bb, NVIDIA H20, 580.95.05, 4, [N/A], 0x0000000000000004, 00000000:5E:00.0\n";
  }
  std::string Told(const std::string& name) {
    for (const Fact& fact : GpuFacts(host_.reader)) {
      if (fact.name == name) {
        return std::string(Name(fact.state)) + " " + fact.value + " by " + fact.source;
      }
    }
    return "no such fact";
  }
  std::string Checked(const std::vector<std::string>& ids = {}) {
    const auto checked = CheckGpus(host_.reader, {ids, {}}, clock_, [] { return false; });
    return checked ? "free" : checked.error().message;
  }
  std::vector<Gpu> Look(const std::vector<std::string>& ids = {}) {
    return LookAtGpus(host_.reader, GpuSelection{ids, {}});
  }

  FakeHost host_;
  base::ManualClock clock_;
  std::string& gpus_ = host_.prints["nvidia-smi --query-gpu"];
  std::string& apps_ = host_.prints["nvidia-smi --query-compute-apps"];
  std::string& dmesg_ = host_.prints["dmesg"];
};

TEST_F(NvidiaTest, FactsNameTheGpus) {
  EXPECT_EQ(Told("gpus"), "present 0 NVIDIA H20 GPU-aa and 1 NVIDIA H20 GPU-bb by nvidia-smi");
  EXPECT_EQ(Told("gpu_driver"), "present 580.95.05 by nvidia-smi");
  host_.errors["nvidia-smi"] =
      "nvidia-smi: exit code 18: Failed to initialize NVML: Driver/library version mismatch";
  EXPECT_EQ(Told("gpus"), "unknown  by " + host_.errors["nvidia-smi"]);
  host_.errors.clear();
  gpus_.clear();
  EXPECT_EQ(Told("gpus"), "absent  by nvidia-smi lists none");
  host_.reader.run = nullptr;
  EXPECT_EQ(Told("gpus"), "unknown  by nvidia-smi was not asked");
}

TEST_F(NvidiaTest, GpusThatAreFreeAreFree) {
  EXPECT_EQ(Checked(), "free");
  host_.reader.run = nullptr;
  EXPECT_EQ(Checked(), "nvidia-smi was not asked");
}

TEST(Gpus, AHostWithoutADriverHasNoneAndIsNotAsked) {
  FakeHost host;
  base::ManualClock clock;
  EXPECT_TRUE(CheckGpus(host.reader, {{"0"}, {}}, clock, [] { return false; }));
  EXPECT_EQ(host.asked, 0);
  const auto facts = GpuFacts(host.reader);
  ASSERT_EQ(facts.size(), 2U);
  EXPECT_EQ(facts[1].state, evidence::FactState::kAbsent);
  EXPECT_EQ(facts[1].source, "neither /proc/driver/nvidia nor /sys/class/kfd is there");
}

// Also of a container that has ended, whose driver frees late or never.
TEST_F(NvidiaTest, AProcessOnAGpuIsNamedAfterItsTimeToEnd) {
  apps_ = "GPU-bb, 4711, python3, 80000\n";
  const base::Instant start = clock_.now();
  EXPECT_EQ(Checked(),
            "the GPUs are not free: GPU 1: process 4711 python3 (80000 MiB); end what does not "
            "belong here, or give this capture other GPUs");
  EXPECT_EQ(clock_.now() - start, std::chrono::seconds(30));
  EXPECT_EQ(Checked({"0"}), "free");  // another GPU than ours is nobody's business
  apps_ = "GPU-bb, 4711, py\x1b[31m\nthon3, 80000\n";
  EXPECT_THAT(Checked(), HasSubstr("process 4711 py\\x1b[31m (? MiB)"));
  apps_ = "GPU-bb, 4711, py\x1b[31mthon, 80000\n";
  EXPECT_THAT(Checked(), HasSubstr("process 4711 py\\x1b[31mthon (80000 MiB)"));
}

TEST_F(NvidiaTest, MemoryThatComesBackInTimeIsWaitedFor) {
  const std::string free = gpus_;
  gpus_ = "0, GPU-aa, NVIDIA H20, 580.95.05, 40000, 0, 0x0, 00000000:3B:00.0\n";
  EXPECT_THAT(Checked(), HasSubstr("GPU 0: 40,000 MiB in use by nobody that nvidia-smi can see"));
  const RunArgv run = host_.reader.run;
  host_.reader.run = [&, run](const std::vector<std::string>& argv,
                              std::chrono::milliseconds limit) {
    if (host_.asked > 80) gpus_ = free;
    return run(argv, limit);
  };
  host_.asked = 70;
  EXPECT_EQ(Checked(), "free");
}

TEST_F(NvidiaTest, AnInterruptedWaitEndsAtOnce) {
  apps_ = "GPU-bb, 4711, python3, 80000\n";
  const base::Instant start = clock_.now();
  const auto checked = CheckGpus(host_.reader, {}, clock_, [] { return true; });
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().message,
            "interrupted while waiting for the GPUs to be free; run the same command again");
  EXPECT_EQ(clock_.now(), start);
}

TEST_F(NvidiaTest, AFaultyGpuIsRefused) {
  gpus_ = "0, GPU-aa, NVIDIA H20, 580.95.05, 4, 2, 0x0, 00000000:3B:00.0\n";
  EXPECT_EQ(Checked(),
            "GPU 0 (GPU-aa) has 2 uncorrected ECC errors; reset it, and measure on another if they "
            "come back");
  gpus_ = "0, GPU-aa, NVIDIA H20, 580.95.05, 4, 0, 0x0, 00000000:3B:00.0\n";
  dmesg_ = "[1.0] NVRM: Xid (PCI:0000:3b:00): 43, pid=1, a program's own fault\n";
  EXPECT_EQ(Checked(), "free");
  dmesg_ += "[2.0] NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n";
  EXPECT_EQ(Checked(),
            "the kernel's log has a fault of a GPU that only a reset ends: \"[2.0] NVRM: Xid "
            "(PCI:0000:3b:00): 79, GPU has fallen off the bus.\"");
  host_.errors["dmesg"] = "dmesg: read kernel buffer failed: Operation not permitted";
  EXPECT_EQ(Checked(), "free");
}

TEST_F(NvidiaTest, AFaultOfAnotherGpuIsNobodysBusiness) {
  struct Row {
    std::string where;
    std::vector<std::string> refused;  // of the GPUs 0 and 1
  };
  const Row rows[] = {
      {"PCI:0000:3b:00", {"0"}},
      {"PCI:0000:5E:00", {"1"}},
      {"PCI:0000:3b:00 GPU-I:05", {"0"}},  // a part of it (MIG)
      {"0000:3b:00", {"0"}},               // of old drivers
      {"PCI:0001:3b:00", {}},
      {"PCI:0000:3b:01", {}},
      {"", {"0", "1"}},  // whose it is nobody knows
      {"PCI:unknown", {"0", "1"}},
  };
  for (const Row& row : rows) {
    dmesg_ = "[2.0] NVRM: Xid (" + row.where + "): 79, GPU has fallen off the bus.\n";
    std::vector<std::string> refused;
    for (const std::string id : {"0", "1"}) {
      if (Checked({id}) != "free") refused.push_back(id);
    }
    EXPECT_EQ(refused, row.refused) << dmesg_;
  }
  dmesg_ =
      "NVRM: Xid (PCI:0000:5e:00): 79, GPU has fallen off the bus.\n"
      "NVRM: Xid (PCI:0000:3b:00): 48, an uncorrected error\n";
  EXPECT_THAT(Checked({"0"}), HasSubstr("(PCI:0000:3b:00): 48"));
  gpus_ = "0, GPU-aa, NVIDIA H20, 580.95.05, 4, 0, 0x0, [N/A]\n";
  EXPECT_THAT(Checked({"0"}), HasSubstr("(PCI:0000:5e:00): 79"));  // it may be ours
}

TEST_F(NvidiaTest, WhatTheHostDoesNotHaveIsNotFree) {
  EXPECT_EQ(Checked({"2"}), "there is no GPU 2 on this host, only 0 and 1");
  EXPECT_EQ(Checked({"MIG-5c89"}), "free");  // a part of a GPU, which the list does not have
}

TEST_F(NvidiaTest, ADriverThatDoesNotFitIsAnErrorBeforeTheBoot) {
  host_.errors["nvidia-smi"] =
      "nvidia-smi: exit code 18: Failed to initialize NVML: Driver/library version mismatch";
  EXPECT_EQ(Checked(), host_.errors["nvidia-smi"]);
  host_.errors.clear();
  gpus_ = "garbage\n";
  EXPECT_EQ(Checked(), "nvidia-smi: cannot read its line \"garbage\"");
}

TEST_F(NvidiaTest, SlowdownsAreToldAndAPowerCapIsNone) {
  const auto free = Look();
  EXPECT_EQ(Slowdowns(free, free), "");
  gpus_ =
      "0, GPU-aa, NVIDIA H20, 580.95.05, 4, 0, 0x0000000000000044, 00000000:3B:00.0\n"
      "1, GPU-bb, NVIDIA H20, 580.95.05, 4, 0, 0x00000000000000A8, 00000000:5E:00.0\n";
  EXPECT_EQ(Slowdowns(Look(), free),
            "GPU 0 (GPU-aa): thermal slowdown by hardware and GPU 1 (GPU-bb): hardware slowdown, "
            "thermal slowdown by software and power brake before it");
  EXPECT_EQ(Slowdowns(Look({"0"}), Look({"0"})),
            "GPU 0 (GPU-aa): thermal slowdown by hardware before it; GPU 0 (GPU-aa): thermal "
            "slowdown by hardware after it");
  host_.errors["nvidia-smi"] = "gone";
  EXPECT_EQ(Slowdowns(Look(), Look()), "");
  EXPECT_EQ(LookAtGpus(host_.reader, std::nullopt).size(), 0U);
}

TEST(SelectGpus, FollowsTheAllocationThenThePlan) {
  struct Row {
    std::string gpus;
    std::vector<std::string> devices, allocated;
    std::string expected;
  };
  const auto shown = [](const std::optional<GpuSelection>& selection) {
    if (!selection) return std::string("none");
    std::string text = !selection->vendor                      ? "host's"
                       : *selection->vendor == GpuVendor::kAmd ? "AMD's"
                                                               : "NVIDIA's";
    for (const std::string& id : selection->ids) text += " " + id;
    return text;
  };
  const Row rows[] = {
      {"", {}, {}, "none"},
      {"all", {}, {}, "host's"},
      {"0,GPU-bb", {}, {}, "host's 0 GPU-bb"},
      {"all", {}, {"1", "2"}, "host's 1 2"},
      {"", {}, {"1"}, "host's 1"},
      {"", {"/dev/fuse"}, {}, "none"},
      {"", {"/dev/dri/renderD128"}, {}, "none"},  // no compute without /dev/kfd
      {"", {"/dev/kfd", "/dev/dri"}, {}, "AMD's"},
      {"",
       {"/dev/kfd:/dev/kfd:rw", "/dev/dri/renderD129:/dev/dri/renderD128"},
       {},
       "AMD's renderD129"},
      {"", {"/dev/kfd", "/dev/dri"}, {"3"}, "AMD's 3"},
  };
  for (const Row& row : rows) {
    plan::ServerSettings settings;
    settings.gpus = row.gpus;
    settings.docker.devices = row.devices;
    EXPECT_EQ(shown(SelectGpus(settings, row.allocated)), row.expected) << row.gpus;
  }
}

}  // namespace
}  // namespace upgrade_gate::server
