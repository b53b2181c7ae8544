// What a server says it is, against the plan and against what it said before.
#pragma once

#include <map>
#include <string>

#include "framework/evidence/records.h"

namespace upgrade_gate::capture {

using IdentityValues = std::map<std::string, std::string>;

// Empty: everything declared was found as declared. Otherwise each difference with
// both values, "image: the server says "a", the plan declares "b"".
std::string DiffersFromPlan(const IdentityValues& declared, const IdentityValues& found);

// Empty: the same server. Otherwise each difference with both values.
std::string ChangedSince(const evidence::ServerIdentity& before,
                         const evidence::ServerIdentity& now);

}  // namespace upgrade_gate::capture
