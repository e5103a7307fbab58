#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/aggregate/encoding/update_encoding.h"
#include "core/aggregate/update_check.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/round/round_machine.h"
#include "core/strategy/strategy.h"
#include "core/train/settings.h"

namespace muster {

struct EvaluationSettings {
  // Devices evaluate each new global state on their held-out part; false by default where the
  // model is a JSON state.
  bool federated = true;
  std::string test_data;  // a data spec read by the server, at most 4096 bytes; empty: no central
                          // evaluation
};

// The largest model a job may have: its state is a file of 1 GiB, and its description has to fit a
// task.
inline constexpr std::int64_t kMaxModelParameters = std::int64_t{1} << 28;
inline constexpr std::size_t kMaxModelBytes = 512 * 1024;  // of the resolved description as JSON

// A job as an operator writes it: model, strategy, and settings (docs/jobs.md has every field with
// its default).
struct JobDescription {
  std::string name;
  Json model;  // {"preset": "2nn"}, {"graph": {...}}, {"json": {...}} ..., as submitted
  TrainingStrategy strategy;  // Federated: the others are not for the server's rounds
  UpdateEncoding encoding;    // how updates travel
  UpdateLimits checks;        // what every update must keep to
  LocalSettings local;        // mu filled in from the strategy
  RoundSettings round;        // num_clients, selection and asynchronous filled in from the strategy
  EvaluationSettings evaluation;
  std::uint64_t seed = 0;  // 0 to 2^53
};

// Reads and checks a job, unknown fields refused, contradictions too (min_updates over
// target_updates or under what the aggregation needs, a target above what the selection can give,
// an optimiser that the aggregation cannot undo, a strategy other than Federated, a graph that does
// not fit, "mu" in "local" instead of in the strategy, a JSON state under another rule than
// JsonMean; job_checks.h). Building the model is part of the check. Errors: kInvalidArgument,
// reason "bad_job"; the message carries the field's path.
Result<JobDescription> job_from_json(const Json& json);

// The whole job with every default written out; reads back to the same job.
Json to_json(const JobDescription& job);

}  // namespace muster
