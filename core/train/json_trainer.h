#pragma once

#include <functional>
#include <memory>
#include <stop_token>

#include "core/base/json.h"
#include "core/tensor/json_state.h"
#include "core/train/local_trainer.h"

namespace muster {

// What came of a fit whose state is JSON.
struct JsonFit {
  Json state;                 // the structure of the global one
  std::int64_t examples = 0;  // over 0, examples behind the state: its weight
  Metrics metrics = {};
};

// A device's trainer for jobs whose model is a JSON state ("model": {"json": {...}}), made of
// functions from JSON to JSON.
class JsonTrainer final : public LocalTrainer {
 public:
  // Fits from `global`. Errors: as LocalTrainer::fit.
  using Fit = std::function<Result<JsonFit>(const Json& global, const FitTask&, std::stop_token)>;
  using Evaluate =
      std::function<Result<EvaluateResult>(const Json& global, const FitTask&, std::stop_token)>;

  // Without `evaluate` a task to evaluate is answered with no examples.
  JsonTrainer(std::int64_t num_examples, Fit fit, Evaluate evaluate = {});

  std::int64_t num_examples() const override { return num_examples_; }

  // No steps are counted. Besides LocalTrainer's errors: kInvalidArgument where the task's model is
  // a graph, where the global state is none of it, and those of JsonTemplate::pack of what `fit`
  // gave, naming the place.
  Result<FitResult> fit(const StateDict& global, const FitTask& task, std::stop_token stop,
                        const std::function<void(const FitProgress&)>& progress) override;
  Result<EvaluateResult> evaluate(const StateDict& global, const FitTask& task,
                                  std::stop_token stop) override;

 private:
  const std::int64_t num_examples_;
  const Fit fit_;
  const Evaluate evaluate_;
};

}  // namespace muster
