// Caps on everything that is read from a run's folder: evidence may come from
// somebody else. The writers keep to the same caps, so that nothing is written
// that cannot be read back.
#pragma once

#include <cstddef>
#include <cstdint>

namespace upgrade_gate::evidence {

inline constexpr std::uint64_t kMaxPlanYamlBytes = 1ULL << 20;
// capture.json, plan.resolved.json, boot.json, round.json
inline constexpr std::uint64_t kMaxJsonBytes = 8ULL << 20;
inline constexpr std::uint64_t kMaxSummaryBytes = 64ULL << 20;
inline constexpr std::uint64_t kMaxSumsBytes = 64ULL << 20;

// requests.jsonl.zst and warmup.jsonl.zst: the file, what it holds, one line of it.
inline constexpr std::uint64_t kMaxRecordsFileBytes = 64ULL << 20;
inline constexpr std::uint64_t kMaxRecordsBytes = 256ULL << 20;
inline constexpr std::size_t kMaxRecordLineBytes = 64ULL << 10;
inline constexpr std::int64_t kMaxRequests = 250'000;  // of one phase of one round

// Of one count in a summary; the sum over all failure kinds still fits an int.
inline constexpr std::int64_t kMaxCount = 100'000'000;
inline constexpr std::int64_t kMaxNumber = 999'999;           // of a boot, a round or a step
inline constexpr std::int64_t kMaxTokens = 1'000'000'000;     // of one request
inline constexpr std::int64_t kMaxBytes = 1'000'000'000'000;  // of one response
inline constexpr std::int64_t kMaxNanoseconds = 31'536'000LL * 1'000'000'000;  // one year

inline constexpr std::size_t kMaxBoots = 10'000;
inline constexpr std::size_t kMaxIdentityValues = 1'000;  // of a server
inline constexpr std::size_t kMaxFacts = 1'000;           // of a server or host
inline constexpr std::size_t kMaxCases = 10'000;
inline constexpr std::size_t kMaxGpus = 10'000;        // of one boot
inline constexpr std::size_t kMaxRounds = 100'000;     // of a run, superseded ones too
inline constexpr std::size_t kMaxEntries = 1'000'000;  // files and folders below a sealed one
inline constexpr int kMaxFolderDepth = 16;
inline constexpr std::size_t kMaxFindings = 1'000;  // more are counted, not listed

}  // namespace upgrade_gate::evidence
