#include "framework/load/event_json.h"

#include <cstring>
#include <vector>

#include "framework/base/json.h"
#include "framework/base/result.h"
#include "framework/load/response_reader.h"

namespace upgrade_gate::load {
namespace {

namespace dom = simdjson::dom;

class JsonReader {
 public:
  JsonReader() {
    // The depth stays when the parser grows.
    UG_CHECK(parser_.allocate(kFirstCapacity, kMaxJsonDepth) == simdjson::SUCCESS);
  }

  simdjson::error_code Parse(std::string_view data, dom::element& root) {
    const simdjson::error_code error = ParsePadded(data, root);
    if (error != simdjson::NUMBER_ERROR) return error;
    // simdjson refuses integers over 64 bits, which are JSON all the same. Our
    // strict reader makes doubles of them, so that only the value is judged.
    const auto value = base::ParseJson(data);
    return value ? ParsePadded(base::WriteJsonLine(*value), root) : error;
  }

 private:
  static constexpr std::size_t kFirstCapacity = 4096;

  simdjson::error_code ParsePadded(std::string_view data, dom::element& root) {
    if (padded_.size() < data.size() + simdjson::SIMDJSON_PADDING) {
      padded_.resize(2 * data.size() + simdjson::SIMDJSON_PADDING);
    }
    std::memcpy(padded_.data(), data.data(), data.size());
    return parser_.parse(padded_.data(), data.size(), false).get(root);
  }

  dom::parser parser_;
  std::vector<char> padded_;
};

}  // namespace

simdjson::error_code ParseEvent(std::string_view data, dom::element& root) {
  thread_local JsonReader reader;
  return reader.Parse(data, root);
}

}  // namespace upgrade_gate::load
