// A whole text against a file that a person has read.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace upgrade_gate::test_support {

// True where `name` in the folder UPGRADE_GATE_GOLDEN holds exactly `actual`;
// otherwise writes `actual` to a temporary file and says where.
inline void ExpectGolden(const std::string& name, const std::string& actual) {
  const std::filesystem::path path = std::filesystem::path(UPGRADE_GATE_GOLDEN) / name;
  std::ifstream file(path, std::ios::binary);
  std::ostringstream expected;
  expected << file.rdbuf();
  if (file && expected.str() == actual) return;
  const std::string aside = ::testing::TempDir() + "actual-" + name;
  std::ofstream(aside, std::ios::binary) << actual;
  ADD_FAILURE() << path << " differs from the output; compare it with " << aside;
}

}  // namespace upgrade_gate::test_support
