#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/strategy/context/fan_out.h"
#include "core/strategy/context/strategy_context.h"
#include "core/strategy/executors/fit.h"
#include "core/tensor/state.h"
#include "core/train/settings.h"

namespace muster {

// What a member of a population does in a generation.
struct MemberTurn {
  LocalSettings settings;
  std::uint64_t seed = 0;
  const StateDict* start = nullptr;  // the caller's
};
// What became of it.
struct MemberOutcome {
  std::optional<StateDict> state = {};  // nothing: it failed
  double score = 0;                     // of the held-out examples; minus infinity: it failed
  Metrics training = {};
  Metrics holdout = {};
  std::string failure = {};  // why it failed; names no worker
};

// The workers that train a population: each takes the next member that waits as soon as it is free.
// What becomes of a member does not depend on who took it. One thread at a time; context and task
// belong to the caller and stay where they are.
class PopulationCrew {
 public:
  // All workers of the context that are not lost. Errors: kInvalidArgument, reason "bad_strategy",
  // when they are fewer than `min_workers`; kResourceExhausted.
  static Result<PopulationCrew> create(StrategyContext& context, const StrategyTask& task,
                                       std::int64_t min_workers);

  // Trains and scores all members. One whose worker is lost goes to another worker.
  // Errors: kUnavailable, reason "worker_lost", when fewer than min_workers are left; kCancelled.
  Result<std::vector<MemberOutcome>> train(std::span<const MemberTurn> members);

  Json report() const;  // {"workers": ids left, "lost": ids}

 private:
  PopulationCrew(StrategyContext& context, const StrategyTask& task, std::int64_t min_workers,
                 std::vector<std::int64_t> alive, FanOut fan_out);

  Result<MemberOutcome> train_on(std::int64_t worker, const MemberTurn& member) const;
  Result<MemberOutcome> failed(std::int64_t worker, const Error& error) const;
  // Takes lost workers out.
  Status settle(std::span<const Status> results);

  StrategyContext* context_;
  const StrategyTask* task_;
  std::int64_t min_workers_;
  std::vector<std::int64_t> alive_;
  FanOut fan_out_;
};

}  // namespace muster
