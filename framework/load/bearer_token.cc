// BearerTokenFromEnvironment and BearerTokenFromFile.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "framework/base/file.h"
#include "framework/base/text.h"
#include "framework/load/curl_transport.h"

namespace upgrade_gate::load {
namespace {

constexpr std::uint64_t kMostBytes = 16 << 10;

base::Result<std::string> TokenOf(std::string_view text, const std::string& place) {
  constexpr std::string_view kBlank = " \t\r\n";
  text.remove_prefix(std::min(text.find_first_not_of(kBlank), text.size()));
  text = text.substr(0, text.find_last_not_of(kBlank) + 1);
  if (text.empty()) return base::UsageError(place + ": holds no token");
  if (std::any_of(text.begin(), text.end(), [](char c) { return c <= ' ' || c > '~'; })) {
    return base::UsageError(place +
                            ": holds something other than one token of visible ASCII characters");
  }
  return std::string(text);
}

}  // namespace

base::Result<std::string> BearerTokenFromEnvironment(const std::string& variable) {
  const std::string place = "environment variable " + base::Visible(variable);
  // Read once, before any thread is started.
  const char* const value = std::getenv(variable.c_str());  // NOLINT(concurrency-mt-unsafe)
  if (value == nullptr) return base::UsageError(place + ": is not set");
  return TokenOf(value, place);
}

base::Result<std::string> BearerTokenFromFile(const std::string& path) {
  UG_ASSIGN(const std::string text, base::ReadFile(path, kMostBytes));
  return TokenOf(text, base::Visible(path));
}

}  // namespace upgrade_gate::load
