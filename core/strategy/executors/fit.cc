#include "core/strategy/executors/fit.h"

#include <fmt/format.h>

#include <utility>

#include "core/strategy/custom/registry.h"
#include "core/strategy/executors/data_parallel_run.h"
#include "core/strategy/executors/model_parallel.h"
#include "core/strategy/executors/population_based.h"

namespace muster {
namespace {

// A strategy that this does not run.
Error runs_elsewhere(std::string_view type, std::string_view what_runs_it) {
  return {
      ErrorCode::kFailedPrecondition,
      fmt::format("strategy {}: it is run by {}, not on a context of workers", type, what_runs_it),
      "runs_elsewhere"};
}

struct Fit {
  StrategyContext& context;
  const StrategyTask& task;
  const StrategyObserver& observer;
  const CoordinatorRegistry* coordinators;

  Result<StrategyResult> operator()(const Local&) const {
    return fit_local(context, task, observer);
  }
  Result<StrategyResult> operator()(const DataParallel& strategy) const {
    return fit_data_parallel(context, strategy, task, observer);
  }
  Result<StrategyResult> operator()(const ModelParallel& strategy) const {
    return fit_model_parallel(context, strategy, task, observer);
  }
  Result<StrategyResult> operator()(const Federated&) const {
    return runs_elsewhere("Federated", "the server (muster job submit)");
  }
  Result<StrategyResult> operator()(const PopulationBased& strategy) const {
    return fit_population_based(context, strategy, task, observer);
  }
  Result<StrategyResult> operator()(const Custom& strategy) const {
    const CoordinatorRegistry none;
    return (coordinators != nullptr ? *coordinators : none).run(context, strategy, task, observer);
  }
};

}  // namespace

Result<StrategyResult> fit(StrategyContext& context, const TrainingStrategy& strategy,
                           const StrategyTask& task, const StrategyObserver& observer,
                           const CoordinatorRegistry* coordinators) {
  return std::visit(
      Fit{.context = context, .task = task, .observer = observer, .coordinators = coordinators},
      strategy);
}

Result<StrategyResult> fit_local(StrategyContext& context, const StrategyTask& task,
                                 const StrategyObserver& observer) {
  // A TrainingRun begins at its first step; a replica that is alone goes the same way, bit for bit.
  if (task.steps_done > 0) return fit_data_parallel(context, DataParallel{}, task, observer);
  const std::uint64_t bytes_before = context.bytes_moved();
  const TrainingPlan plan{
      .model = task.model, .settings = task.settings, .seed = task.seed, .data = task.data};
  MUSTER_TRY_STATUS(context.prepare(0, plan, *task.start));
  Result<FitResult> fitted = context.execute_on_worker(0, observer.progress);
  if (!fitted) {
    if (is_worker_lost(fitted.error()) && observer.interrupted) {
      observer.interrupted({.state = task.start->clone(), .metrics = {}, .complete = false});
    }
    return std::move(fitted).error();
  }
  return StrategyResult{.state = std::move(fitted->state),
                        .metrics = std::move(fitted->metrics),
                        .epochs = std::move(fitted->epochs),
                        .steps = fitted->steps,
                        .complete = fitted->complete,
                        .bytes_moved = context.bytes_moved() - bytes_before};
}

Result<StrategyResult> fit_data_parallel(StrategyContext& context, const DataParallel& strategy,
                                         const StrategyTask& task,
                                         const StrategyObserver& observer) {
  MUSTER_TRY(const std::unique_ptr<DataParallelRun> run,
             DataParallelRun::create(context, strategy, task, observer));
  if (const auto* method = std::get_if<ParameterServer>(&strategy.aggregation)) {
    return fit_parameter_server(*run, *method);
  }
  if (const auto* method = std::get_if<Decentralized>(&strategy.aggregation)) {
    return fit_decentralized(*run, *method);
  }
  return fit_all_reduce(*run);
}

}  // namespace muster
