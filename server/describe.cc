#include "server/describe.h"

#include <algorithm>
#include <map>
#include <optional>

#include "core/round/round_machine.h"

namespace muster {
namespace {

std::int64_t to_unix_ms(WallTime time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
}

bool is_committed(const RoundRow& round) {
  return round.phase == to_string(RoundPhase::kCommitted);
}

Json hex_or_null(const std::optional<Digest>& digest) {
  return digest ? Json(digest->hex()) : Json(nullptr);
}

}  // namespace

Json describe_job(const JobRow& job, const std::vector<RoundRow>& rounds, const Json& live,
                  std::int64_t now_ms) {
  const std::int64_t wanted = job.description.at("strategy").at("rounds").get<std::int64_t>();
  std::int64_t bytes_down = 0;
  std::int64_t bytes_up = 0;
  std::int64_t committed_ms = 0;
  Json last = nullptr;       // metrics of the last committed round
  Json evaluated = nullptr;  // of the last one that was evaluated
  for (const RoundRow& round : rounds) {
    bytes_down += round.bytes_down;
    bytes_up += round.bytes_up;
    if (!is_committed(round)) continue;
    committed_ms += round.ended_at_ms - round.started_at_ms;
    last = describe_round(round);
    if (round.metrics.contains("test_accuracy") || round.metrics.contains("eval_accuracy"))
      evaluated = describe_round(round);
  }
  Json json{{"job", job.job},
            {"name", job.description.at("name")},
            {"strategy", job.description.at("strategy")},
            {"status", to_string(job.status)},
            {"status_reason", job.status_reason},
            {"created_by", job.created_by},
            {"created_at_ms", job.created_at_ms},
            {"finished_at_ms", job.finished_at_ms},
            {"rounds", wanted},
            {"rounds_committed", job.rounds_committed},
            {"initial_state", job.initial_state.hex()},
            {"global_state", job.global_state.hex()},
            {"rule_state", hex_or_null(job.rule_state)},
            {"bytes_down", bytes_down},
            {"bytes_up", bytes_up},
            {"last_round", last},
            {"last_evaluated", evaluated},
            {"live", live},
            {"description", job.description}};
  const std::int64_t ended = job.finished_at_ms != 0 ? job.finished_at_ms : now_ms;
  json["elapsed_ms"] = std::max<std::int64_t>(0, ended - job.created_at_ms);
  if (job.status == JobStatus::kRunning && job.rounds_committed > 0) {
    json["time_left_ms"] = committed_ms / job.rounds_committed * (wanted - job.rounds_committed);
  }
  return json;
}

Json describe_round(const RoundRow& round) {
  return Json{{"job", round.job},
              {"round", round.round},
              {"attempt", round.attempt},
              {"phase", round.phase},
              {"reason", round.reason},
              {"seed", std::to_string(round.seed)},
              {"base", round.base.hex()},
              {"state", hex_or_null(round.state)},
              {"rule_state", hex_or_null(round.rule_state)},
              {"started_at_ms", round.started_at_ms},
              {"ended_at_ms", round.ended_at_ms},
              {"bytes_down", round.bytes_down},
              {"bytes_up", round.bytes_up},
              {"metrics", round.metrics}};
}

Json describe_participants(const std::vector<ParticipantRow>& participants,
                           const std::vector<UpdateRow>& updates, std::int64_t attempt) {
  std::map<std::string, const UpdateRow*> by_device;
  for (const UpdateRow& update : updates) {
    if (update.attempt != attempt) continue;
    const UpdateRow*& kept = by_device[update.device];
    if (kept == nullptr || !kept->accepted) kept = &update;
  }
  Json list = Json::array();
  for (const ParticipantRow& participant : participants) {
    Json json{
        {"device", participant.device},
        {"invited_at_ms", participant.invited_at_ms},
        {"began_round", participant.began_round != 0 ? participant.began_round : participant.round},
        {"verdict", "missing"}};
    if (const auto found = by_device.find(participant.device); found != by_device.end()) {
      const UpdateRow& update = *found->second;
      json["verdict"] = update.accepted ? "accepted" : "refused";
      json["reason"] = update.reason;
      json["digest"] = hex_or_null(update.digest);
      json["examples"] = update.examples;
      json["steps"] = update.steps;
      json["staleness"] = update.staleness;
      json["bytes"] = update.bytes;
      json["received_at_ms"] = update.received_at_ms;
      json["metrics"] = update.metrics;
    }
    list.push_back(std::move(json));
  }
  return list;
}

Json describe_refused(const std::vector<UpdateRow>& updates) {
  Json list = Json::array();
  for (const UpdateRow& update : updates) {
    if (update.accepted) continue;
    list.push_back(Json{{"device", update.device},
                        {"attempt", update.attempt},
                        {"reason", update.reason},
                        {"detail", update.detail},
                        {"received_at_ms", update.received_at_ms}});
  }
  return list;
}

Json describe_evaluations(const std::vector<EvaluationRow>& evaluations) {
  Json list = Json::array();
  for (const EvaluationRow& evaluation : evaluations) {
    list.push_back(Json{{"device", evaluation.device},
                        {"answered", evaluation.answered_at_ms != 0},
                        {"examples", evaluation.examples},
                        {"metrics", evaluation.metrics}});
  }
  return list;
}

Json describe_event(const EventRow& event) {
  return Json{{"sequence", event.sequence}, {"at_ms", event.at_ms}, {"kind", event.kind},
              {"job", event.job},           {"round", event.round}, {"actor", event.actor},
              {"details", event.details}};
}

Json describe_device(const DeviceRow& device) {
  return Json{{"device", device.device},
              {"tags", device.tags},
              {"examples", device.examples},
              {"enrolled_at_ms", device.enrolled_at_ms},
              {"last_seen_at_ms", device.last_seen_at_ms}};
}

Json describe_certificate(const Certificate& certificate) {
  return Json{{"fingerprint", certificate.fingerprint().hex()},
              {"serial", certificate.serial()},
              {"not_before_ms", to_unix_ms(certificate.not_before())},
              {"not_after_ms", to_unix_ms(certificate.not_after())}};
}

Json describe_token(const TokenRow& token, std::int64_t now_ms) {
  const char* status = token.used_at_ms                ? "used"
                       : token.expires_at_ms <= now_ms ? "expired"
                                                       : "unused";
  return Json{{"batch", token.batch},
              {"status", status},
              {"created_by", token.created_by},
              {"created_at_ms", token.created_at_ms},
              {"expires_at_ms", token.expires_at_ms},
              {"tags", token.tags},
              {"used_by", token.used_by}};
}

}  // namespace muster
