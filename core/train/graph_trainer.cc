#include "core/train/graph_trainer.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "core/base/random.h"
#include "core/graph/graph_run.h"
#include "core/graph/model.h"
#include "core/train/batch.h"
#include "core/train/evaluate.h"
#include "core/train/sgd.h"

namespace muster {
namespace {

// One fit, from the global state to the result.
class FitRun {
 public:
  FitRun(const Graph& graph, const Dataset& data, const StateDict& global, const FitTask& task,
         GraphRun run, std::int64_t most)
      : graph_(graph),
        data_(data),
        task_(task),
        run_(std::move(run)),
        batch_(graph, most),
        most_(most),
        doutput_(static_cast<std::size_t>(most * graph.node(graph.output()).size)),
        w_(global.clone()),
        gradient_(global.layout_ptr()),
        sgd_(task.local.optimizer),
        proximal_{.mu = task.local.mu, .global = &global},
        tally_(graph.loss()),
        order_(static_cast<std::size_t>(data.size())),
        dropout_seed_(derive_seed(task.seed, {"dropout"})) {
    const std::int64_t an_epoch = (data.size() + most - 1) / most;
    total_ = task.local.epochs * an_epoch;
    if (task.local.max_steps > 0) total_ = std::min(total_, task.local.max_steps);
    block_ = std::max<std::int64_t>(1, total_ / 100);
  }

  Result<FitResult> train(const std::stop_token& stop,
                          const std::function<void(const FitProgress&)>& progress) {
    for (std::int64_t epoch = 0; sgd_state_.steps < total_; ++epoch) {
      begin_epoch(epoch);
      for (std::int64_t at = 0; at < data_.size() && sgd_state_.steps < total_; at += most_) {
        if (stop.stop_requested()) {
          return Error{ErrorCode::kCancelled, "training was stopped after " +
                                                  std::to_string(sgd_state_.steps) + " of " +
                                                  std::to_string(total_) + " steps"};
        }
        const std::int64_t count = std::min(most_, data_.size() - at);
        const std::span<const std::int64_t> positions(order_);
        const double loss =
            step(positions.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(count)));
        if (!std::isfinite(loss)) return blew_up(loss);
        const std::int64_t done = sgd_state_.steps;
        if (progress && (done % block_ == 0 || done == total_)) {
          progress({.steps_done = done, .steps_total = total_, .loss = tally_.mean_loss()});
        }
      }
    }
    if (Status finite = check_finite(w_.layout(), w_.values()); !finite) {
      return non_finite("after the last step: " + finite.error().message);
    }
    return FitResult{.state = std::move(w_),
                     .examples = data_.size(),
                     .steps = sgd_state_.steps,
                     .metrics = tally_.metrics()};
  }

 private:
  void begin_epoch(std::int64_t epoch) {
    tally_.reset();
    std::iota(order_.begin(), order_.end(), std::int64_t{0});
    if (task_.local.shuffle) {
      Random(derive_seed(task_.seed, {"epoch", std::to_string(epoch)})).shuffle(order_);
    }
  }

  // Returns the loss before the step.
  double step(std::span<const std::int64_t> positions) {
    batch_.load(data_, positions);
    const auto number = static_cast<std::uint64_t>(sgd_state_.steps);
    const std::span<const float> output = run_.run(
        w_, batch_.features(), batch_.size(), {.training = true, .seed = dropout_seed_ + number});
    const std::span<float> doutput = std::span(doutput_).first(output.size());
    const double loss = tally_.add(output, batch_.size(), batch_.target(), doutput);
    if (!std::isfinite(loss)) return loss;
    run_.backward(doutput, gradient_);
    run_.update_untrained(w_);
    sgd_.step(w_, gradient_, graph_.trained_ranges(), proximal_, sgd_state_);
    return loss;
  }

  Error blew_up(double loss) const {
    std::string message = "step " + std::to_string(sgd_state_.steps + 1) + " of " +
                          std::to_string(total_) + ": the loss is " + std::to_string(loss);
    if (Status finite = check_finite(w_.layout(), w_.values()); !finite) {
      message += "; " + finite.error().message;
    } else if (find_non_finite(batch_.features()) >= 0) {
      message += "; the local data has a value that is not finite";
    } else if (const std::string_view node = run_.first_non_finite(); !node.empty()) {
      message += "; the first node that is not finite is " + std::string(node);
    }
    return non_finite(message);
  }

  Error non_finite(const std::string& message) const {
    return {ErrorCode::kFailedPrecondition, "training: " + message, "non_finite"};
  }

  const Graph& graph_;
  const Dataset& data_;
  const FitTask& task_;
  GraphRun run_;
  Batch batch_;
  std::int64_t most_;  // examples in a full batch
  std::vector<float> doutput_;
  StateDict w_;
  StateDict gradient_;
  Sgd sgd_;
  SgdState sgd_state_;
  ProximalTerm proximal_;
  Tally tally_;  // of the epoch
  std::vector<std::int64_t> order_;
  std::uint64_t dropout_seed_;
  std::int64_t total_ = 0;
  std::int64_t block_ = 1;
};

}  // namespace

GraphTrainer::GraphTrainer(LocalData data) : data_(std::move(data)) {}
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
  if (data_.train.size() == 0) {
    return Error{ErrorCode::kFailedPrecondition, "training: there are no local examples",
                 "no_data"};
  }
  MUSTER_TRY(const Graph* graph, graph_for(task.model));
  MUSTER_TRY_STATUS(check_same_layout(*graph->layout(), global.layout()));
  MUSTER_TRY_STATUS(check_finite(global.layout(), global.values()));
  MUSTER_TRY_STATUS(check_data_fits(*graph, data_.train));
  const std::int64_t most = std::min(task.local.batch_size, data_.train.size());
  MUSTER_TRY(GraphRun run, GraphRun::create(*graph, {.max_batch = most}));
  return FitRun(*graph, data_.train, global, task, std::move(run), most).train(stop, progress);
}

Result<EvaluateResult> GraphTrainer::evaluate(const StateDict& global, const FitTask& task,
                                              std::stop_token stop) {
  MUSTER_TRY(const Graph* graph, graph_for(task.model));
  return muster::evaluate(*graph, global, data_.holdout, std::move(stop));
}

}  // namespace muster
