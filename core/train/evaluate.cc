#include "core/train/evaluate.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "core/graph/graph_run.h"
#include "core/train/batch.h"

namespace muster {

double Tally::add(std::span<const float> prediction, std::int64_t batch, const TargetView& target,
                  std::span<float> gradient) {
  const double loss = loss_.compute(prediction, target, gradient);
  const bool mean = loss_.reduction() == Loss::Reduction::kMean;
  sum_ += mean ? loss * static_cast<double>(batch) : loss;
  examples_ += batch;
  if (const auto correct = loss_.count_correct(prediction, target)) {
    has_accuracy_ = true;
    correct_ += *correct;
  }
  return loss;
}

Metrics Tally::metrics() const {
  if (examples_ == 0) return {};
  Metrics metrics{{"loss", mean_loss()}};
  if (has_accuracy_) {
    metrics["accuracy"] = static_cast<double>(correct_) /
                          static_cast<double>(examples_ * loss_.targets_per_example());
  }
  return metrics;
}

Result<EvaluateResult> evaluate(const Graph& graph, const StateDict& state, const Dataset& data,
                                std::stop_token stop) {
  constexpr std::int64_t kBatch = 100;
  MUSTER_TRY_STATUS(check_same_layout(*graph.layout(), state.layout()));
  MUSTER_TRY_STATUS(check_data_fits(graph, data));
  Tally tally(graph.loss());
  if (data.size() == 0) return EvaluateResult{};
  const std::int64_t most = std::min(kBatch, data.size());
  MUSTER_TRY(GraphRun run, GraphRun::create(graph, {.max_batch = most, .backward = false}));
  Batch batch(graph, most);
  std::vector<std::int64_t> positions(static_cast<std::size_t>(most));
  for (std::int64_t at = 0; at < data.size(); at += most) {
    if (stop.stop_requested()) {
      return Error{ErrorCode::kCancelled, "evaluation was stopped after " + std::to_string(at) +
                                              " of " + std::to_string(data.size()) + " examples"};
    }
    positions.resize(static_cast<std::size_t>(std::min(most, data.size() - at)));
    std::iota(positions.begin(), positions.end(), at);
    batch.load(data, positions);
    const auto output = run.run(state, batch.features(), batch.size(), {});
    tally.add(output, batch.size(), batch.target(), {});
  }
  return EvaluateResult{.examples = data.size(), .metrics = tally.metrics()};
}

}  // namespace muster
