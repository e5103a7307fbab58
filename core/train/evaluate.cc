#include "core/train/evaluate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "core/graph/graph_run.h"
#include "core/train/batch.h"

namespace muster {
namespace {

// Some metrics keep every score.
Status check_memory(const MetricSet& metrics, std::int64_t examples) {
  constexpr std::int64_t kMostBytes = std::int64_t{1} << 31;
  if (metrics.bytes_per_example() <= kMostBytes / examples) return {};
  return Error{ErrorCode::kResourceExhausted,
               "the metrics " + metrics.to_json().dump() + " of " + std::to_string(examples) +
                   " examples want " + std::to_string(metrics.bytes_per_example()) +
                   " bytes for each, the limit is " + std::to_string(kMostBytes) + " in all"};
}

}  // namespace

double Tally::add(std::span<const float> prediction, std::int64_t batch, const TargetView& target,
                  std::span<float> gradient) {
  return add_part(prediction, batch, target, loss_.normaliser(target), gradient);
}

double Tally::add_part(std::span<const float> prediction, std::int64_t batch,
                       const TargetView& target, double whole, std::span<float> gradient) {
  const double loss = loss_.compute_part(prediction, target, whole, gradient);
  const bool mean = loss_.reduction() == Loss::Reduction::kMean;
  sum_ += mean && whole > 0 ? loss * whole : loss;
  weight_ += mean ? loss_.normaliser(target) : static_cast<double>(batch);
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
    metrics["accuracy"] = std::isfinite(sum_)
                              ? static_cast<double>(correct_) /
                                    static_cast<double>(examples_ * loss_.targets_per_example())
                              : std::numeric_limits<double>::quiet_NaN();
  }
  return metrics;
}

Result<EvaluateResult> evaluate(const Graph& graph, const StateDict& state, const Dataset& data,
                                std::stop_token stop) {
  return evaluate(graph, state, data, default_metrics(graph.loss()), std::move(stop));
}

Result<EvaluateResult> evaluate(const Graph& graph, const StateDict& state, const Dataset& data,
                                const MetricSet& metrics, std::stop_token stop) {
  constexpr std::int64_t kBatch = 100;
  MUSTER_TRY_STATUS(check_same_layout(*graph.layout(), state.layout()));
  MUSTER_TRY_STATUS(check_data_fits(graph, data));
  MUSTER_TRY_STATUS(metrics.check_fits(graph.loss()));
  if (data.size() == 0) return EvaluateResult{};
  MUSTER_TRY_STATUS(check_memory(metrics, data.size()));
  Tally tally(graph.loss());
  MetricSet gathered = metrics.fresh();
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
    gathered.add(output, batch.target());
  }
  EvaluateResult result{.examples = data.size(), .metrics = gathered.values()};
  result.metrics["loss"] = tally.mean_loss();
  return result;
}

}  // namespace muster
