#include "core/strategy/executors/run_figures.h"

#include <algorithm>
#include <utility>

namespace muster {

RunFigures::RunFigures(const StrategyTask& task, const Loss& loss, const BatchOrder& order)
    : task_(&task),
      loss_(&loss),
      steps_per_epoch_(order.steps_per_epoch()),
      total_steps_(order.total_steps()),
      steps_(std::min(task.steps_done, order.total_steps())),
      tally_(loss) {
  if (task.settings.max_seconds == 0) return;
  ends_ = task.clock() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                             std::chrono::duration<double>(task.settings.max_seconds));
}

bool RunFigures::epoch_ended() const {
  return steps_ % steps_per_epoch_ == 0 || steps_ == total_steps_;
}

void RunFigures::complete_step(const ShareFigures& batch) {
  if (steps_ % steps_per_epoch_ == 0) tally_ = Tally(*loss_);
  tally_.count_correct(batch.correct);
  tally_.add(batch.loss, batch.normaliser, batch.examples);
  ++steps_;
  const std::int64_t epoch = (steps_ - 1) / steps_per_epoch_ + 1;
  if (epochs_.empty() || epochs_.back().epoch != epoch) {
    if (epochs_.size() == TrainingRun::kMostEpochsKept) epochs_.erase(epochs_.begin());
    epochs_.push_back({.epoch = epoch});
  }
  epochs_.back().examples = tally_.figures().examples;
  epochs_.back().loss = tally_.mean_loss();
  epochs_.back().accuracy = tally_.accuracy();
}

void RunFigures::tell(const StrategyObserver& observer) const {
  if (!observer.progress || epochs_.empty()) return;
  observer.progress({.steps_done = steps_,
                     .steps_total = total_steps_,
                     .loss = epochs_.back().loss,
                     .epoch = epochs_.back().epoch});
}

StrategyResult RunFigures::result_with(StateDict state) const {
  StrategyResult result{.state = std::move(state),
                        .metrics = {},
                        .epochs = epochs_,
                        .steps = steps_,
                        .complete = steps_ == total_steps_};
  if (epochs_.empty()) return result;
  result.metrics["loss"] = epochs_.back().loss;
  if (const auto accuracy = epochs_.back().accuracy) result.metrics["accuracy"] = *accuracy;
  return result;
}

Result<StrategyResult> RunFigures::finish(StateDict state) const {
  if (steps_ == 0) {
    return Error{ErrorCode::kDeadlineExceeded, "training: the time was up before the first step",
                 "no_time"};
  }
  if (Status finite = check_finite(state.layout(), state.values()); !finite) {
    return Error{ErrorCode::kFailedPrecondition,
                 "training: after the last step: " + finite.error().message, "non_finite"};
  }
  return result_with(std::move(state));
}

}  // namespace muster
