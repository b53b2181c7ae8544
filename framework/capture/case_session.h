// The cases of one boot, measured one after another on its server.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "framework/base/result.h"
#include "framework/capture/boot_request.h"
#include "framework/capture/case_prompts.h"
#include "framework/capture/watched_server.h"
#include "framework/evidence/records.h"
#include "framework/evidence/store.h"
#include "framework/load/driver.h"
#include "framework/load/transport.h"
#include "framework/server/gpus.h"

namespace upgrade_gate::capture {

class CaseSession {
 public:
  // Everything must outlive the session; `boot` is told how it ends, if early.
  CaseSession(const BootRequest& request, const WatchedServer& watched,
              const std::vector<std::unique_ptr<load::Transport>>& transports,
              evidence::BootRecord& boot);

  // Warm-up and all rounds. False: the boot has ended early, its record says why. An
  // error: nothing more can be measured now, what is whole is written, and the same
  // call resumes.
  base::Result<bool> Measure(const plan::Case& of);

 private:
  enum class Next { kRound, kCase, kNothing };  // kNothing: the boot has ended early
  // A round's load, and what was seen of its host meanwhile.
  struct Round {
    int number = 0;
    std::string started_at;
    load::LoadResult load;
    std::string throttled;
  };

  base::Result<Next> WarmUp(const plan::Case& of, const CasePrompts& prompts);
  base::Result<Next> MeasureRound(const plan::Case& of, const CasePrompts& prompts, int number,
                                  int& failures_in_a_row);
  base::Result<Round> RunRound(const plan::Case& of, const CasePrompts& prompts, int number,
                               int failures_in_a_row);
  // As WatchedServer::Lost, with the last words of one that has ended.
  std::optional<Loss> LookForLoss();
  // False: another server than at the start of the boot answers, whose rounds are not kept.
  bool IsSameServer(const Round& round, const std::string& case_name, std::optional<Loss>& lost);
  base::Status Keep(const plan::Case& of, Round round);
  // How the case goes on, or the boot ends, after a load. `lost`: as seen after it.
  base::Result<Next> After(load::StopSignal stopped, std::optional<Loss> lost,
                           const std::string& case_name, int round);
  base::Status Report(const evidence::RoundRecord& round);

  load::Load LoadOf(const plan::Case& of) const;
  load::StopCheck StopCheckFor() const;
  std::vector<server::Gpu> LookAtGpus() const;  // those of the boot
  std::span<load::Transport* const> TransportsFor(int streams) const;

  const BootRequest& request_;
  const WatchedServer& watched_;
  server::RunningServer& server_;
  std::vector<load::Transport*> transports_;
  evidence::BootRecord& boot_;
  // Of the case, until its first round is kept.
  std::vector<evidence::RequestRecord> warmup_;
  std::vector<evidence::RawStream> warmup_streams_;
};

}  // namespace upgrade_gate::capture
