#include "core/train/json_trainer.h"

#include <utility>

#include "core/graph/model.h"

namespace muster {

JsonTrainer::JsonTrainer(std::int64_t num_examples, Fit fit, Evaluate evaluate)
    : num_examples_(num_examples), fit_(std::move(fit)), evaluate_(std::move(evaluate)) {}

Result<FitResult> JsonTrainer::fit(const StateDict& global, const FitTask& task,
                                   std::stop_token stop,
                                   const std::function<void(const FitProgress&)>& /*progress*/) {
  MUSTER_TRY(const JsonTemplate model, json_from_model(task.model));
  MUSTER_TRY_IN("global state", const Json json, model.unpack(global));
  MUSTER_TRY(JsonFit fitted, fit_(json, task, std::move(stop)));
  MUSTER_TRY_IN("fitted state", StateDict state, model.pack(fitted.state));
  return FitResult{
      .state = std::move(state), .examples = fitted.examples, .metrics = std::move(fitted.metrics)};
}

Result<EvaluateResult> JsonTrainer::evaluate(const StateDict& global, const FitTask& task,
                                             std::stop_token stop) {
  if (!evaluate_) return EvaluateResult{};
  MUSTER_TRY(const JsonTemplate model, json_from_model(task.model));
  MUSTER_TRY_IN("global state", const Json json, model.unpack(global));
  return evaluate_(json, task, std::move(stop));
}

}  // namespace muster
