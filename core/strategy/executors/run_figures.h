#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/base/error.h"
#include "core/graph/loss.h"
#include "core/strategy/executors/fit.h"
#include "core/tensor/state.h"
#include "core/train/batch_order.h"
#include "core/train/tally.h"

namespace muster {

// How far a run of optimiser steps is that its executor drives itself, and its epochs' figures: the
// same as TrainingRun has them. One for each fit; one thread at a time. The task and the loss
// belong to the caller and stay where they are.
class RunFigures {
 public:
  // `order` is only asked for its sizes.
  RunFigures(const StrategyTask& task, const Loss& loss, const BatchOrder& order);

  std::int64_t steps() const { return steps_; }  // the task's steps_done included
  std::int64_t total_steps() const { return total_steps_; }
  StepNumber at() const { return {.step = steps_, .total = total_steps_}; }
  // No step more: all are done, or settings.max_seconds is up (looked at between steps).
  bool done() const { return steps_ == total_steps_ || time_is_up(); }
  // The last step was the last of its epoch, or of the run.
  bool epoch_ended() const;

  // The next step is complete; what its batch came to.
  void complete_step(const ShareFigures& batch);
  void tell(const StrategyObserver& observer) const;

  StrategyResult result_with(StateDict state) const;
  // Errors: kFailedPrecondition, reason "non_finite"; kDeadlineExceeded, reason "no_time", before
  // the first step.
  Result<StrategyResult> finish(StateDict state) const;

 private:
  bool time_is_up() const { return ends_ && task_->clock() >= *ends_; }

  const StrategyTask* task_;
  const Loss* loss_;
  std::int64_t steps_per_epoch_;
  std::int64_t total_steps_;
  std::int64_t steps_;
  Tally tally_;
  std::vector<EpochMetrics> epochs_;
  std::optional<std::chrono::steady_clock::time_point> ends_;
};

}  // namespace muster
