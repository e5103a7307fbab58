#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/base/error.h"
#include "core/graph/graph.h"
#include "core/strategy/context/fan_out.h"
#include "core/strategy/context/strategy_context.h"
#include "core/strategy/executors/fit.h"
#include "core/strategy/executors/run_figures.h"
#include "core/tensor/state.h"
#include "core/train/batch.h"
#include "core/train/batch_order.h"

namespace muster {

// What every way of aggregating in a data-parallel run needs: the replicas that are left, the
// batches and their shares, the figures of the epochs. One for each fit; not moved, as it refers to
// itself. One thread at a time, but `context` and `fan_out`.
class DataParallelRun {
 public:
  // Errors: kInvalidArgument (more replicas than workers, fewer rows than replicas, a start or data
  // that does not fit the model); kFailedPrecondition, reason "no_data"; those of the context.
  static Result<std::unique_ptr<DataParallelRun>> create(StrategyContext& context,
                                                         const DataParallel& strategy,
                                                         const StrategyTask& task,
                                                         const StrategyObserver& observer);
  // Prepares every replica with the task's start and all of its data: any replica can then compute
  // any row, so a lost one's share goes to others.
  Status prepare();

  StrategyContext& context() { return *context_; }
  FanOut& fan_out() { return fan_out_; }
  const StrategyTask& task() const { return *task_; }
  const Graph& graph() const { return graph_; }
  // The replicas that are left, as the context's workers, rising.
  const std::vector<std::int64_t>& alive() const { return alive_; }

  const RunFigures& figures() const { return figures_; }
  StepNumber at(std::int64_t step) const { return {.step = step, .total = figures_.total_steps()}; }

  // The shares of a step's batch, one for each of alive(). Their gradients add up to the batch's.
  std::vector<BatchShare> shares_of(std::int64_t step);

  // Takes the lost among alive() out. True: some were. Errors: what is in `results` besides lost
  // workers, the first; fewer than min_replicas are left: the first loss, saying so.
  Result<bool> settle(std::span<const Status> results);

  // The shares of the next step, which is now complete. Adds to the epoch's figures.
  void complete_step(std::span<const ShareFigures> shares);
  // Tells the observer how far it is. In fit's caller's thread.
  void tell() const { figures_.tell(*observer_); }

  // A state that a run that lost all its workers can be resumed from.
  void keep(StateDict state);
  // Gives the error back; where it is the loss of a worker the observer gets the last complete
  // state first: that of the first replica left, else the one kept last.
  Error interrupted(Error error);
  Error interrupted(Error error, StateDict last_complete);

  Json report() const;  // {"replicas": ids left, "lost": ids}
  // See RunFigures::finish.
  Result<StrategyResult> finish(StateDict state, Json report);

 private:
  DataParallelRun(StrategyContext& context, const DataParallel& strategy, const StrategyTask& task,
                  const StrategyObserver& observer, Graph graph, FanOut fan_out);

  double normaliser_of(std::span<const std::int64_t> positions);
  Error interrupted_with(Error error, StateDict state, std::int64_t steps);

  StrategyContext* context_;
  const DataParallel* strategy_;
  const StrategyTask* task_;
  const StrategyObserver* observer_;
  Graph graph_;
  FanOut fan_out_;
  TrainingSeeds seeds_;
  BatchOrder order_;
  Batch targets_;
  std::vector<std::int64_t> alive_;
  RunFigures figures_;
  std::optional<StateDict> kept_;
  std::int64_t kept_steps_ = 0;
  std::uint64_t bytes_before_;
};

// The three ways; each prepares the run's replicas and takes it to its end.
Result<StrategyResult> fit_all_reduce(DataParallelRun& run);
Result<StrategyResult> fit_parameter_server(DataParallelRun& run, const ParameterServer& method);
Result<StrategyResult> fit_decentralized(DataParallelRun& run, const Decentralized& method);

}  // namespace muster
