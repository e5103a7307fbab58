#include <fmt/format.h>

#include <limits>
#include <utility>

#include "core/protocol/fields.h"
#include "core/protocol/messages.h"

// Task and its "fit" part:
//   {"kind": "train", "id": "...", "fit": {"job": "...", "round": 3, "model": {...}, "local":
//   {...}, "seed": "42"},
//    "attempt": 1, "state": hex, "state_bytes": 797000, "max_update_bytes": 900000,
//    "deadline_ms": 120000, "encoding": {"format": "float32", ...}, "correction": {"method":
//    "none"}, "control": hex or null, "control_bytes": 0, "initial_loss": false}
namespace muster::protocol {
namespace {

constexpr JsonObject::IntegerRange kDeadlineMs{0, 604'800'000};
constexpr JsonObject::NumberRange kAlpha{std::numeric_limits<double>::min(), 1e6};

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

Json correction_to_json(const Correction& correction) {
  Json json = {{"method", name_of(correction.method)}};
  if (correction.method == DriftCorrection::kFedDyn) json["alpha"] = correction.alpha;
  return json;
}

Result<Correction> correction_from_json(const Json& json, const std::string& where) {
  Correction correction;
  JsonObject object(json, where);
  const std::string method = object.choice("method", {"none", "SCAFFOLD", "FedDyn"});
  for (const auto known :
       {DriftCorrection::kNone, DriftCorrection::kScaffold, DriftCorrection::kFedDyn}) {
    if (method == name_of(known)) correction.method = known;
  }
  if (correction.method == DriftCorrection::kFedDyn) {
    correction.alpha = object.number("alpha", kAlpha);
  }
  MUSTER_TRY_STATUS(object.finish());
  return correction;
}

// A digest or null; its length beside it is 0 exactly when there is none.
std::optional<Digest> read_control(JsonObject& object, Task& message) {
  const Json& control = object.value("control");
  std::optional<Digest> digest;
  if (object.ok() && !control.is_null()) digest = fields::digest(object, "control");
  message.control_bytes = object.integer("control_bytes", fields::kCount);
  if (object.ok() && digest.has_value() != (message.control_bytes > 0)) {
    object.fail("control_bytes", digest ? "0 found, the length of \"control\" is wanted"
                                        : "0 is wanted where \"control\" is null");
  }
  return digest;
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
          {"deadline_ms", message.deadline_ms},
          {"encoding", muster::to_json(message.encoding)},
          {"correction", correction_to_json(message.correction)},
          {"control", message.control ? Json(message.control->hex()) : Json(nullptr)},
          {"control_bytes", message.control_bytes},
          {"initial_loss", message.initial_loss}};
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
  const Json& encoding = object.value("encoding");
  const Json& correction = object.value("correction");
  message.control = read_control(object, message);
  message.initial_loss = object.boolean("initial_loss");
  MUSTER_TRY_STATUS(object.finish());
  MUSTER_TRY(message.fit, fit_from_json(fit, "task.fit"));
  MUSTER_TRY(message.encoding, update_encoding_from_json(encoding, "task.encoding"));
  MUSTER_TRY(message.correction, correction_from_json(correction, "task.correction"));
  if (message.control && message.correction.method != DriftCorrection::kScaffold) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("task.control: found beside the correction \"{}\", which has none",
                             name_of(message.correction.method)),
                 "bad_field"};
  }
  return message;
}

}  // namespace muster::protocol
