#include "core/train/training_run.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

namespace muster {

TrainingRun::TrainingRun(const Graph& graph, const Dataset& data, const StateDict& start,
                         const LocalSettings& settings, std::uint64_t seed,
                         TrainingRunOptions options, Replica replica)
    : graph_(&graph),
      data_(&data),
      start_(&start),
      settings_(settings),
      options_(std::move(options)),
      replica_(std::move(replica)),
      seeds_(seed),
      order_(data.size(), settings, seeds_.order),
      total_steps_(order_.total_steps()),
      tally_(graph.loss()) {
  epochs_.reserve(std::min(static_cast<std::size_t>(settings.epochs), kMostEpochsKept));
}

Result<TrainingRun> TrainingRun::make(const Graph& graph, const Dataset& data,
                                      const StateDict& start, const LocalSettings& settings,
                                      std::uint64_t seed, TrainingRunOptions options) {
  MUSTER_TRY(Replica replica, Replica::create(graph, data, start, settings,
                                              {.workers = options.workers,
                                               .limit_bytes = options.limit_bytes,
                                               .gradient_offset = options.gradient_offset}));
  return TrainingRun(graph, data, start, settings, seed, std::move(options), std::move(replica));
}

Result<TrainingRun> TrainingRun::create(const Graph& graph, const Dataset& data,
                                        const StateDict& start, const LocalSettings& settings,
                                        std::uint64_t seed, TrainingRunOptions options) {
  MUSTER_TRY(TrainingRun run, make(graph, data, start, settings, seed, std::move(options)));
  run.start_clock(0);
  return run;
}

Status TrainingRun::step() {
  if (failure_) return *failure_;
  if (done()) {
    return Error{ErrorCode::kFailedPrecondition, "training: all steps are done, or the time is up"};
  }
  if (position() == 0) tally_ = Tally(graph_->loss());
  const StepNumber at{.step = steps_, .total = total_steps_};
  const Result<ShareFigures> figures = replica_.compute_gradient(
      {.positions = order_.batch(steps_), .seed = seeds_.of_step(steps_), .at = at});
  Status status;
  if (figures) {
    tally_.count_correct(figures->correct);
    tally_.add(figures->loss, figures->normaliser, figures->examples);
    status = replica_.apply(at);
  } else {
    status = figures.error();
  }
  if (!status) {
    failure_ = status.error();
    return status;
  }
  ++steps_;
  look_at_clock();
  if (epoch_ended()) end_epoch();
  return {};
}

// Adds what became of the epoch that the last step belongs to.
void TrainingRun::end_epoch() {
  EpochMetrics metrics{.epoch = progress().epoch,
                       .examples = tally_.figures().examples,
                       .loss = tally_.mean_loss(),
                       .accuracy = tally_.accuracy()};
  // A run that was out of time and goes on after a restore ends the same epoch again.
  if (!epochs_.empty() && epochs_.back().epoch == metrics.epoch) epochs_.pop_back();
  if (epochs_.size() == kMostEpochsKept) epochs_.erase(epochs_.begin());
  epochs_.push_back(std::move(metrics));
}

std::int64_t TrainingRun::examples_done() const {
  return epoch() * data_->size() + position();
}

FitProgress TrainingRun::progress() const {
  FitProgress progress{
      .steps_done = steps_, .steps_total = total_steps_, .loss = tally_.mean_loss()};
  progress.epoch = steps_ == 0 ? 1 : (steps_ - 1) / order_.steps_per_epoch() + 1;
  return progress;
}

void TrainingRun::note_holdout(Metrics metrics) {
  if (epochs_.empty()) return;
  std::erase_if(metrics, [](const auto& metric) { return !std::isfinite(metric.second); });
  epochs_.back().holdout = std::move(metrics);
}

Result<FitResult> TrainingRun::finish() && {
  if (failure_) return *failure_;
  if (!done()) {
    return Error{ErrorCode::kFailedPrecondition, "training: " + std::to_string(steps_) + " of " +
                                                     std::to_string(total_steps_) +
                                                     " steps are done and there is time left"};
  }
  if (steps_ == 0) {
    return Error{ErrorCode::kDeadlineExceeded, "training: the time was up before the first step",
                 "no_time"};
  }
  // Where a restore found the time to be up in the middle of an epoch.
  if (epochs_.empty() || epochs_.back().epoch != progress().epoch) end_epoch();
  StateDict& w = replica_.weights().w();
  if (Status finite = check_finite(w.layout(), w.values()); !finite) {
    return Error{ErrorCode::kFailedPrecondition,
                 "training: after the last step: " + finite.error().message, "non_finite"};
  }
  FitResult result{.state = std::move(w),
                   .examples = data_->size(),
                   .steps = steps_,
                   .metrics = {{"loss", epochs_.back().loss}},
                   .complete = steps_ == total_steps_,
                   .epochs = std::move(epochs_)};
  if (const auto accuracy = result.epochs.back().accuracy) result.metrics["accuracy"] = *accuracy;
  return result;
}

void TrainingRun::start_clock(double spent_seconds) {
  using std::chrono::duration;
  using Clock = std::chrono::steady_clock;
  spent_before_ = spent_seconds;
  ends_ = options_.deadline;
  if (settings_.max_seconds > 0) {
    began_ = options_.clock();
    const duration<double> left(std::max(0.0, settings_.max_seconds - spent_seconds));
    const Clock::time_point own = began_ + std::chrono::duration_cast<Clock::duration>(left);
    ends_ = ends_ ? std::min(*ends_, own) : own;
  }
  look_at_clock();
}

void TrainingRun::look_at_clock() {
  time_is_up_ = ends_.has_value() && options_.clock() >= *ends_;
}

double TrainingRun::spent_seconds() const {
  if (settings_.max_seconds == 0) return 0;
  const std::chrono::duration<double> spent = options_.clock() - began_;
  return spent_before_ + std::max(0.0, spent.count());
}

}  // namespace muster
