#include "core/train/stock_trainer.h"

#include <fmt/format.h>

#include <utility>

#include "core/graph/model.h"
#include "core/train/data_statistics.h"

namespace muster {
namespace {

// The fit of a JsonTrainer; the examples are shared, not copied.
JsonTrainer::Fit statistics_of(Dataset data) {
  return [data = std::move(data)](const Json& global, const FitTask& /*task*/,
                                  std::stop_token stop) -> Result<JsonFit> {
    if (data.size() < kFewestForStatistics) {
      return Error{ErrorCode::kFailedPrecondition,
                   fmt::format("statistics: {} examples here; those of fewer than {} would tell of "
                               "single ones",
                               data.size(), kFewestForStatistics),
                   "too_few_examples"};
    }
    MUSTER_TRY(Json state, data_statistics(global, data, std::move(stop)));
    return JsonFit{.state = std::move(state), .examples = data.size()};
  };
}

}  // namespace

StockTrainer::StockTrainer(LocalData data, GraphTrainerOptions options)
    : statistics_(data.train.size(), statistics_of(data.train)),
      graphs_(std::move(data), std::move(options)) {}

LocalTrainer& StockTrainer::trainer_for(const Json& model) {
  if (is_json_model(model)) return statistics_;
  return graphs_;
}

Result<FitResult> StockTrainer::fit(const StateDict& global, const FitTask& task,
                                    std::stop_token stop,
                                    const std::function<void(const FitProgress&)>& progress) {
  return trainer_for(task.model).fit(global, task, std::move(stop), progress);
}

Result<EvaluateResult> StockTrainer::evaluate(const StateDict& global, const FitTask& task,
                                              std::stop_token stop) {
  return trainer_for(task.model).evaluate(global, task, std::move(stop));
}

}  // namespace muster
