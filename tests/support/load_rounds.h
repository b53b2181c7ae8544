// Rounds of a load test by hand: two of four requests, one of them failed.
#pragma once

#include <chrono>
#include <vector>

#include "framework/evidence/load_numbers.h"

namespace upgrade_gate::test_support {

// Accepted: text from `ttft` after its schedule on, then one token every `gap`.
inline evidence::RequestRecord AnsweredRequest(int index, std::chrono::milliseconds ttft,
                                               std::chrono::milliseconds gap, int tokens) {
  const base::Nanoseconds scheduled = std::chrono::milliseconds(50) * index;
  evidence::RequestRecord request;
  request.index = index;
  request.times.scheduled = scheduled;
  request.times.sent = scheduled + std::chrono::milliseconds(1);
  request.times.first_byte = request.times.first_token = request.times.first_text =
      scheduled + ttft;
  request.times.last_token = scheduled + ttft + gap * (tokens - 1);
  request.times.closed = *request.times.last_token + std::chrono::milliseconds(1);
  request.http_status = 200;
  request.usage = {100, tokens};
  request.chunks = tokens;
  return request;
}

inline evidence::RequestRecord FailedRequest(int index, evidence::FailureKind kind,
                                             const std::string& detail) {
  evidence::RequestRecord request;
  request.index = index;
  request.times.scheduled = request.times.sent = std::chrono::milliseconds(50) * index;
  request.failure = {kind, detail};
  return request;
}

inline std::vector<evidence::LoadRound> HandRounds() {
  using std::chrono::milliseconds;
  std::vector<evidence::LoadRound> rounds(2);
  for (int number : {1, 2}) {
    evidence::LoadRound& round = rounds[static_cast<std::size_t>(number - 1)];
    round.record.round = number;
    round.record.planned = 4;
    round.record.duration = std::chrono::seconds(number);
    round.record.client.emplace();
    round.record.client->asked = 2;
    round.record.client->delivered = 2;
    round.record.client->lag_p99 = std::chrono::microseconds(40 * number);
    round.record.client->cpu_share = 0.02 * number;
    for (int i = 0; i < 4; ++i) {
      if (number == 2 && i == 2) {
        round.record.requests.push_back(
            FailedRequest(i, evidence::FailureKind::kEmptyOutput, "8 tokens by usage"));
        round.gaps_ms.emplace_back();
        continue;
      }
      const milliseconds gap(10 + i);
      round.record.requests.push_back(AnsweredRequest(i, milliseconds(100 * number + i), gap, 4));
      round.gaps_ms.push_back({static_cast<float>(gap.count()), static_cast<float>(gap.count()),
                               static_cast<float>(gap.count())});
    }
  }
  return rounds;
}

}  // namespace upgrade_gate::test_support
