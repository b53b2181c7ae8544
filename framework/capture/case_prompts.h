// The prompts of one case, the same in every boot, and their file in the evidence
// (prompts/<case>.jsonl.zst), for replays. Private to this folder.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "framework/base/result.h"
#include "framework/capture/capture.h"
#include "framework/load/completion_request.h"
#include "framework/load/tokenizer.h"
#include "framework/plan/plan_file.h"

namespace upgrade_gate::capture {

class CasePrompts {
 public:
  // Text that a server's tokenizer has measured is made in the first boot that
  // needs it and read back in all others: byte for byte the same, whatever their
  // tokenizers would say. All else is made anew each time.
  static base::Result<CasePrompts> Open(const plan::ResolvedPlan& plan,
                                        const evidence::Layout& layout, const PromptSource& source,
                                        const plan::Case& of, load::Tokenizer& tokenizer);

  base::Result<std::vector<load::Prompt>> Of(evidence::Phase phase, int round, int count) const;

 private:
  CasePrompts(const PromptSource& source, const plan::Case& of, load::Tokenizer& tokenizer)
      : source_(source), case_(of), tokenizer_(tokenizer) {}
  base::Status Read(const evidence::Layout& layout);

  const PromptSource& source_;
  const plan::Case& case_;
  load::Tokenizer& tokenizer_;
  std::map<std::pair<evidence::Phase, int>, std::vector<load::Prompt>> kept_;
};

}  // namespace upgrade_gate::capture
