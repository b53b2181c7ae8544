// Did the client hurt the measurement? Pure; the one place of the rule.
//
// A round is invalid only where its numbers are not of the server alone: the
// arrivals of texts cannot be told apart, requests were sent late against their
// schedule, or the asked load was never put on the server. Everything else that
// a client can say of itself is a note.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "framework/evidence/records.h"

namespace upgrade_gate::evidence {

enum class ClientFault { kClientBound, kLoadNotDelivered };
std::string_view Name(ClientFault fault);

struct ClientFinding {
  ClientFault fault = ClientFault::kClientBound;
  std::string sentence;  // the measured value, the limit, what to do
};

// Empty: valid. `ttft_ms`: the median of the round's successful requests.
std::vector<ClientFinding> FindClientFaults(const ClientHealth& health,
                                            std::optional<double> ttft_ms);
// What is worth knowing and makes nothing invalid, one clause each.
std::vector<std::string> ClientNotes(const ClientHealth& health);

}  // namespace upgrade_gate::evidence
