#include <utility>

#include "core/protocol/fields.h"
#include "core/protocol/messages.h"
#include "core/protocol/metrics.h"

// UpdateStatement, Receipt and TaskResult: what a device brings and what it gets for it.
namespace muster::protocol {

std::string statement_text(const UpdateStatement& statement) {
  return to_json(statement).dump();
}

std::string update_signing_input(std::string_view statement_json) {
  return std::string("muster-update-v1\n").append(statement_json);
}

Json to_json(const UpdateStatement& message) {
  return {{"job", message.job},
          {"round", message.round},
          {"attempt", message.attempt},
          {"task", message.task},
          {"base", message.base.hex()},
          {"digest", message.digest.hex()},
          {"examples", message.examples},
          {"steps", message.steps},
          {"metrics", to_json(message.metrics)}};
}

Result<UpdateStatement> update_statement_from_json(const Json& json) {
  UpdateStatement message;
  JsonObject object(json, "update");
  message.job = fields::name(object, "job");
  message.round = object.integer("round", fields::kRound);
  message.attempt = object.integer("attempt", fields::kAttempt);
  message.task = fields::name(object, "task");
  message.base = fields::digest(object, "base");
  message.digest = fields::digest(object, "digest");
  message.examples = object.integer("examples", fields::kCount);
  message.steps = object.integer("steps", fields::kCount);
  const Json& metrics = object.value("metrics");
  MUSTER_TRY_STATUS(object.finish());
  MUSTER_TRY(auto received, metrics_from_json(metrics, "update.metrics"));
  message.metrics = std::move(received.kept);
  return message;
}

Json to_json(const Receipt& message) {
  return {{"job", message.job},           {"round", message.round},
          {"device", message.device},     {"digest", message.digest.hex()},
          {"examples", message.examples}, {"accepted_at_ms", message.accepted_at_ms}};
}

Result<Receipt> receipt_from_json(const Json& json) {
  Receipt message;
  JsonObject object(json, "receipt");
  message.job = fields::name(object, "job");
  message.round = object.integer("round", fields::kRound);
  message.device = fields::name(object, "device");
  message.digest = fields::digest(object, "digest");
  message.examples = object.integer("examples", fields::kCount);
  message.accepted_at_ms = object.integer("accepted_at_ms", fields::kCount);
  MUSTER_TRY_STATUS(object.finish());
  return message;
}

Json to_json(const TaskResult& message) {
  return {{"examples", message.examples}, {"metrics", to_json(message.metrics)}};
}

Result<TaskResult> task_result_from_json(const Json& json) {
  TaskResult message;
  JsonObject object(json, "result");
  message.examples = object.integer("examples", fields::kCount);
  const Json& metrics = object.value("metrics");
  MUSTER_TRY_STATUS(object.finish());
  MUSTER_TRY(auto received, metrics_from_json(metrics, "result.metrics"));
  message.metrics = std::move(received.kept);
  return message;
}

}  // namespace muster::protocol
