#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <stop_token>

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/workers.h"
#include "core/graph/graph.h"
#include "core/tensor/state.h"
#include "core/train/data/dataset.h"
#include "core/train/local_trainer.h"
#include "core/train/metrics/metric_set.h"
#include "server/cli/fit_job.h"

namespace muster::cli {

struct FitOptions {
  std::filesystem::path job;
  std::string data;                  // empty: the job's
  std::string test;                  // empty: the job's
  std::filesystem::path init;        // empty: a fresh state from the seed
  std::filesystem::path out;         // empty: NAME.safetensors
  std::filesystem::path checkpoint;  // empty: none
  bool resume = false;
  int threads = 0;  // 0: as many as there are cores
};

// All that a training needs, checked. Stays where it is while it is trained.
struct FitInputs {
  FitJob job;
  LocalData data;
  Dataset test;  // no examples: none
  Json model;    // resolved, standardisers fitted
  Graph graph;
  MetricSet metrics;
  StateDict start;
};

// Reads job, data and start state; nothing is written.
// Errors: those of the readers, naming file and field; kInvalidArgument when what was read does not
// fit together.
Result<FitInputs> read_fit_inputs(const FitOptions& options);

struct FitOutcome {
  FitResult result;  // its epochs have what was measured after each; test data's as "test_NAME"
  bool interrupted = false;
  std::map<std::int64_t, double> seconds;  // by epoch: what this process spent training it
  double training_seconds = 0;
  std::int64_t examples_trained = 0;  // by this process
  // The whole run at its end, which the caller writes behind the state; empty without a file for
  // it. Where it could not be made, why.
  Result<Bytes> checkpoint;
};

// Trains from the first step, or from the checkpoint on, to the last; shows progress and keeps the
// checkpoint: after the first epoch, then between epochs when ten seconds have gone by. One that
// cannot be written is said once, on standard error, and the training goes on. When `stop` is asked
// it ends after the step at hand with what there is. Errors: as TrainingRun; kInvalidArgument,
// reason "bad_checkpoint"; kCancelled when it was stopped before the first step.
Result<FitOutcome> run_fit(const FitInputs& inputs, const FitOptions& options, Workers& workers,
                           const std::stop_token& stop);

// Errors: that of `saved` or of the file system, naming the checkpoint.
Status write_checkpoint(const std::filesystem::path& file, const Result<Bytes>& saved);

}  // namespace muster::cli
