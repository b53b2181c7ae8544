#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "framework/server/amd_gpu_metrics.h"
#include "framework/server/gpus.h"
#include "tests/unit/server/fake_host.h"

namespace upgrade_gate::server {
namespace {

using evidence::Fact;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

// --- the metrics table -----------------------------------------------------------

std::string Bytes(std::uint64_t value, std::size_t size) {
  std::string bytes;
  for (; bytes.size() < size; value >>= 8) bytes += static_cast<char>(value & 0xff);
  return bytes;
}

// A table that reports nothing, as the driver makes it before it fills it in.
std::string Table(int content, std::size_t size) {
  return Bytes(size, 2) + '\x01' + static_cast<char>(content) + std::string(size - 4, '\xff');
}

std::string With(std::string table, std::size_t at, std::uint64_t value, std::size_t size) {
  return table.replace(at, size, Bytes(value, size));
}

constexpr std::size_t kSize13 = 120, kSize16 = 1664, kSize17 = 2208, kSize18 = 3360;

// Counters of 1.6 (at 32) and 1.7 and 1.8 (at 40): cycles, PROCHOT, power, package,
// regulators, memory.
std::string Counters(int content, std::size_t size, std::size_t at,
                     const std::vector<std::uint64_t>& values) {
  std::string table = Table(content, size);
  for (std::size_t i = 0; i < values.size(); ++i) table = With(table, at + 4 * i, values[i], 4);
  return table;
}

// One attribute of 1.9: no unit, `type` (4: 32 bits, 6: 64 bits, 2: 16 bits), id, values.
std::string Attribute(std::uint64_t type, std::uint64_t id,
                      const std::vector<std::uint64_t>& values) {
  std::string bytes = Bytes(type << 20 | id << 10 | values.size(), 8);
  for (const std::uint64_t value : values) bytes += Bytes(value, std::size_t{1} << (type / 2));
  return bytes;
}

std::string Attributes(const std::vector<std::string>& attributes) {
  std::string body = Bytes(attributes.size(), 4);
  for (const std::string& attribute : attributes) body += attribute;
  return Bytes(4 + body.size(), 2) + "\x01\x09" + body;
}

TEST(AmdGpuMetrics, TheMaskOf13SaysWhatSlowsDownNow) {
  const auto now = [](std::uint64_t status) {
    return ParseAmdGpuMetrics(With(Table(3, kSize13), 112, status, 8)).now;
  };
  EXPECT_THAT(now(0), IsEmpty());
  EXPECT_THAT(now(0xff), IsEmpty());        // power
  EXPECT_THAT(now(0xff0000), IsEmpty());    // current
  EXPECT_THAT(now(3ULL << 56), IsEmpty());  // the firmware's own limits
  EXPECT_THAT(now(1ULL << 32), ElementsAre("thermal slowdown"));
  EXPECT_THAT(now(1ULL << 36 | 1), ElementsAre("thermal slowdown"));
  EXPECT_THAT(now(1ULL << 45), ElementsAre("thermal slowdown"));
  EXPECT_THAT(now(1ULL << 46), ElementsAre("PROCHOT"));
  EXPECT_THAT(now(1ULL << 47 | 1ULL << 34), ElementsAre("thermal slowdown", "PROCHOT"));
  EXPECT_THAT(now(~0ULL), IsEmpty());  // not reported
}

TEST(AmdGpuMetrics, LaterTablesCount) {
  const std::vector<std::uint64_t> values = {1000, 1, 900, 2, 3, 4};
  const std::string attributes =
      Attributes({Attribute(2, 0, {55}), Attribute(4, 9, {1000}), Attribute(4, 10, {1}),
                  Attribute(4, 11, {900}), Attribute(4, 33, {1, 2, 3}), Attribute(6, 12, {2}),
                  Attribute(6, 13, {3}), Attribute(6, 14, {4})});
  for (const std::string& table :
       {Counters(6, kSize16, 32, values), Counters(7, kSize17, 40, values),
        Counters(8, kSize18, 40, values), attributes}) {
    const AmdThrottling throttling = ParseAmdGpuMetrics(table);
    EXPECT_EQ(throttling.cycles, 1000U);
    EXPECT_THAT(
        throttling.residency,
        ElementsAre(Pair("PROCHOT", 1U), Pair("thermal slowdown of a voltage regulator", 3U),
                    Pair("thermal slowdown of the memory", 4U),
                    Pair("thermal slowdown of the package", 2U)));
    EXPECT_THAT(throttling.now, IsEmpty());
  }
}

TEST(AmdGpuMetrics, WhatIsNotReportedOrBrokenIsUnknown) {
  const std::vector<std::uint64_t> values = {1000, 1, 900, 2, 3, 4};
  std::string other = Counters(6, kSize16, 32, values);
  other[2] = 2;  // an APU's table
  const std::string odd[] = {
      "",
      "abc",
      std::string(120, '\0'),
      std::string(4096, '\xff'),
      Table(3, 40),
      Table(4, 288),                                    // without counters
      Table(6, kSize16),                                // nothing reported
      Counters(6, 400, 32, values),                     // a draft of 1.6
      Counters(6, kSize16, 32, values).substr(0, 100),  // cut off
      other,
      Attributes({Attribute(4, 10, {1})}),                               // no cycles
      Attributes({Attribute(8, 9, {1}), Attribute(4, 9, {1000})}),       // no such type
      Attributes({Attribute(4, 9, {1, 2})}),                             // two where one is
      Attributes({Attribute(4, 9, {1000}), Bytes(6U << 20 | 1023, 8)}),  // longer than it is
  };
  for (const std::string& table : odd) {
    const AmdThrottling throttling = ParseAmdGpuMetrics(table);
    EXPECT_EQ(throttling.cycles, std::nullopt) << table.size();
    EXPECT_THAT(throttling.now, IsEmpty()) << table.size();
  }
  // A count of attributes that only the file's end stops.
  std::string endless = Attributes({Attribute(4, 9, {1000})});
  EXPECT_EQ(ParseAmdGpuMetrics(With(endless, 4, 0xffffffff, 4)).cycles, std::nullopt);
}

// --- the host ----------------------------------------------------------------------

constexpr const char* kNodes = "sys/class/kfd/kfd/topology/nodes/";
constexpr const char* kProcesses = "sys/class/kfd/kfd/proc/";

class AmdTest : public ::testing::Test {
 protected:
  AmdTest() {
    host_.Put(std::string(kNodes) + "0/gpu_id", "0\n");  // the CPU
    host_.Put(std::string(kNodes) + "0/properties", "cpu_cores_count 96\nsimd_count 0\n");
    PutGpu(1, 51110, 128, 0x6800, "9f3ab12cde45f678");
    PutGpu(10, 7001, 129, 0x9e00, "1234567890abcdef");
    std::filesystem::create_directories(host_.Path(kProcesses));
    host_.Put("sys/module/amdgpu/version", "6.10.5\n");
  }
  static std::string Device(int minor) {
    return "sys/class/drm/renderD" + std::to_string(minor) + "/device/";
  }
  void PutGpu(int node, int gpu_id, int minor, int location, const std::string& unique) {
    const std::string folder = kNodes + std::to_string(node) + "/";
    host_.Put(folder + "gpu_id", std::to_string(gpu_id) + "\n");
    host_.Put(folder + "properties",
              "cpu_cores_count 0\nsimd_count 1216\nvendor_id 4098\n"
              "location_id " +
                  std::to_string(location) + "\ndomain 0\ndrm_render_minor " +
                  std::to_string(minor) + "\n");
    host_.Put(Device(minor) + "mem_info_vram_used", "297689088\n");
    host_.Put(Device(minor) + "mem_info_vram_total", "206141652992\n");
    host_.Put(Device(minor) + "product_name", "AMD Instinct MI300X OAM\n");
    host_.Put(Device(minor) + "device", "0x74a1\n");
    host_.Put(Device(minor) + "unique_id", unique + "\n");
    host_.Put(Device(minor) + "ras/umc_err_count", "ue: 0\nce: 3\n");
    host_.Put(Device(minor) + "ras/gfx_err_count", "ue: 0\nce: 0\nde: 0\n");
  }
  // A process as the driver shows it: attached to every GPU, with the bytes of the first.
  void PutProcess(int pid, std::uint64_t bytes, const std::string& name = "python3") {
    const std::string folder = kProcesses + std::to_string(pid) + "/";
    host_.Put(folder + "pasid", "32770\n");
    host_.Put(folder + "vram_51110", std::to_string(bytes) + "\n");
    host_.Put(folder + "vram_7001", "4096\n");
    if (!name.empty()) host_.Put("proc/" + std::to_string(pid) + "/comm", name + "\n");
  }
  std::string Checked(const std::vector<std::string>& ids = {}) {
    const auto checked =
        CheckGpus(host_.reader, {ids, GpuVendor::kAmd}, clock_, [] { return false; });
    return checked ? "free" : host_.Shown(checked.error().message);
  }
  std::string Told(const std::string& name) {
    for (const Fact& fact : GpuFacts(host_.reader)) {
      if (fact.name != name) continue;
      return std::string(Name(fact.state)) + " " +
             (fact.value.empty() ? host_.Shown(fact.source) : fact.value);
    }
    return "no such fact";
  }
  std::vector<Gpu> Look() { return LookAtGpus(host_.reader, GpuSelection{{}, GpuVendor::kAmd}); }

