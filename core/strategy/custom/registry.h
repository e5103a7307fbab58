#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/strategy/context/strategy_context.h"
#include "core/strategy/executors/fit.h"
#include "core/strategy/strategy.h"

namespace muster {

// The coordinators of the embedding program, by the names that jobs call them by in
// {"type": "Custom", "coordinator": name, "config": {...}}:
//
//   CoordinatorRegistry coordinators;
//   coordinators.add("swarm", [](StrategyContext& context, const Json& config,
//                                const StrategyTask& task, const StrategyObserver& observer) {
//     ...                      // prepare, compute_gradient, ...: what any strategy can do
//     return Result<StrategyResult>(StrategyResult{.state = ...});
//   });
//   fit(context, strategy, task, observer, &coordinators);
//
// A plain value: the program makes one, fills it, and keeps it for as long as fits run. Filling is
// for one thread; any thread may run.
class CoordinatorRegistry {
 public:
  // Takes a run from the task's start to its result, in fit's caller's thread. `config` is what the
  // job says, unread: the coordinator checks it (JsonObject) and refuses what it does not know.
  // Reports progress to the observer as it likes, and hands it the last complete state when the
  // loss of a worker ends the run.
  using Coordinator = std::function<Result<StrategyResult>(
      StrategyContext& context, const Json& config, const StrategyTask& task,
      const StrategyObserver& observer)>;

  // Errors: kInvalidArgument, reason "bad_name" (core/base/names.h) or "no_function";
  // kAlreadyExists.
  Status add(std::string name, Coordinator coordinator);

  std::vector<std::string> names() const;  // rising

  // Errors: kNotFound, reason "unknown_coordinator", listing the names that are registered; the
  // coordinator's own; kInternal when it throws, or gives a state of another layout than the
  // task's; kFailedPrecondition, reason "non_finite", when the state has a NaN or infinity.
  Result<StrategyResult> run(StrategyContext& context, const Custom& strategy,
                             const StrategyTask& task, const StrategyObserver& observer) const;

 private:
  std::map<std::string, Coordinator> coordinators_;
};

}  // namespace muster
