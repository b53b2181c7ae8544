#include "framework/plan/server_url.h"

#include <algorithm>

namespace upgrade_gate::plan {
namespace {

constexpr std::size_t kMostBytes = 1000;

bool IsUrlCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("-._~:/[]%+").find(c) != std::string_view::npos;
}

// "HOST:PORT"
std::string_view AuthorityOf(std::string_view url) {
  const std::size_t slashes = url.find("//");
  if (slashes == std::string_view::npos) return {};
  url.remove_prefix(slashes + 2);
  return url.substr(0, url.find('/'));
}

}  // namespace

std::string ProblemOfUrl(std::string_view url) {
  if (!url.starts_with("http://") && !url.starts_with("https://")) {
    return "it is no address: write http://HOST:PORT or https://HOST";
  }
  if (url.size() > kMostBytes) return "it is too long for an address";
  if (url.find_first_of("?#") != url.npos) return "leave out the query and the fragment";
  if (AuthorityOf(url).find('@') != std::string_view::npos) {
    return "it must not hold a name or a password";
  }
  if (!std::all_of(url.begin(), url.end(), IsUrlCharacter)) {
    return "it has a character that an address cannot have";
  }
  if (HostOf(url).empty()) return "it names no host";
  if (url.ends_with('/')) return "leave out the \"/\" at its end";
  if (url.ends_with("/v1")) return "leave out the /v1 at its end";
  return "";
}

std::string HostOf(std::string_view url) {
  const std::string_view authority = AuthorityOf(url);
  if (authority.starts_with('[')) return std::string(authority.substr(1, authority.find(']') - 1));
  return std::string(authority.substr(0, authority.find(':')));
}

bool IsLoopback(std::string_view host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

}  // namespace upgrade_gate::plan
