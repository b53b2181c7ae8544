#include "framework/capture/progress.h"

#include "framework/base/file.h"
#include "framework/base/json.h"

namespace upgrade_gate::capture {

using base::Json;

base::Status WriteStatus(const evidence::Layout& layout, const Status& status) {
  Json json;
  json["schema"] = 1;
  json["state"] = status.state;
  json["plan"] = status.plan;
  json["detail"] = status.detail;
  json["boot"] = status.boot;
  json["arm"] = status.arm;
  json["case"] = status.case_name;
  json["round"] = status.round;
  json["rounds_done"] = status.rounds_done;
  json["rounds_planned"] = status.rounds_planned;
  json["requests_done"] = status.requests_done;
  json["requests_failed"] = status.requests_failed;
  json["started_at"] = status.started_at;
  json["updated_at"] = status.updated_at;
  json["seconds_left"] = base::OrNull(status.seconds_left);
  json["pid"] = status.pid;
  json["run_id"] = status.run_id;
  return base::WriteFileAtomically(layout.status(), base::WriteJson(json));
}

base::Result<Status> ReadStatus(const evidence::Layout& layout) {
  constexpr std::uint64_t kCap = 1 << 16;
  UG_ASSIGN(const std::string text, base::ReadFile(layout.status(), kCap));
  UG_ASSIGN(const Json json, base::ParseJson(text));
  Status status;
  UG_ASSIGN(status.state, base::StringMember(json, "state"));
  UG_ASSIGN(status.plan, base::StringMember(json, "plan"));
  UG_ASSIGN(status.detail, base::StringMember(json, "detail"));
  UG_ASSIGN(status.arm, base::StringMember(json, "arm"));
  UG_ASSIGN(status.case_name, base::StringMember(json, "case"));
  UG_ASSIGN(status.started_at, base::StringMember(json, "started_at"));
  UG_ASSIGN(status.updated_at, base::StringMember(json, "updated_at"));
  const auto number = [&json](const char* key, int& out) -> base::Status {
    UG_ASSIGN(const std::int64_t value, base::IntMember(json, key));
    out = static_cast<int>(value);
    return {};
  };
  UG_TRY(number("boot", status.boot));
  UG_TRY(number("round", status.round));
  UG_TRY(number("rounds_done", status.rounds_done));
  UG_TRY(number("rounds_planned", status.rounds_planned));
  UG_TRY(number("requests_done", status.requests_done));
  UG_TRY(number("requests_failed", status.requests_failed));
  UG_TRY(number("pid", status.pid));
  if (json.contains("run_id")) {
    UG_ASSIGN(status.run_id, base::StringMember(json, "run_id"));
  }
  UG_ASSIGN(const Json* left, base::Member(json, "seconds_left"));
  if (left->is_number()) status.seconds_left = left->get<double>();
  return status;
}

}  // namespace upgrade_gate::capture
