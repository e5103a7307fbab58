#include "core/train/evaluate.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "core/graph/graph_run.h"
#include "core/train/batch.h"
#include "core/train/tally.h"

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

Result<EvaluateResult> evaluate(const Graph& graph, const StateDict& state, const Dataset& data,
                                std::stop_token stop, Workers* workers) {
  return evaluate(graph, state, data, default_metrics(graph.loss()), std::move(stop), workers);
}

Result<EvaluateResult> evaluate(const Graph& graph, const StateDict& state, const Dataset& data,
                                const MetricSet& metrics, std::stop_token stop, Workers* workers) {
  constexpr std::int64_t kBatch = 100;
  MUSTER_TRY_STATUS(check_same_layout(*graph.layout(), state.layout()));
  MUSTER_TRY_STATUS(check_data_fits(graph, data));
  MUSTER_TRY_STATUS(metrics.check_fits(graph.loss()));
  if (data.size() == 0) return EvaluateResult{};
  MUSTER_TRY_STATUS(check_memory(metrics, data.size()));
  const Loss& loss = graph.loss();
  Tally tally(loss);
  MetricSet gathered = metrics.fresh();
  const std::int64_t most = std::min(kBatch, data.size());
  MUSTER_TRY(GraphRun run,
             GraphRun::create(graph, {.max_batch = most, .backward = false, .workers = workers}));
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
    const TargetView target = batch.target();
    const double whole = loss.normaliser(target);
    tally.add(loss.compute_part(output, target, whole, {}), whole, batch.size());
    gathered.add(output, target);
  }
  EvaluateResult result{.examples = data.size(), .metrics = gathered.values()};
  result.metrics["loss"] = tally.mean_loss();
  return result;
}

}  // namespace muster
