#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/base/error.h"
#include "core/graph/graph.h"
#include "core/strategy/context/fan_out.h"
#include "core/strategy/description/model_parallel.h"
#include "core/strategy/executors/fit.h"
#include "core/strategy/executors/run_figures.h"
#include "core/strategy/partition/busy_time.h"
#include "core/strategy/partition/exchange.h"
#include "core/strategy/partition/stage_hosts.h"
#include "core/strategy/partition/stages.h"
#include "core/train/batch.h"
#include "core/train/batch_order.h"

namespace muster {

// One fit of fit_model_parallel. Not moved, as it refers to itself. One thread, but what drivers of
// stages call: forward and backward.
class ModelParallelRun {
 public:
  // Errors: as fit_model_parallel's, before anything ran.
  static Result<std::unique_ptr<ModelParallelRun>> create(StrategyContext& context,
                                                          const ModelParallel& strategy,
                                                          const StrategyTask& task,
                                                          const StrategyObserver& observer,
                                                          ObjectStore& store);
  Result<StrategyResult> run();

 private:
  ModelParallelRun(StrategyContext& context, const ModelParallel& strategy,
                   const StrategyTask& task, const StrategyObserver& observer, Graph graph);

  const PipelineExchange* pipeline() const {
    return std::get_if<PipelineExchange>(&strategy_->communication);
  }
  Status choose_micro_batch();
  Status place_stages(ObjectStore& store);
  std::vector<std::int64_t> in_flight() const;

  // A batch: cut into micro-batches, forward and backward, then the step.
  Status step();
  void load(std::span<const std::int64_t> positions);
  Status compute_in_turn();
  Status compute_overlapped();
  Status drive(std::size_t stage);
  Status put_features(std::int64_t micro_batch);

  Status forward(std::size_t stage, std::int64_t micro_batch);
  Status backward(std::size_t stage, std::int64_t micro_batch);
  // The loss of a micro-batch, from the graph's output to the derivative by it.
  Status take_loss(std::int64_t micro_batch);

  // The state after the last complete epoch, for a run that ends here.
  Status keep();
  Error interrupted(Error error) const;
  Json report() const;

  StrategyContext* context_;
  const ModelParallel* strategy_;
  const StrategyTask* task_;
  const StrategyObserver* observer_;
  Graph graph_;
  TrainingSeeds seeds_;
  BatchOrder order_;
  RunFigures figures_;
  std::uint64_t bytes_before_;
  std::int64_t micro_batch_ = 1;  // examples of a full one
  std::vector<Stage> stages_;
  std::vector<std::size_t> places_;    // by stage, from 0: for busy_
  std::vector<std::int64_t> drivers_;  // the stages' numbers
  std::optional<FanOut> fan_out_;      // a lane a stage, with Pipeline
  std::optional<StageHosts> hosts_;
  Wiring wiring_;
  std::optional<Exchange> exchange_;
  std::optional<BusyTime> busy_;
  BusyTime::Clock::duration overlapped_{0};  // time of all batches with Pipeline

  // Of the batch that is being worked on.
  std::optional<Batch> batch_;
  std::span<const std::int64_t> positions_;
  std::vector<std::int64_t> sizes_;  // of its micro-batches
  std::vector<std::size_t> begins_;  // their first examples
  ShareFigures batch_figures_;       // of those whose loss is there

  std::optional<StateDict> kept_;
  std::int64_t kept_steps_ = 0;
};

}  // namespace muster
