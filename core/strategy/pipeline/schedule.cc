#include "core/strategy/pipeline/schedule.h"

#include <fmt/format.h>

#include <algorithm>

namespace muster {
namespace {

using Kind = PipelineStep::Kind;

// Forwards that a stage does before its first backward.
std::int64_t warm_up(PipelineSchedule schedule, std::int64_t stages, std::int64_t micro_batches,
                     std::int64_t stage) {
  if (schedule == PipelineSchedule::kGPipe) return micro_batches;
  return std::min(micro_batches, stages - 1 - stage);
}

// What the stages have done so far, each from front to back of its list.
class Progress {
 public:
  explicit Progress(std::int64_t stages)
      : forwards_(static_cast<std::size_t>(stages)), backwards_(forwards_) {}

  // Whether the stage has what the step needs.
  bool ready(std::size_t stage, const PipelineStep& step) const {
    if (step.kind == Kind::kForward) return stage == 0 || forwards_[stage - 1] > step.micro_batch;
    if (forwards_[stage] <= step.micro_batch) return false;
    return stage + 1 == forwards_.size() || backwards_[stage + 1] > step.micro_batch;
  }
  // Both kinds come in rising order, so a count says which are done.
  void done(std::size_t stage, const PipelineStep& step) {
    ++(step.kind == Kind::kForward ? forwards_ : backwards_)[stage];
  }

 private:
  std::vector<std::int64_t> forwards_;
  std::vector<std::int64_t> backwards_;
};

}  // namespace

std::vector<PipelineStep> pipeline_steps(PipelineSchedule schedule, std::int64_t stages,
                                         std::int64_t micro_batches, std::int64_t stage) {
  std::vector<PipelineStep> steps;
  steps.reserve(static_cast<std::size_t>(2 * micro_batches));
  std::int64_t forward = warm_up(schedule, stages, micro_batches, stage);
  for (std::int64_t i = 0; i < forward; ++i) steps.push_back({Kind::kForward, i});
  for (std::int64_t backward = 0; backward < micro_batches; ++backward) {
    if (forward < micro_batches) steps.push_back({Kind::kForward, forward++});
    steps.push_back({Kind::kBackward, backward});
  }
  return steps;
}

std::vector<std::vector<std::int64_t>> pipeline_chart(PipelineSchedule schedule,
                                                      std::int64_t stages,
                                                      std::int64_t micro_batches) {
  const auto count = static_cast<std::size_t>(stages);
  std::vector<std::vector<PipelineStep>> steps;
  for (std::int64_t stage = 0; stage < stages; ++stage) {
    steps.push_back(pipeline_steps(schedule, stages, micro_batches, stage));
  }
  std::vector<std::vector<std::int64_t>> slots(count);
  std::vector<std::size_t> next(count, 0);
  Progress progress(stages);
  const auto finished = [&](std::size_t stage) { return next[stage] == steps[stage].size(); };
  for (std::size_t left = 2 * count * static_cast<std::size_t>(micro_batches); left > 0;) {
    // What is done in a slot can be used from the next one on.
    std::vector<std::size_t> working;
    for (std::size_t stage = 0; stage < count; ++stage) {
      const bool works = !finished(stage) && progress.ready(stage, steps[stage][next[stage]]);
      slots[stage].push_back(works ? static_cast<std::int64_t>(next[stage]) : -1);
      if (works) working.push_back(stage);
    }
    for (const std::size_t stage : working) progress.done(stage, steps[stage][next[stage]++]);
    left -= working.size();
  }
  return slots;
}

double bubble_fraction(std::int64_t stages, std::int64_t micro_batches) {
  return static_cast<double>(stages - 1) / static_cast<double>(micro_batches + stages - 1);
}

std::int64_t activations_held(PipelineSchedule schedule, std::int64_t stages,
                              std::int64_t micro_batches, std::int64_t stage) {
  if (schedule == PipelineSchedule::kGPipe) return micro_batches;
  return std::min(micro_batches, stages - stage);
}

Result<std::vector<std::int64_t>> micro_batches(std::int64_t batch, std::int64_t micro_batch) {
  if (micro_batch < 1) {
    return Error{
        ErrorCode::kInvalidArgument,
        fmt::format("micro-batch size {} for a batch of {}, wanted at least 1", micro_batch, batch),
        "bad_micro_batch"};
  }
  if (batch < micro_batch) {
    return Error{
        ErrorCode::kInvalidArgument,
        fmt::format("batch of {} is smaller than one micro-batch of {}", batch, micro_batch),
        "bad_micro_batch"};
  }
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(batch / micro_batch), micro_batch);
  if (batch % micro_batch > 0) sizes.push_back(batch % micro_batch);
  return sizes;
}

}  // namespace muster
