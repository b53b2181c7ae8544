#include "framework/evidence/consistency.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/base/text.h"
#include "framework/evidence/limits.h"

namespace upgrade_gate::evidence {
namespace {

using Time = std::optional<base::Nanoseconds>;

base::Status Ascending(const std::vector<RequestRecord>& requests, std::string_view what) {
  int last = -1;
  for (const RequestRecord& request : requests) {
    if (request.index < 0 || request.index >= kMaxRequests) {
      return base::EvidenceError(fmt::format("{} {}: is not an index", what, request.index));
    }
    if (request.index <= last) {
      return base::EvidenceError(
          fmt::format("{} {}: comes after {} {}; indices are unique and ascending", what,
                      request.index, what, last));
    }
    last = request.index;
  }
  return {};
}

base::Status CheckTimes(const RequestTimes& times) {
  const std::pair<std::string_view, Time> order[] = {{"scheduled", times.scheduled},
                                                     {"sent", times.sent},
                                                     {"first_byte", times.first_byte},
                                                     {"first_token", times.first_token},
                                                     {"first_text", times.first_text},
                                                     {"last_token", times.last_token},
                                                     {"done", times.done},
                                                     {"closed", times.closed}};
  std::pair<std::string_view, base::Nanoseconds> last{"the round's start", 0};
  for (const auto& [name, time] : order) {
    if (!time) continue;
    if (*time < last.second) {
      return base::EvidenceError(
          fmt::format("{} is {} ns before {}", name, (last.second - *time).count(), last.first));
    }
    last = {name, *time};
  }
  return {};
}

base::Status CheckRequest(const RequestRecord& request) {
  const auto wrong = [](std::string_view what) { return base::EvidenceError(std::string(what)); };
  if (!base::IsSha256Hex(request.body_sha256)) return wrong("the body's digest is not a SHA-256");
  if (!base::IsSha256Hex(request.prompt_sha256)) {
    return wrong("the prompt's digest is not a SHA-256");
  }
  if (!request.accepted()) return {};
  const RequestTimes& times = request.times;
  if (request.http_status != 200) return wrong("accepted without HTTP status 200");
  if (!request.usage) return wrong("accepted without usage");
  if (!times.scheduled) return wrong("accepted without the time of its schedule");
  if (request.streamed && !times.done) {
    return wrong("accepted without the time of the stream's terminator");
  }
  const bool text = request.text_bytes > 0;
  const bool output = text || request.reasoning_bytes > 0 || request.tool_calls > 0;
  if (!output && !request.empty_allowed) return wrong("accepted without text or other output");
  if (times.last_token.has_value() != output ||
      times.first_token.has_value() != (output && request.streamed) ||
      times.first_text.has_value() != (text && request.streamed)) {
    return wrong("accepted, but the times of its first and last output are not those of what came");
  }
  return CheckTimes(times);
}

base::Status CheckRequests(const std::vector<RequestRecord>& requests, std::string_view what) {
  if (static_cast<std::int64_t>(requests.size()) > kMaxRequests) {
    return base::EvidenceError(
        fmt::format("{} requests; the cap is {}", requests.size(), kMaxRequests));
  }
  UG_TRY(Ascending(requests, what));
  for (const RequestRecord& request : requests) {
    if (auto checked = CheckRequest(request); !checked) {
      return tl::unexpected(base::At(fmt::format("{} {}", what, request.index), checked.error()));
    }
  }
  return {};
}

base::Status CheckDuration(const RoundRecord& round) {
  std::optional<base::Nanoseconds> first, last;
  for (const RequestRecord& request : round.requests) {
    if (!request.accepted()) continue;
    first = std::min(first.value_or(*request.times.scheduled), *request.times.scheduled);
    const base::Nanoseconds end = request.times.last_token.value_or(*request.times.scheduled);
    last = std::max(last.value_or(end), end);
  }
  if (!first) return {};
  if (round.duration <= base::Nanoseconds::zero() || round.duration < *last - *first) {
    return base::EvidenceError(
        fmt::format("the round's duration is {} ns, but its accepted requests span {} ns",
                    round.duration.count(), (*last - *first).count()));
  }
  return {};
}

}  // namespace

base::Status CheckIndices(const RoundRecord& round) {
  UG_TRY(Ascending(round.requests, "request"));
  UG_TRY(Ascending(round.warmup, "warm-up request"));
  if (!round.requests.empty() && round.requests.back().index >= round.planned) {
    return base::EvidenceError(fmt::format("request {}: only {} were planned, from 0",
                                           round.requests.back().index, round.planned));
  }
  return {};
}

base::Status CheckRound(const RoundRecord& round) {
  if (!base::IsPlainName(round.case_name) || !base::IsPlainName(round.arm)) {
    return base::EvidenceError(fmt::format("case \"{}\", arm \"{}\": not plain names",
                                           base::Visible(round.case_name),
                                           base::Visible(round.arm)));
  }
  const std::pair<std::string_view, int> numbers[] = {
      {"boot", round.boot}, {"step", round.step}, {"round", round.round}};
  for (const auto& [name, value] : numbers) {
    if (value < 1 || value > kMaxNumber) {
      return base::EvidenceError(fmt::format("{} {}: numbers start at 1", name, value));
    }
  }
  if (round.planned < 1 || round.planned > kMaxRequests) {
    return base::EvidenceError(fmt::format("{} requests planned, which is not between 1 and {}",
                                           round.planned, kMaxRequests));
  }
  if (round.concurrency < 0) return base::EvidenceError("the concurrency is below 0");
  if (round.duration < base::Nanoseconds::zero()) {
    return base::EvidenceError("the duration is below 0");
  }
  if (round.round != 1 && !round.warmup.empty()) {
    return base::EvidenceError("holds a warm-up, which only round 1 has");
  }
  UG_TRY(CheckRequests(round.requests, "request"));
  UG_TRY(CheckRequests(round.warmup, "warm-up request"));
  UG_TRY(CheckIndices(round));
  const auto sent = static_cast<int>(round.requests.size());
  if (round.stopped == StopReason::kNone && sent != round.planned) {
    return base::EvidenceError(
        fmt::format("{} of {} planned requests were not sent, but nothing stopped the round",
                    round.planned - sent, round.planned));
  }
  return CheckDuration(round);
}

}  // namespace upgrade_gate::evidence
