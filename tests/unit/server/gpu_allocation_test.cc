#include "framework/server/gpu_allocation.h"

#include <gtest/gtest.h>

#include <map>

namespace upgrade_gate::server {
namespace {

using Variables = std::map<std::string, std::string>;

base::Result<std::vector<std::string>> Allocated(const Variables& variables) {
  return AllocatedGpus([&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

// Names without their common beginning.
Variables With(const std::map<std::string, std::string>& endings) {
  Variables variables;
  for (const auto& [ending, value] : endings) variables["CTEST_RESOURCE_GROUP_" + ending] = value;
  return variables;
}

struct Good {
  std::map<std::string, std::string> variables;
  std::vector<std::string> gpus;
};

TEST(AllocatedGpusTest, AreTheUnionOverAllGroups) {
  const Good table[] = {
      {{}, {}},
      {{{"COUNT", "1"}, {"0", "gpus"}, {"0_GPUS", "id:0,slots:1"}}, {"0"}},
      {{{"COUNT", "1"}, {"0", "gpus"}, {"0_GPUS", "id:3,slots:100;id:0,slots:1"}}, {"0", "3"}},
      {{{"COUNT", "2"},
        {"0", "gpus"},
        {"0_GPUS", "id:10,slots:1"},
        {"1", "gpus"},
        {"1_GPUS", "id:9,slots:1"}},
       {"9", "10"}},
      {{{"COUNT", "2"},
        {"0", "gpus"},
        {"0_GPUS", "id:1,slots:1;id:1,slots:2"},
        {"1", "gpus"},
        {"1_GPUS", "id:1,slots:1"}},
       {"1"}},
      // Other types are other people's; a group may ask for nothing.
      {{{"COUNT", "2"},
        {"0", ""},
        {"1", "licenses,gpus"},
        {"1_LICENSES", "whatever"},
        {"1_GPUS", "id:9999,slots:1"}},
       {"9999"}},
      {{{"COUNT", "1"}, {"0", "licenses"}, {"0_LICENSES", "id:a,slots:1"}}, {}},
  };
  for (const Good& good : table) {
    const auto gpus = Allocated(With(good.variables));
    ASSERT_TRUE(gpus) << gpus.error().message;
    EXPECT_EQ(*gpus, good.gpus);
  }
}

struct Bad {
  std::map<std::string, std::string> variables;
  std::string message;  // between the common beginning and end
};

TEST(AllocatedGpusTest, WhatCTestWouldNotWriteIsRefusedByName) {
  const std::string no_entry = " is not \"id:N,slots:N\" with the index of a GPU as id";
  std::vector<Bad> table = {
      {{{"0", "gpus"}}, "COUNT: is not set, though CTEST_RESOURCE_GROUP_0 is"},
      {{{"COUNT", "2"}, {"0", ""}}, "1: is not set, though the allocation speaks of it"},
      {{{"COUNT", "1"}, {"0", "gpus"}}, "0_GPUS: is not set, though the allocation speaks of it"},
      {{{"COUNT", "1"}, {"0", "gpus,"}, {"0_GPUS", "id:0,slots:1"}},
       "0: \"gpus,\" is not a list of resource types"},
      {{{"COUNT", "1"}, {"0", "GPUS"}}, "0: \"GPUS\" is not a list of resource types"},
      {{{"COUNT", "1"}, {"0", "gpu"}},
       "0: no GPU is allocated by the type \"gpu\" (did you mean \"gpus\"?)"},
      {{{"COUNT", "1"}, {"0", "gpus"}, {"0_GPUS", std::string(65'537, '1')}},
       "0_GPUS: is longer than 65536 bytes"},
  };
  for (const char* count :
       {"", "0", "-1", "+1", "01", " 1", "1 ", "1025", "99999999999999999999", "one"}) {
    table.push_back({{{"COUNT", count}, {"0", ""}},
                     std::string("COUNT: \"") + count + "\" is not a number from 1 to 1024"});
  }
  for (const char* entry : {"", "0", "id:0", "id:0,slots:", "id:0,slots:0", "id:0,slots:-1",
                            "id:,slots:1", "id:card0,slots:1", "id:00,slots:1", "id:-1,slots:1",
                            "id:10000,slots:1", "id:0 ,slots:1", "id:0,slots:1,", "id:0,slots:1 ",
                            "ID:0,slots:1", "slots:1,id:0", "id:0,slots:9999999999"}) {
    const std::string shown = std::string("0_GPUS: \"") + entry + "\"" + no_entry;
    for (const std::string& list : {std::string(entry), "id:1,slots:1;" + std::string(entry),
                                    std::string(entry) + ";id:1,slots:1"}) {
      table.push_back({{{"COUNT", "1"}, {"0", "gpus"}, {"0_GPUS", list}}, shown});
    }
  }
  table.push_back({{{"COUNT", "1"}, {"0", "gpus"}, {"0_GPUS", "id:\x1b[2J,slots:1"}},
                   "0_GPUS: \"id:\\x1b[2J,slots:1\"" + no_entry});
  for (const Bad& bad : table) {
    const auto gpus = Allocated(With(bad.variables));
    ASSERT_FALSE(gpus) << bad.message;
    EXPECT_EQ(gpus.error().kind, base::ErrorKind::kUsage);
    EXPECT_EQ(gpus.error().message,
              "CTEST_RESOURCE_GROUP_" + bad.message +
                  "; CTest sets it from RESOURCE_GROUPS and the resource specification file");
  }
}

plan::ResolvedPlan PlanWith(const std::string& gpus) {
  plan::ResolvedPlan plan;
  plan.server.gpus = gpus;
  plan.arms.resize(1);
  plan.arms[0].name = "candidate";
  return plan;
}

TEST(CheckAllocationTest, APlanThatNamesTheSameGpusOrNoneIsNarrowed) {
  for (const char* gpus : {"", "all", "0,2", "2,0"}) {
    EXPECT_TRUE(CheckAllocation(PlanWith(gpus), {"0", "2"})) << gpus;
  }
  EXPECT_TRUE(CheckAllocation(PlanWith("0,1"), {})) << "nothing was allocated";
}

TEST(CheckAllocationTest, APlanThatNamesOthersIsRefusedWithBoth) {
  for (const char* gpus : {"0", "0,1", "0,1,2", "all0"}) {
    const base::Status checked = CheckAllocation(PlanWith(gpus), {"0", "2"});
    ASSERT_FALSE(checked) << gpus;
    EXPECT_EQ(checked.error().kind, base::ErrorKind::kUsage);
    EXPECT_EQ(
        checked.error().message,
        std::string("the plan's server has gpus ") + gpus +
            ", but CTest allocated 0,2; write gpus: all, or change the resource specification "
            "file");
  }
}

TEST(CheckAllocationTest, AnArmThatSetsTheVariablesItselfIsRefused) {
  for (const char* variable : {"CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"}) {
    plan::ResolvedPlan plan = PlanWith("");
    plan.arms[0].env[variable].literal = "0";
    EXPECT_TRUE(CheckAllocation(plan, {}));
    const base::Status checked = CheckAllocation(plan, {"0", "2"});
    ASSERT_FALSE(checked);
    EXPECT_EQ(checked.error().kind, base::ErrorKind::kUsage);
    EXPECT_EQ(checked.error().message,
              std::string("arm \"candidate\": env ") + variable +
                  " says which GPUs, and CTest allocated 0,2; remove it from the plan, or "
                  "RESOURCE_GROUPS from the test");
  }
}

}  // namespace
}  // namespace upgrade_gate::server
