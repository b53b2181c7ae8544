// The tool calls of one response, put together from their pieces. Private.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace upgrade_gate::load {

// What one event says of one call.
struct ToolCallPiece {
  std::int64_t choice = 0, index = 0;
  std::string_view id, name, arguments;
};

class ToolCalls {
 public:
  ToolCalls(std::size_t most_calls, std::size_t most_bytes)
      : most_calls_(most_calls), most_bytes_(most_bytes) {}

  // Empty, or which cap was exceeded: then nothing was added.
  std::string Add(const ToolCallPiece& piece);
  // Looks at what the pieces came to: names, ids, arguments that are a JSON object.
  void Finish();
  void Clear();

  // The first thing that was wrong with any of them; empty: nothing.
  const std::string& problem() const { return problem_; }
  void Problem(std::string problem);
  int count() const { return static_cast<int>(calls_.size()); }
  bool any_without_arguments() const { return any_without_arguments_; }  // after Finish

 private:
  struct Call {
    std::int64_t choice = 0, index = 0;
    std::string id, name, arguments;
  };
  void Take(const Call& call, std::string& have, std::string_view got, const char* what);

  std::size_t most_calls_, most_bytes_;
  std::vector<Call> calls_;
  std::size_t bytes_ = 0;
  std::string problem_;
  bool any_without_arguments_ = false;
};

}  // namespace upgrade_gate::load
