#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/error.h"

namespace muster {

// The order in which pipeline stages work on micro-batches, as pure functions. A stage runs its
// list from front to back, each entry as soon as what it needs is there.
//
//   GPipe (Huang et al. 2019, section 2.3): all forwards, then all backwards. Holds the activations
//   of all micro-batches.
//   1F1B (Narayanan et al. 2019, PipeDream-flush): after a warm-up of stages - 1 - stage forwards,
//   one forward and one backward in turn. The same bubble; holds at most stages - stage
//   activations.
enum class PipelineSchedule { kGPipe, kOneForwardOneBackward };

struct PipelineStep {
  enum class Kind { kForward, kBackward };
  Kind kind = Kind::kForward;
  std::int64_t micro_batch = 0;
  bool operator==(const PipelineStep&) const = default;
};

// What stage `stage` of `stages` does for `micro_batches`, in order. Backwards come in rising order
// of micro-batches in both schedules, so gradients are added in the same order.
std::vector<PipelineStep> pipeline_steps(PipelineSchedule schedule, std::int64_t stages,
                                         std::int64_t micro_batches, std::int64_t stage);

// The same as a chart of slots when every forward and every backward takes one: slots[stage][time],
// an index into pipeline_steps or -1 for idle.
std::vector<std::vector<std::int64_t>> pipeline_chart(PipelineSchedule schedule,
                                                      std::int64_t stages,
                                                      std::int64_t micro_batches);
// (stages - 1) / (micro_batches + stages - 1): the idle share of that chart.
double bubble_fraction(std::int64_t stages, std::int64_t micro_batches);
// The most micro-batches whose activations a stage holds at once.
std::int64_t activations_held(PipelineSchedule schedule, std::int64_t stages,
                              std::int64_t micro_batches, std::int64_t stage);

// The sizes of the micro-batches of a batch; the last may be shorter.
// Errors: kInvalidArgument: micro_batch < 1, or a batch smaller than one micro-batch, naming both.
Result<std::vector<std::int64_t>> micro_batches(std::int64_t batch, std::int64_t micro_batch);

}  // namespace muster
