// The address of a server, as plans give it and commands print it.
#pragma once

#include <string>
#include <string_view>

namespace upgrade_gate::plan {

// What is wrong with "http://HOST[:PORT][/PATH]" (https likewise); empty: nothing.
// Names, passwords, queries and a trailing slash are refused, and so is everything
// that a log or libcurl would read otherwise.
std::string ProblemOfUrl(std::string_view url);

// "gateway.example" of "https://gateway.example:8443/team-a", "::1" of
// "http://[::1]:8000".
std::string HostOf(std::string_view url);
// 127.0.0.1, ::1 and localhost: this machine, whichever it is.
bool IsLoopback(std::string_view host);

}  // namespace upgrade_gate::plan
