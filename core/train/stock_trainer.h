#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>

#include "core/train/data/dataset.h"
#include "core/train/graph_trainer.h"
#include "core/train/json_trainer.h"
#include "core/train/local_trainer.h"

namespace muster {

// Examples whose statistics may leave a device.
inline constexpr std::int64_t kFewestForStatistics = 10;

// What muster-edge trains with: models that are graphs by a GraphTrainer, the JSON state of
// {"statistics": ...} by data_statistics over the training examples. Another JSON state is refused
// (kInvalidArgument, "bad_model"): that wants a JsonTrainer of one's own. So are statistics of
// fewer than kFewestForStatistics examples (kFailedPrecondition, "too_few_examples"): the mean of
// one is that example.
class StockTrainer final : public LocalTrainer {
 public:
  explicit StockTrainer(LocalData data, GraphTrainerOptions options = {});

  std::int64_t num_examples() const override { return graphs_.num_examples(); }
  bool takes_gradient_offset() const override { return true; }
  Result<FitResult> fit(const StateDict& global, const FitTask& task, std::stop_token stop,
                        const std::function<void(const FitProgress&)>& progress) override;
  Result<EvaluateResult> evaluate(const StateDict& global, const FitTask& task,
                                  std::stop_token stop) override;

 private:
  LocalTrainer& trainer_for(const Json& model);

  JsonTrainer statistics_;
  GraphTrainer graphs_;
};

}  // namespace muster
