#include "framework/base/shown_address.h"

#include <gtest/gtest.h>

#include <utility>

namespace upgrade_gate::base {
namespace {

TEST(WithoutLoginTest, ShowsNothingBeforeTheLastAt) {
  const std::pair<const char*, const char*> cases[] = {
      {"https://build-7:8080/run/lease.json?part=1", "https://build-7:8080/run/lease.json?part=1"},
      {"https://user:token@build-7/lease.json", "https://…@build-7/lease.json"},
      {"ssh://me@build-7", "ssh://…@build-7"},
      {"ssh://me:se/cr//e@t@build-7", "ssh://…@build-7"},
      {"me:secret@build-7", "…@build-7"},
      {"me:se://cret@build-7", "…@build-7"},
      {"", ""},
  };
  for (const auto& [address, shown] : cases) EXPECT_EQ(WithoutLogin(address), shown);
}

}  // namespace
}  // namespace upgrade_gate::base
