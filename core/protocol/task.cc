#include <fmt/format.h>

#include <utility>

#include "core/protocol/fields.h"
#include "core/protocol/messages.h"

// Task and its "fit" part:
//   {"kind": "train", "id": "...", "fit": {"job": "...", "round": 3, "model": {...}, "local":
//   {...}, "seed": "42"},
//    "attempt": 1, "state": hex, "state_bytes": 797000, "max_update_bytes": 900000, "deadline_ms":
//    120000}
namespace muster::protocol {
namespace {

constexpr JsonObject::IntegerRange kDeadlineMs{0, 604'800'000};

Json fit_to_json(const FitTask& fit) {
  return {{"job", fit.job},
          {"round", fit.round},
          {"model", fit.model},
          {"local", muster::to_json(fit.local)},
          {"seed", std::to_string(fit.seed)}};
}

Result<FitTask> fit_from_json(const Json& json, const std::string& where) {
  FitTask fit;
  JsonObject object(json, where);
  fit.job = fields::name(object, "job");
  fit.round = object.integer("round", fields::kRound);
  fit.model = object.value("model");
  if (object.ok() && !fit.model.is_object()) {
    object.fail("model", fmt::format("{} found, an object is wanted", describe(fit.model)));
  }
  const Json& local = object.value("local");
  fit.seed = fields::decimal(object, "seed");
  MUSTER_TRY_STATUS(object.finish());
  MUSTER_TRY(fit.local, local_settings_from_json(local, where + ".local"));
  return fit;
}

}  // namespace

Json to_json(const Task& message) {
  return {{"kind", message.kind == TaskKind::kTrain ? "train" : "evaluate"},
          {"id", message.id},
          {"fit", fit_to_json(message.fit)},
          {"attempt", message.attempt},
          {"state", message.state.hex()},
          {"state_bytes", message.state_bytes},
          {"max_update_bytes", message.max_update_bytes},
          {"deadline_ms", message.deadline_ms}};
}

Result<Task> task_from_json(const Json& json) {
  Task message;
  JsonObject object(json, "task");
  const std::string kind = object.choice("kind", {"train", "evaluate"});
  message.kind = kind == "evaluate" ? TaskKind::kEvaluate : TaskKind::kTrain;
  message.id = fields::name(object, "id");
  const Json& fit = object.value("fit");
  message.attempt = object.integer("attempt", fields::kAttempt);
  message.state = fields::digest(object, "state");
  message.state_bytes = object.integer("state_bytes", fields::kCount);
  message.max_update_bytes = object.integer("max_update_bytes", fields::kCount);
  message.deadline_ms = object.integer("deadline_ms", kDeadlineMs);
  MUSTER_TRY_STATUS(object.finish());
  MUSTER_TRY(message.fit, fit_from_json(fit, "task.fit"));
  return message;
}

}  // namespace muster::protocol