  FakeHost host_;
  base::ManualClock clock_;
  std::string& dmesg_ = host_.prints["dmesg"];
};

TEST_F(AmdTest, FactsNameTheGpusInTheOrderOfRocm) {
  EXPECT_EQ(Told("gpus"),
            "present 0 AMD Instinct MI300X OAM GPU-9f3ab12cde45f678 196,592 MiB and 1 AMD Instinct "
            "MI300X OAM GPU-1234567890abcdef 196,592 MiB");
  EXPECT_EQ(Told("gpu_driver"), "present 6.10.5");
  EXPECT_EQ(host_.asked, 0);  // no tool is needed
}

TEST_F(AmdTest, FactsOfADriverThatComesWithTheKernelAndOfACardWithoutNames) {
  host_.Remove("sys/module/amdgpu/version");
  EXPECT_EQ(Told("gpu_driver"), "present unknown");
  host_.Put("proc/sys/kernel/osrelease", "6.8.0-45-generic\n");
  EXPECT_EQ(Told("gpu_driver"), "present of kernel 6.8.0-45-generic");
  for (const char* name : {"product_name", "unique_id", "mem_info_vram_total"}) {
    host_.Remove(Device(129) + name);
  }
  EXPECT_THAT(Told("gpus"), HasSubstr(" and 1 AMD 0x74a1 0000:9e:00.0"));
}

TEST_F(AmdTest, FactsOfAHostWithBothVendors) {
  host_.Put("proc/driver/nvidia/version", "NVRM version: 580\n");
  host_.prints["nvidia-smi --query-gpu"] =
      "0, GPU-aa, NVIDIA H20, 580.95.05, 4, 0, 0x0, 00000000:3B:00.0\n";
  EXPECT_THAT(Told("gpus"), ::testing::StartsWith("present 0 NVIDIA H20 GPU-aa, 0 AMD Instinct"));
  EXPECT_EQ(Told("gpu_driver"), "present 580.95.05 and 6.10.5");
  host_.errors["nvidia-smi"] = "nvidia-smi: gone";
  EXPECT_EQ(Told("gpus"), "unknown nvidia-smi: gone");
  EXPECT_EQ(Checked(), "free");  // those that the plan's devices mean
}

TEST_F(AmdTest, ADriverWithoutGpusSaysSo) {
  host_.Remove(std::string(kNodes) + "1");
  host_.Remove(std::string(kNodes) + "10");
  EXPECT_EQ(Told("gpus"), "absent /sys/class/kfd and /sys/class/drm lists none");
  EXPECT_EQ(Checked(), "free");
}

TEST_F(AmdTest, AProcessOnAGpuIsNamedAfterItsTimeToEnd) {
  EXPECT_EQ(Checked(), "free");
  PutProcess(4711, 83'886'080'000);
  const base::Instant start = clock_.now();
  EXPECT_EQ(Checked(),
            "the GPUs are not free: GPU 0: process 4711 python3 (80,000 MiB); end what does not "
            "belong here, or give this capture other GPUs");
  EXPECT_EQ(clock_.now() - start, std::chrono::seconds(30));
  EXPECT_EQ(Checked({"1"}), "free");
}

TEST_F(AmdTest, GpusAreChosenByIndexIdNodeOrAddress) {
  PutProcess(4711, 83'886'080'000);
  for (const char* id :
       {"0", "GPU-9f3ab12cde45f678", "9f3ab12cde45f678", "renderD128", "0000:68:00.0"}) {
    EXPECT_THAT(Checked({id}), HasSubstr("GPU 0: process 4711")) << id;
  }
  for (const char* id : {"1", "GPU-1234567890abcdef", "renderD129"}) {
    EXPECT_EQ(Checked({id}), "free") << id;
  }
  EXPECT_EQ(Checked({"renderD130"}), "there is no GPU renderD130 on this host, only 0 and 1");
}

TEST_F(AmdTest, AProcessThatIsOnlyAttachedIsNotOnTheGpuUntilItHasAQueueThere) {
  PutProcess(4711, 1 << 20);
  EXPECT_EQ(Checked(), "free");
  host_.Put(std::string(kProcesses) + "4711/queues/0/gpuid", "7001");
  EXPECT_THAT(Checked(), HasSubstr("GPU 1: process 4711 python3 (1 MiB);"));
  EXPECT_THAT(Checked(), ::testing::Not(HasSubstr("GPU 0")));
}

TEST_F(AmdTest, NamesOfProcessesAreHostileOrElsewhere) {
  PutProcess(4711, 83'886'080'000, "py\x1b[31m\xff");
  EXPECT_THAT(Checked(), HasSubstr("process 4711 py\\x1b[31m\\xff (80,000 MiB)"));
  host_.Remove("proc/4711");
  EXPECT_THAT(Checked(), HasSubstr("process 4711 (of another pid namespace) (80,000 MiB)"));
  host_.Put("proc/4711/comm", std::string(100'000, 'x'));
  EXPECT_THAT(Checked(), HasSubstr("process 4711 (of another pid namespace) (80,000 MiB)"));
}

TEST_F(AmdTest, MemoryThatNobodyHoldsIsTold) {
  host_.Put(Device(128) + "mem_info_vram_used", "41943040001\n");
  EXPECT_THAT(Checked(),
              HasSubstr("GPU 0: 40,001 MiB in use by nobody that /sys/class/kfd/kfd/proc can see"));
}

// What the preflight is for is an error where it cannot be read.
TEST_F(AmdTest, WhatCannotBeReadIsNotFree) {
  struct Row {
    const char* what;
    std::function<void()> damage;
    std::string expected;
  };
  const std::string used = "/" + Device(128) + "mem_info_vram_used";
  const Row rows[] = {
      {"no memory file", [&] { host_.Remove(used.substr(1)); },
       "neither /sys/class/drm/renderD128/device nor /sys/bus/pci/devices/0000:68:00.0 has "
       "mem_info_vram_used: how much of the GPU's memory is in use is unknown"},
      {"memory is no number", [&] { host_.Put(used.substr(1), "lots\x1b\n"); },
       used + ": \"lots\\x1b\" is not a number"},
      {"memory below nought", [&] { host_.Put(used.substr(1), "-1\n"); },
       used + ": \"-1\" is not a number"},
      {"too much memory", [&] { host_.Put(used.substr(1), "99999999999999999999\n"); },
       used + ": \"99999999999999999999\" is not a number"},
      {"a huge file", [&] { host_.Put(used.substr(1), std::string(5000, '1')); },
       used + ": is longer than the cap of 4096 bytes"},
      {"a link",
       [&] {
         host_.Remove(used.substr(1));
         std::filesystem::create_symlink("/etc/hostname", host_.Path(used.substr(1)));
       },
       used + ": is a symbolic link, which is not followed"},
      {"no processes", [&] { host_.Remove(kProcesses); },
       "/sys/class/kfd/kfd/proc: cannot list: No such file or directory"},
      {"no topology", [&] { host_.Remove("sys/class/kfd/kfd/topology"); },
       "/sys/class/kfd/kfd/topology/nodes: cannot list: No such file or directory"},
      {"a process without figures", [&] { host_.Put(std::string(kProcesses) + "7/pasid", "1\n"); },
       "/sys/class/kfd/kfd/proc/7/vram_51110: cannot open: No such file or directory"},
      {"no properties", [&] { host_.Put(std::string(kNodes) + "1/properties", ""); },
       "/sys/class/kfd/kfd/topology/nodes/1/properties: does not say drm_render_minor"},
      {"no GPU to be seen",
       [&] {
         host_.Put(std::string(kNodes) + "1/gpu_id", "\n");
         host_.Put(std::string(kNodes) + "10/gpu_id", "\n");
       },
       "/sys/class/kfd/kfd/topology/nodes/1/gpu_id: \"\" is not a number"},
  };
  for (const Row& row : rows) {
    host_.Remove("sys");
    PutGpu(1, 51110, 128, 0x6800, "9f3ab12cde45f678");
    PutGpu(10, 7001, 129, 0x9e00, "1234567890abcdef");
    std::filesystem::create_directories(host_.Path(kProcesses));
    ASSERT_EQ(Checked(), "free") << row.what;
    row.damage();
    EXPECT_EQ(Checked(), row.expected) << row.what;
    EXPECT_THAT(Told("gpus"), HasSubstr("unknown")) << row.what;
    EXPECT_THAT(Look(), IsEmpty()) << row.what;
  }
}

TEST_F(AmdTest, GpusThatAContainerMayNotSeeAreNotCounted) {
  host_.Put(std::string(kNodes) + "1/gpu_id", "");
  EXPECT_EQ(Told("gpus"), "present 0 AMD Instinct MI300X OAM GPU-1234567890abcdef 196,592 MiB");
}

TEST_F(AmdTest, APartOfACardHasTheCardsFiles) {
  PutGpu(11, 7002, 130, 0x9e00, "1234567890abcdef");
  std::filesystem::create_directories(host_.Path("sys/bus/pci/devices"));
  std::filesystem::rename(host_.Path(Device(130)), host_.Path("sys/bus/pci/devices/0000:9e:00.0"));
  EXPECT_THAT(Told("gpus"), HasSubstr("and 2 AMD Instinct MI300X OAM GPU-1234567890abcdef"));
}

TEST_F(AmdTest, ErrorsThatWereNotCorrectedAreRefused) {
  host_.Put(Device(128) + "ras/gfx_err_count", "ue: 2\nce: 0\n");
  host_.Put(Device(128) + "ras/umc_err_count", "ue: 1\nce: 3\n");
  EXPECT_EQ(Checked(),
            "GPU 0 (GPU-9f3ab12cde45f678) has 3 uncorrected ECC errors; reset it, and measure on "
            "another if they come back");
  EXPECT_EQ(Checked({"1"}), "free");
  for (const char* odd : {"Query currently inaccessible\n", "", "ue: -1\n", "ue: x\n", "ce: 7\n"}) {
    host_.Put(Device(128) + "ras/gfx_err_count", odd);
    host_.Put(Device(128) + "ras/umc_err_count", odd);
    EXPECT_EQ(Checked(), "free") << odd;  // unknown, as on cards without ECC
  }
}

TEST_F(AmdTest, FaultsOfTheKernelsLogLastUntilAReset) {
  const std::string gpu0 = "[10.1] amdgpu 0000:68:00.0: amdgpu: ";
  const std::string fatal[] = {
      "[9.0] [drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring gfx timeout, signaled seq=3, emitted "
      "seq=5",
      gpu0 + "ring comp_1.1.0 timeout, signaled seq=23, emitted seq=24",
      gpu0 + "GPU reset begin!",
      gpu0 + "GPU reset(2) failed",
      gpu0 + "GPU reset end with ret = -22",
      gpu0 + "GPU recovery disabled.",
      gpu0 + "device lost from bus!",
      gpu0 + "Fatal error during GPU init",
      "[9.1] amdgpu: The cp might be in an unrecoverable state due to an unsuccessful queues "
      "preemption",
      gpu0 + "uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!",
      gpu0 + "socket: 0 2 uncorrectable hardware errors detected in gfx block",
      gpu0 + "{1}socket: 0, die: 0, 1 new uncorrectable hardware errors detected in umc block"};
  for (const std::string& line : fatal) {
    dmesg_ = "[1.0] something before\n" + line + "\n[99.0] something after\n";
    EXPECT_EQ(Checked(),
              "the kernel's log has a fault of a GPU that only a reset ends: \"" + line + "\"");
    dmesg_ += "[100.0] amdgpu 0000:9e:00.0: amdgpu: GPU reset(1) succeeded!\n";
    if (line.find("0000:68") != line.npos) {
      EXPECT_NE(Checked(), "free") << "another GPU's reset ended " << line;
    }
    dmesg_ += "[101.0] amdgpu 0000:68:00.0: amdgpu: GPU reset(1) succeeded!\n";
    EXPECT_EQ(Checked(), "free") << line;
    dmesg_ = line + "\n[12.0] [drm] Initialized amdgpu 3.57.0 for 0000:68:00.0 on minor 1\n";
    EXPECT_EQ(Checked(), "free") << line;
  }
}

TEST_F(AmdTest, TheResetOfARingEndsItsTimeoutAndNoOtherFault) {
  const std::string gpu0 = "[10.1] amdgpu 0000:68:00.0: amdgpu: ";
  const std::string timeout = gpu0 + "ring gfx_0.0.0 timeout, signaled seq=23, emitted seq=24\n";
  const std::string reset = gpu0 + "Ring gfx_0.0.0 reset succeeded\n";
  dmesg_ = timeout + reset;
  EXPECT_EQ(Checked(), "free");
  dmesg_ = reset + timeout;
  EXPECT_NE(Checked(), "free");
  // Of an MI200 that has told its errors once this line is all that is left of them.
  const std::string errors = gpu0 + "2 uncorrectable hardware errors detected in umc block";
  dmesg_ = errors + "\n" + timeout + reset;
  EXPECT_EQ(Checked(),
            "the kernel's log has a fault of a GPU that only a reset ends: \"" + errors + "\"");
  dmesg_ += gpu0 + "GPU reset succeeded, trying to resume\n";
  EXPECT_EQ(Checked(), "free");
}

TEST_F(AmdTest, LinesOfTheKernelsLogThatAreNoFaults) {
  const std::string gpu0 = "[10.1] amdgpu 0000:68:00.0: amdgpu: ";
  const std::string benign[] = {
      gpu0 + "ring comp_1.0.1 uses VM inv eng 8 on hub 0",
      gpu0 + "ring gfx timeout, but soft recovered",
      gpu0 + "no uncorrectable hardware errors detected in umc block",
      gpu0 + "0 uncorrectable hardware errors detected in umc block",
      gpu0 + "3 correctable hardware errors detected in umc block",
      gpu0 + "[gfxhub0] no-retry page fault (src_id:0 ring:24 vmid:8 pasid:32774)",
      gpu0 + "MEM ECC is active.",
      "[1.0] nvme nvme0: GPU reset(2) failed",
      "[1.0] amdgpu 0000:c1:00.0: amdgpu: GPU reset(2) failed"};  // no GPU of ours
  for (const std::string& line : benign) {
    dmesg_ = line + "\n";
    EXPECT_EQ(Checked(), "free") << line;
  }
}

TEST_F(AmdTest, SlowdownsOfMi200AreThoseOfTheMoment) {
  const auto put = [&](std::uint64_t status) {
    host_.Put(Device(128) + "gpu_metrics", With(Table(3, kSize13), 112, status, 8));
  };
  put(0xff);
  const auto before = Look();
  EXPECT_EQ(Slowdowns(before, before), "");
  put(1ULL << 36);
  EXPECT_EQ(Slowdowns(before, Look()), "GPU 0 (GPU-9f3ab12cde45f678): thermal slowdown after it");
}

TEST_F(AmdTest, SlowdownsOfMi300AreThoseOfTheWholeRound) {
  const auto put = [&](const std::vector<std::uint64_t>& values) {
    host_.Put(Device(129) + "gpu_metrics", Counters(6, kSize16, 32, values));
    return Look();
  };
  const auto before = put({1'000, 50, 400, 10, 0, 0});
  EXPECT_EQ(Slowdowns(before, put({2'000, 50, 1'400, 10, 0, 0})), "");  // the power cap alone
  EXPECT_EQ(Slowdowns(before, put({2'000, 59, 400, 10, 9, 0})), "");    // less than 1 %
  EXPECT_EQ(Slowdowns(before, put({2'000, 170, 400, 10, 0, 330})),
            "GPU 1 (GPU-1234567890abcdef): PROCHOT in 12 % of it and thermal slowdown of the "
            "memory in 33 % of it");
  // Reset in between, or standing still: nothing is known.
  EXPECT_EQ(Slowdowns(before, put({500, 400, 0, 400, 0, 0})), "");
  EXPECT_EQ(Slowdowns(before, put({1'000, 400, 0, 400, 0, 0})), "");
  EXPECT_EQ(Slowdowns({}, put({2'000, 400, 0, 400, 0, 0})), "");
}

}  // namespace
}  // namespace upgrade_gate::server
