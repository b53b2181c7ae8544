// The tokenizer of a running server, by its /tokenize and /detokenize.
#pragma once

#include <functional>
#include <string>

#include "framework/base/clock.h"
#include "framework/load/tokenizer.h"
#include "framework/load/transport.h"

namespace upgrade_gate::probes {

// The transport and the clock must outlive it. `interrupted` is asked while a
// request waits; true ends it with an error.
class ServerTokenizer final : public load::Tokenizer {
 public:
  ServerTokenizer(load::Transport& transport, base::Clock& clock, std::string url,
                  std::string served_name, std::function<bool()> interrupted)
      : transport_(transport),
        clock_(clock),
        url_(std::move(url)),
        served_name_(std::move(served_name)),
        interrupted_(std::move(interrupted)) {}

  base::Result<load::TokenIds> Encode(const std::string& text,
                                      load::SpecialTokens special) override;
  base::Result<std::string> Decode(const load::TokenIds& ids) override;

 private:
  base::Result<std::string> Ask(const std::string& path, const std::string& body);

  load::Transport& transport_;
  base::Clock& clock_;
  std::string url_;
  std::string served_name_;
  std::function<bool()> interrupted_;
};

}  // namespace upgrade_gate::probes
