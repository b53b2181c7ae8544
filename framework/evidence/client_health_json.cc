// ClientHealth in round.json and summary.json.
#include <fmt/format.h>

#include "framework/base/text.h"
#include "framework/evidence/json_fields.h"
#include "framework/evidence/limits.h"
#include "framework/evidence/record_json.h"

namespace upgrade_gate::evidence {

using base::Json;

namespace {

base::Result<std::optional<double>> OptionalAmount(const Json& json, std::string_view key) {
  UG_ASSIGN(const Json* member, base::Member(json, key));
  if (member->is_null()) return std::nullopt;
  return Amount(json, key);
}

}  // namespace

void PutClient(const std::optional<ClientHealth>& client, Json& json) {
  if (!client) return;
  json["client"] = {{"load", client->open_loop ? "open" : "closed"},
                    {"asked", client->asked},
                    {"delivered", base::OrNull(client->delivered)},
                    {"held_back", client->held_back},
                    {"send_late_p99_ns", client->send_late_p99.count()},
                    {"reads", client->reads},
                    {"inexact_reads", client->inexact_reads},
                    {"unstamped_reads", client->unstamped_reads},
                    {"lag_p99_ns", client->lag_p99.count()},
                    {"cpu_share", client->cpu_share},
                    {"threads", client->threads},
                    {"new_connections", client->new_connections},
                    {"connect_max_ns", client->connect_max.count()},
                    {"retransmits", client->retransmits}};
  if (client->cpu_pressure) json["client"]["cpu_pressure"] = *client->cpu_pressure;
}

base::Result<std::optional<ClientHealth>> ClientMember(const Json& with) {
  if (!with.is_object() || !with.contains("client")) return std::nullopt;
  UG_ASSIGN(const Json* json, Object(with, "client"));
  ClientHealth client;
  UG_ASSIGN(const std::string load, base::StringMember(*json, "load"));
  if (load != "open" && load != "closed") {
    return base::EvidenceError(fmt::format("\"load\" is \"{}\", neither open nor closed",
                                           base::Shorten(base::Visible(load), 80)));
  }
  client.open_loop = load == "open";
  UG_ASSIGN(client.asked, Amount(*json, "asked"));
  UG_ASSIGN(client.delivered, OptionalAmount(*json, "delivered"));
  UG_ASSIGN(client.held_back, SmallInt(*json, "held_back", 0, kMaxRequests));
  UG_ASSIGN(client.send_late_p99, Ns(*json, "send_late_p99_ns"));
  UG_ASSIGN(client.reads, IntIn(*json, "reads", 0, kMaxBytes));
  UG_ASSIGN(client.inexact_reads, IntIn(*json, "inexact_reads", 0, client.reads));
  UG_ASSIGN(client.unstamped_reads, IntIn(*json, "unstamped_reads", 0, client.reads));
  UG_ASSIGN(client.lag_p99, Ns(*json, "lag_p99_ns"));
  UG_ASSIGN(client.cpu_share, Amount(*json, "cpu_share"));
  UG_ASSIGN(client.threads, SmallInt(*json, "threads", 1, kMaxCount));
  UG_ASSIGN(client.new_connections, SmallInt(*json, "new_connections", 0, kMaxCount));
  UG_ASSIGN(client.connect_max, Ns(*json, "connect_max_ns"));
  UG_ASSIGN(client.retransmits, IntIn(*json, "retransmits", 0, kMaxBytes));
  if (json->contains("cpu_pressure")) {
    UG_ASSIGN(client.cpu_pressure, Amount(*json, "cpu_pressure"));
  }
  return client;
}

}  // namespace upgrade_gate::evidence
