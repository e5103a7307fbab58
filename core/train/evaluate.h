#pragma once

#include <cstdint>
#include <span>
#include <stop_token>

#include "core/base/error.h"
#include "core/base/workers.h"
#include "core/graph/graph.h"
#include "core/tensor/state.h"
#include "core/train/data/dataset.h"
#include "core/train/local_trainer.h"
#include "core/train/metrics/metric_set.h"

namespace muster {

// Mean loss and metrics of a state on all examples: `metrics`, of which nothing is added to, or
// those that default_metrics has for the graph's loss. Without examples there are none.
// Predictions that are not finite give metrics that are NaN, never an error.
//   workers  threads that share out the work, as in GraphRunOptions; null: the caller's alone. The
//            metrics have the same bits with any number of them.
// Errors: kInvalidArgument when state, graph, metrics and data do not fit together;
// kResourceExhausted when the metrics would take over 2 GiB; kCancelled.
Result<EvaluateResult> evaluate(const Graph& graph, const StateDict& state, const Dataset& data,
                                const MetricSet& metrics, std::stop_token stop = {},
                                Workers* workers = nullptr);
Result<EvaluateResult> evaluate(const Graph& graph, const StateDict& state, const Dataset& data,
                                std::stop_token stop = {}, Workers* workers = nullptr);

}  // namespace muster
