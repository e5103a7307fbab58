#include "core/train/graph_trainer.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "core/graph/model.h"
#include "core/train/evaluate.h"

namespace muster {
namespace {

using Time = std::chrono::steady_clock::time_point;

double rate(std::int64_t examples, Time::duration time) {
  const double seconds = std::chrono::duration<double>(time).count();
  return seconds > 0 ? static_cast<double>(examples) / seconds : 0;
}

// Of a state on examples, of which there is at least one.
Result<double> loss_of(const Graph& graph, const StateDict& state, const Dataset& data,
                       std::stop_token stop, Workers* workers) {
  MUSTER_TRY(const EvaluateResult result,
             muster::evaluate(graph, state, data, MetricSet{}, std::move(stop), workers));
  const double loss = result.metrics.at("loss");
  if (std::isfinite(loss)) return loss;
  return Error{ErrorCode::kFailedPrecondition,
               "training: the loss of the global state is " + std::to_string(loss), "non_finite"};
}

}  // namespace

GraphTrainer::GraphTrainer(LocalData data, GraphTrainerOptions options)
    : data_(std::move(data)), options_(std::move(options)) {}
GraphTrainer::~GraphTrainer() = default;

Result<const Graph*> GraphTrainer::graph_for(const Json& model) {
  if (built_ == nullptr || built_->model != model) {
    MUSTER_TRY(Graph graph, graph_from_model(model));
    built_ = std::make_unique<Built>(Built{.model = model, .graph = std::move(graph)});
  }
  return &built_->graph;
}

Result<FitResult> GraphTrainer::fit(const StateDict& global, const FitTask& task,
                                    std::stop_token stop,
                                    const std::function<void(const FitProgress&)>& progress) {
  std::optional<Time> deadline;
  if (task.budget) deadline = options_.clock() + *task.budget;
  MUSTER_TRY(const Graph* graph, graph_for(task.model));
  MUSTER_TRY(TrainingRun run,
             TrainingRun::create(*graph, data_.train, global, task.local, task.seed,
                                 {.clock = options_.clock,
                                  .deadline = deadline,
                                  .workers = options_.workers,
                                  .gradient_offset = task.gradient_offset}));
  std::optional<double> initial_loss;
  if (task.report_initial_loss) {
    MUSTER_TRY(initial_loss, loss_of(*graph, global, data_.train, stop, options_.workers));
  }
  const std::int64_t block = std::max<std::int64_t>(1, run.total_steps() / 100);
  const Time ready = options_.clock();
  while (!run.done()) {
    if (stop.stop_requested()) {
      return Error{ErrorCode::kCancelled, "training was stopped after " +
                                              std::to_string(run.steps()) + " of " +
                                              std::to_string(run.total_steps()) + " steps"};
    }
    MUSTER_TRY_STATUS(run.step());
    if (options_.holdout_each_epoch && run.epoch_ended()) {
      MUSTER_TRY(EvaluateResult held,
                 muster::evaluate(*graph, run.state(), data_.holdout, stop, options_.workers));
      run.note_holdout(std::move(held.metrics));
    }
    if (progress && (run.steps() % block == 0 || run.done())) {
      FitProgress report = run.progress();
      report.examples_per_second = rate(run.examples_done(), options_.clock() - ready);
      progress(report);
    }
  }
  MUSTER_TRY(FitResult result, std::move(run).finish());
  if (initial_loss) result.metrics["initial_loss"] = *initial_loss;
  return result;
}

Result<EvaluateResult> GraphTrainer::evaluate(const StateDict& global, const FitTask& task,
                                              std::stop_token stop) {
  MUSTER_TRY(const Graph* graph, graph_for(task.model));
  return muster::evaluate(*graph, global, data_.holdout, std::move(stop), options_.workers);
}

}  // namespace muster
