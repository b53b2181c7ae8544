// Runs a fuzz target over the files of its corpus, without a fuzzer: every
// compiler's test run holds what was found once.
#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <string>

#include "framework/base/file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

int main(int argc, char** argv) {
  using namespace upgrade_gate;
  if (argc != 2) {
    fmt::print(stderr, "usage: {} FOLDER\n", argv[0]);
    return 2;
  }
  const std::filesystem::path folder = argv[1];
  const auto entries = base::ListTree(folder);
  int count = 0;
  for (const base::Entry& entry : entries.value()) {
    if (entry.kind != base::Entry::Kind::kFile) continue;
    const auto bytes = base::ReadFile(folder / entry.path, 1 << 20);
    fmt::print("{}\n", entry.path);
    std::fflush(stdout);  // the name of the input that ends the process
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.value().data()),
                           bytes.value().size());
    ++count;
  }
  fmt::print("{} inputs\n", count);
  return count > 0 ? 0 : 1;
}
