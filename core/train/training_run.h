#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/workers.h"
#include "core/graph/graph.h"
#include "core/tensor/state.h"
#include "core/train/batch_order.h"
#include "core/train/data/dataset.h"
#include "core/train/local_trainer.h"
#include "core/train/replica.h"
#include "core/train/settings.h"
#include "core/train/tally.h"

namespace muster {

using SteadyClock = std::function<std::chrono::steady_clock::time_point()>;

struct TrainingRunOptions {
  SteadyClock clock = std::chrono::steady_clock::now;
  // The run ends at this time, besides what its settings say.
  std::optional<std::chrono::steady_clock::time_point> deadline = {};
  Workers* workers = nullptr;                          // as in GraphRunOptions
  std::uint64_t limit_bytes = std::uint64_t{1} << 34;  // for the workspace
  // Added to the gradient in every step, before the proximal term and clipping; the layout of the
  // start state, all finite; null: nothing. Belongs to the caller for as long as the run lives.
  const StateDict* gradient_offset = nullptr;
};

// One training of one graph on one data set, stepped by hand: what a fit of GraphTrainer is made
// of, for programs that drive training themselves.
//
//   MUSTER_TRY(TrainingRun run, TrainingRun::create(graph, data, start, settings, seed));
//   while (!run.done()) MUSTER_TRY_STATUS(run.step());
//   MUSTER_TRY(FitResult result, std::move(run).finish());
//
// The graph, the data, the start state (where the proximal term pulls to) and the workers belong to
// the caller and must stay where they are for as long as this lives. One thread at a time.
//
// The order of examples is derived from the seed and the epoch, what ops draw from the seed and the
// step. So equal arguments give equal bits on one kind of machine, with any number of workers, and
// so does a run that was saved between any two steps and restored: in the weights, the moments and
// the metrics. All memory is taken by `create` and `restore`; a step allocates nothing.
class TrainingRun {
 public:
  static constexpr std::size_t kMostEpochsKept = 1000;  // of their metrics

  // Errors: kInvalidArgument when graph, data, start and offset do not fit together;
  // kFailedPrecondition, reason "no_data", without examples; kResourceExhausted when the workspace
  // is over the limit.
  static Result<TrainingRun> create(const Graph& graph, const Dataset& data, const StateDict& start,
                                    const LocalSettings& settings, std::uint64_t seed,
                                    TrainingRunOptions options = {});

  // Goes on where `save` was called. The settings and the seed come from `saved`; graph, data,
  // start and gradient offset must be those that the run began with. The time that "max_seconds"
  // counts goes on with what was left.
  //   saved  bytes from outside: the format is described at `save`
  // Errors: as create; kInvalidArgument, reason "bad_saved_run", with what is wrong: a field is
  // missing, unknown or contradicts another, a tensor is missing or extra, a value is not finite,
  // the run began from another state, with another graph, other data or another gradient offset, or
  // its tensors are not those that were saved.
  static Result<TrainingRun> restore(const Graph& graph, const Dataset& data,
                                     const StateDict& start, ByteView saved,
                                     TrainingRunOptions options = {});

  // A safetensors file with the tensors "w/<name>" (the weights so far) and "<moment>/<name>" for
  // each of the optimiser's moments ("exp_avg/fc1.weight"), and the metadata {"run": text}, where
  // the text is the JSON
  //   {"format": 1, "settings": {...}, "seed": "42", "start": digest of the start state,
  //    "graph": SHA-256 of the graph's canonical JSON, "data": digest of the data,
  //    "tensors": SHA-256 of all tensors' bytes, "examples": 6000, "steps": 70, "spent_seconds": 0,
  //    "tally": {"loss_sum": 12.5, "weight": 100, "examples": 100, "correct": 60 or null},
  //    "epochs": [{"epoch": 1, "examples": 6000, "loss": 0.5, "accuracy": 0.9 or null,
  //                "holdout": {"loss": 0.6}}]}
  // and, with a gradient offset, "gradient_offset": its digest. Every field is required, the
  // settings with all defaults written out. Errors: kFailedPrecondition after a step that failed;
  // kResourceExhausted when names of tensors and the metrics of the epochs take over 16 MiB.
  Result<Bytes> save() const;

  // One optimiser step. Errors: kFailedPrecondition, reason "non_finite", when the loss, a gradient
  // or a weight is NaN or infinite, with the step and where it began: the node (in order of
  // computation), the parameter whose gradient was the first (in the order of the backward pass);
  // the run has then ended, and step, save and finish give this error again. Also when it is done.
  Status step();

  // All steps are done, or the time is up.
  bool done() const { return steps_ == total_steps_ || time_is_up_; }
  // The last step was the last of its epoch or of the run.
  bool epoch_ended() const { return steps_ > 0 && (position() == 0 || done()); }

  const StateDict& state() const { return replica_.state(); }
  const LocalSettings& settings() const { return settings_; }
  std::uint64_t seed() const { return seeds_.own; }
  std::int64_t steps() const { return steps_; }
  std::int64_t total_steps() const { return total_steps_; }
  std::int64_t examples_done() const;
  // Mean loss over the examples of the epoch so far, and so on; no rate.
  FitProgress progress() const;
  // Adds metrics of the held-out examples to the epoch that has just ended; those that are not
  // finite are dropped, as the saved form has no place for them.
  void note_holdout(Metrics metrics);

  // The trained state and its metrics; `complete` says whether all steps were done.
  // Errors: kDeadlineExceeded, reason "no_time", when the time was up before the first step;
  // kFailedPrecondition when it is not done.
  Result<FitResult> finish() &&;

 private:
  // A run at its first step, without its clock.
  static Result<TrainingRun> make(const Graph& graph, const Dataset& data, const StateDict& start,
                                  const LocalSettings& settings, std::uint64_t seed,
                                  TrainingRunOptions options);
  TrainingRun(const Graph& graph, const Dataset& data, const StateDict& start,
              const LocalSettings& settings, std::uint64_t seed, TrainingRunOptions options,
              Replica replica);

  std::int64_t epoch() const { return steps_ / order_.steps_per_epoch(); }
  // Examples of the epoch that are behind; 0 at the beginning and the end of one.
  std::int64_t position() const { return steps_ % order_.steps_per_epoch() * order_.batch_size(); }
  void end_epoch();
  void start_clock(double spent_seconds);
  void look_at_clock();
  double spent_seconds() const;

  Json saved_json(const Digest& tensors) const;
  // Gives the digest of the tensors.
  Result<Digest> read_json(const Json& json);
  const Digest& data_digest() const;
  Status read_epochs(const Json& json);

  const Graph* graph_;
  const Dataset* data_;
  const StateDict* start_;
  LocalSettings settings_;
  TrainingRunOptions options_;
  Replica replica_;
  TrainingSeeds seeds_;
  BatchOrder order_;
  std::int64_t total_steps_;
  Tally tally_;  // of the epoch so far
  std::vector<EpochMetrics> epochs_;
  std::int64_t steps_ = 0;
  bool time_is_up_ = false;
  std::optional<std::chrono::steady_clock::time_point> ends_;
  std::chrono::steady_clock::time_point began_;
  double spent_before_ = 0;                    // seconds, before a restore
  mutable std::optional<Digest> data_digest_;  // once it was asked for
  std::optional<Error> failure_;
};

}  // namespace muster
