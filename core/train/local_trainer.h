#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/tensor/state.h"
#include "core/train/settings.h"

namespace muster {

// Metric name to value; only finite values are kept by whoever reads them.
using Metrics = std::map<std::string, double>;

// What a device is asked to train: everything but its data.
struct FitTask {
  std::string job;
  std::int64_t round = 0;
  Json model;              // the job's "model" in its resolved form, for trainers that build it
  LocalSettings local;     // epochs, batch size, optimiser, proximal term
  std::uint64_t seed = 0;  // of this device in this round; fixes shuffling
  // The time there is for the training, where its caller knows; a trainer that can ends within it
  // and gives the partial work. Not part of the task's message.
  std::optional<std::chrono::milliseconds> budget = {};
  // Added to the gradient in every step, before clipping (drift_correction.h); the layout of the
  // global state, all finite; null: nothing. Belongs to the caller, until the fit is over. Not part
  // of the task's message.
  const StateDict* gradient_offset = nullptr;
  // The metrics are to have "initial_loss": the mean loss of the global state over the training
  // examples, before the first step.
  bool report_initial_loss = false;
};

struct FitProgress {
  std::int64_t steps_done = 0;
  std::int64_t steps_total = 0;
  double loss = 0;                 // mean over the examples seen in this epoch
  std::int64_t epoch = 0;          // from 1; 0: the trainer does not say
  double examples_per_second = 0;  // since the fit began; 0: the trainer does not say
};

// One epoch of a fit.
struct EpochMetrics {
  std::int64_t epoch = 0;     // from 1
  std::int64_t examples = 0;  // seen in it; fewer than there are in one that was cut short
  double loss = 0;            // mean, as the batches were met in training
  std::optional<double> accuracy = {};  // the same, where the loss knows right from wrong
  Metrics holdout = {};  // of the state after it on the held-out examples, where that was asked for

  bool operator==(const EpochMetrics&) const = default;
};

struct FitResult {
  StateDict state;            // layout of the global state it began from
  std::int64_t examples = 0;  // > 0, training examples behind the state: its weight
  std::int64_t steps = 0;     // optimiser steps done
  Metrics metrics;  // "loss": mean training loss of the last epoch; others as the trainer likes
  // False: a time budget ended it. What it has is then the partial work of FedProx (Li et al. 2020,
  // section 3.2), which counts like any other, with the `steps` done.
  bool complete = true;
  std::vector<EpochMetrics> epochs = {};  // in order; the last 1,000 at most
};

struct EvaluateResult {
  std::int64_t examples = 0;
  Metrics metrics;  // "loss", "accuracy", ...
};

// What a device implements to take part: its data, its framework. GraphTrainer
// (core/train/graph_trainer.h) is Muster's own; users bring another framework by implementing these
// three functions.
//
// Owned by whoever runs the agent. One call at a time, from one thread; `stop` may be asked from
// any thread. After an error the trainer is as before the call.
class LocalTrainer {
 public:
  virtual ~LocalTrainer() = default;

  // Training examples held here; 0 makes the device decline.
  virtual std::int64_t num_examples() const = 0;

  // Whether `fit` adds FitTask::gradient_offset. A device whose trainer does not takes no part in
  // jobs that want one.
  virtual bool takes_gradient_offset() const { return false; }

  // Trains from `global` on the local data.
  // Errors: kCancelled when `stop` was asked; kInvalidArgument when the model does not fit the
  // data; kFailedPrecondition, reason "non_finite", when the loss or a weight turned NaN or
  // infinite.
  virtual Result<FitResult> fit(const StateDict& global, const FitTask& task, std::stop_token stop,
                                const std::function<void(const FitProgress&)>& progress) = 0;

  // Evaluates `global` on the local held-out part; 0 examples when there is none.
  virtual Result<EvaluateResult> evaluate(const StateDict& global, const FitTask& task,
                                          std::stop_token stop) = 0;
};

}  // namespace muster
