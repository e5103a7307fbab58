#pragma once

#include <cstdint>
#include <vector>

#include "core/base/error.h"
#include "core/strategy/context/strategy_context.h"
#include "core/strategy/description/population_based.h"
#include "core/strategy/executors/fit.h"
#include "core/strategy/population/population.h"

namespace muster {

// A generation that is over, for StrategyObserver::generation: for showing it, and for keeping its
// lineage.
struct PopulationGeneration {
  std::int64_t generation = 0;   // from 1
  std::int64_t generations = 0;  // in all
  std::vector<Member> members;   // with the scores they came to
  std::vector<LineageEntry> lineage;
  std::int64_t best = 0;  // the member with the highest score; a tie goes to the lower id
};

// The most members times generations of one run: its lineage is kept in memory.
inline constexpr std::int64_t kMostLineageEntries = 1'000'000;

// Population based training (Jaderberg et al. 2017): all members begin at the task's start, with
// hyperparameters drawn from the search space; in each generation every member trains for
// strategy.steps optimiser steps with its hyperparameters and is scored on the held-out examples
// (accuracy, or minus the loss where there is none), then next_generation decides who goes on from
// whom. The result is the best member of the last generation. It depends on the seed, not on the
// number of workers: members queue for the workers that are free.
//
// Between generations a member keeps its weights and nothing else: the optimiser's moments, the
// learning rate's schedule and the pull of the proximal term begin anew in each, with an order of
// examples of its own. settings.max_seconds is looked at between generations; epochs and max_steps
// are the strategy's, and cannot be searched.
//
// A member that fails or comes to a score that is not finite scores minus infinity and is replaced.
// Lost workers are done without down to strategy.min_workers; then the run ends, and
// observer.interrupted gets the best member of the last complete generation. A run that goes on
// from there (StrategyTask::steps_done) has fewer generations left, and begins them with a new
// population at that state.
//
// The result's metrics are those of the best member's last training; its report:
//   {"best": {"member": 3, "generation": 10, "score": 0.9, "hyperparameters": {"optimizer.lr":
//   0.1},
//             "holdout": {"loss": 0.3, "accuracy": 0.9}},
//    "ancestry": [{"generation": 1, "member": 0, "parent": 0, "score": 0.7,
//                  "hyperparameters": {...}}, ...],   oldest first: the best member's schedule
//    "generations": [{"generation": 1, "best": 0, "scores": [0.7, null], "failures": {"1":
//    "..."}}], "workers": ids left, "lost": ids}
// where a score of null is that of a member that failed.
//
// Errors besides fit's: kInvalidArgument, reason "bad_strategy" (fewer workers than min_workers, a
// hyperparameter that the strategy sets itself, over kMostLineageEntries); reason "bad_field" for a
// hyperparameter that names no number of "local"; kFailedPrecondition, reason "no_data", without
// training or held-out rows; reason "all_failed", with the first member's reason.
Result<StrategyResult> fit_population_based(StrategyContext& context,
                                            const PopulationBased& strategy,
                                            const StrategyTask& task,
                                            const StrategyObserver& observer);

Json to_json(const LineageEntry& entry);

}  // namespace muster
