// What a started server proves to be: image, identity, facts.
#pragma once

#include <string>

#include "framework/base/result.h"
#include "framework/capture/boot_request.h"
#include "framework/capture/watched_server.h"
#include "framework/evidence/records.h"
#include "framework/load/transport.h"

namespace upgrade_gate::capture {

// Asks a server that has become ready what it is and writes that into the boot's
// evidence. An error: it is not what the plan declares or pins.
base::Status LearnIdentity(const BootRequest& request, load::Transport& transport,
                           WatchedServer& watched, evidence::BootRecord& boot);

// Asks which image the server's container runs and keeps the proof, also one that does
// not hold, which is an error. Nothing for a server that is no container.
base::Status KeepImageProof(const BootRequest& request, server::RunningServer& server,
                            const evidence::BootRecord& boot, const std::string& when);

}  // namespace upgrade_gate::capture
