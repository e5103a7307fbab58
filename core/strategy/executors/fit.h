#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/strategy/context/strategy_context.h"
#include "core/strategy/strategy.h"
#include "core/tensor/state.h"
#include "core/train/data/dataset.h"
#include "core/train/local_trainer.h"
#include "core/train/settings.h"
#include "core/train/training_run.h"

namespace muster {

class CoordinatorRegistry;    // core/strategy/custom/registry.h
struct PopulationGeneration;  // core/strategy/executors/population_based.h

// What a strategy trains: the same for all of them.
struct StrategyTask {
  Json model;  // in its resolved form
  LocalSettings settings;
  std::uint64_t seed = 0;
  LocalData data;
  const StateDict* start = nullptr;  // the model's layout, all finite; the caller's
  // Steps behind `start`, for going on with the last complete state of a run that failed: the order
  // of examples and the schedule go on there, the optimiser's moments begin anew.
  std::int64_t steps_done = 0;
  SteadyClock clock = std::chrono::steady_clock::now;  // for settings.max_seconds
};

struct StrategyResult {
  StateDict state;
  Metrics metrics;                        // "loss", "accuracy" of the last epoch, as in FitResult
  std::vector<EpochMetrics> epochs = {};  // of the last 1,000, where the strategy has epochs
  std::int64_t steps = 0;                 // optimiser steps done, steps_done included
  bool complete = true;                   // false: settings.max_seconds ended it
  std::uint64_t bytes_moved = 0;          // by the context, during the fit
  Json report = Json::object();           // what the strategy has to say besides
};

// Called in fit's caller's thread.
struct StrategyObserver {
  std::function<void(const FitProgress&)> progress = {};
  // The run is about to end with an error because workers were lost: the last complete state, with
  // the steps behind it, from which it can be resumed (StrategyTask::steps_done).
  std::function<void(const StrategyResult&)> interrupted = {};
  // PopulationBased: a generation is over.
  std::function<void(const PopulationGeneration&)> generation = {};
};

// Runs a strategy on the workers of a context, from the task's start to the trained state.
//   coordinators  of Custom; null: there are none
// Errors: those of the context and of training; kInvalidArgument for a task that does not fit the
// strategy (more replicas than workers, fewer rows than workers); kFailedPrecondition, reason
// "no_data"; for a strategy that runs elsewhere kFailedPrecondition, naming what runs it.
Result<StrategyResult> fit(StrategyContext& context, const TrainingStrategy& strategy,
                           const StrategyTask& task, const StrategyObserver& observer = {},
                           const CoordinatorRegistry* coordinators = nullptr);

// One worker, worker 0, with all the data: a TrainingRun, with its bits.
Result<StrategyResult> fit_local(StrategyContext& context, const StrategyTask& task,
                                 const StrategyObserver& observer);
// Replicas that share each batch; see DataParallel.
Result<StrategyResult> fit_data_parallel(StrategyContext& context, const DataParallel& strategy,
                                         const StrategyTask& task,
                                         const StrategyObserver& observer);

}  // namespace muster
