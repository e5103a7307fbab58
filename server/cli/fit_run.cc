#include "server/cli/fit_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "core/base/file.h"
#include "core/base/random.h"
#include "core/graph/model.h"
#include "core/train/data/standardizer.h"
#include "core/train/evaluate.h"
#include "core/train/training_run.h"
#include "server/cli/fit_data.h"
#include "server/cli/fit_display.h"
#include "server/cli/model_source.h"
#include "server/cli/text.h"

namespace muster::cli {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kCheckpointEvery{10};

double seconds_of(Clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

// A file that a user named and that is not there is wrong input.
Error wrong_input(Error error, const std::string& what) {
  if (error.code == ErrorCode::kNotFound) error.code = ErrorCode::kInvalidArgument;
  return with_context(std::move(error), what);
}

Status check_settings(const LocalSettings& saved, const LocalSettings& wanted) {
  const Json found = to_json(saved);
  const Json asked = to_json(wanted);
  for (const auto& [key, value] : asked.items()) {
    if (found.at(key) == value) continue;
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("it was made with local.{} {}, the job now has {}", key,
                             found.at(key).dump(), value.dump()),
                 "bad_checkpoint"};
  }
  return {};
}

// One training with its clocks.
class Fit {
 public:
  Fit(const FitInputs& inputs, const FitOptions& options, Workers& workers,
      const std::stop_token& stop)
      : inputs_(inputs), options_(options), workers_(workers), stop_(stop) {}

  Result<FitOutcome> run() {
    MUSTER_TRY(TrainingRun run, begin());
    first_example_ = run.examples_done();
    const std::int64_t size = inputs_.data.train.size();
    const std::int64_t batch = std::min(inputs_.job.local.batch_size, size);
    const std::int64_t steps_per_epoch = (size + batch - 1) / batch;
    epochs_ = (run.total_steps() + steps_per_epoch - 1) / steps_per_epoch;
    FitDisplay display(inputs_.job.name, epochs_, run.total_steps());
    first_step_ = run.steps();
    while (!run.done()) MUSTER_TRY_STATUS(step(run, display));
    display.clear();
    const bool interrupted = ending_ && run.steps() < run.total_steps();
    ending_ = false;
    const std::int64_t trained = run.examples_done() - first_example_;
    Result<Bytes> checkpoint;
    if (!options_.checkpoint.empty()) checkpoint = run.save();
    MUSTER_TRY(FitResult result, std::move(run).finish());
    return FitOutcome{.result = std::move(result),
                      .interrupted = interrupted,
                      .seconds = std::move(seconds_),
                      .training_seconds = training_seconds_,
                      .examples_trained = trained,
                      .checkpoint = std::move(checkpoint)};
  }

 private:
  Result<TrainingRun> begin() {
    // A stop is a deadline that has come: the run then ends like one that is out of time.
    TrainingRunOptions options{
        .clock = [this] { return ending_ ? Clock::time_point::max() : Clock::now(); },
        .deadline = Clock::time_point::max(),
        .workers = &workers_};
    if (!options_.resume) {
      return TrainingRun::create(inputs_.graph, inputs_.data.train, inputs_.start,
                                 inputs_.job.local, derive_seed(inputs_.job.seed, {"training"}),
                                 std::move(options));
    }
    const std::string file = options_.checkpoint.string();
    const Result<MappedFile> saved = MappedFile::open(file);
    if (!saved) return wrong_input(saved.error(), "checkpoint");
    MUSTER_TRY_IN(file, TrainingRun run,
                  TrainingRun::restore(inputs_.graph, inputs_.data.train, inputs_.start,
                                       saved->bytes(), std::move(options)));
    if (run.seed() != derive_seed(inputs_.job.seed, {"training"})) {
      return Error{ErrorCode::kInvalidArgument,
                   file + ": the checkpoint is of a job with another seed", "bad_saved_run"};
    }
    if (Status same = check_settings(run.settings(), inputs_.job.local); !same)
      return with_context(std::move(same).error(), file);
    return run;
  }

  Status step(TrainingRun& run, FitDisplay& display) {
    const Clock::time_point began = Clock::now();
    ending_ = stop_.stop_requested();
    MUSTER_TRY_STATUS(run.step());
    const double spent = seconds_of(Clock::now() - began);
    training_seconds_ += spent;
    epoch_seconds_ += spent;
    if (run.epoch_ended()) return end_epoch(run, display);
    if (display.is_due()) display.step(run.progress(), pace(run));
    return {};
  }

  Status end_epoch(TrainingRun& run, FitDisplay& display) {
    seconds_[run.progress().epoch] = epoch_seconds_;
    epoch_seconds_ = 0;
    const Clock::time_point began = Clock::now();
    Metrics measured;
    MUSTER_TRY_STATUS(measure(run.state(), inputs_.data.holdout, "", measured));
    MUSTER_TRY_STATUS(measure(run.state(), inputs_.test, "test_", measured));
    run.note_holdout(measured);
    measuring_seconds_ = seconds_of(Clock::now() - began);
    if (ending_) return {};
    display.epoch(run.progress(), pace(run), measured);
    if (options_.checkpoint.empty() || Clock::now() < next_save_ || run.done()) return {};
    keep(run, display);
    return {};
  }

  // Nothing after a stop: it would keep the user waiting.
  Status measure(const StateDict& state, const Dataset& data, const std::string& prefix,
                 Metrics& measured) {
    if (data.size() == 0 || ending_) return {};
    const Result<EvaluateResult> result =
        evaluate(inputs_.graph, state, data, inputs_.metrics, stop_, &workers_);
    if (!result && result.error().code == ErrorCode::kCancelled) return {};
    if (!result) return result.error();
    for (const auto& [name, value] : result->metrics) {
      if (std::isfinite(value)) measured[prefix + name] = value;
    }
    return {};
  }

  // What fails here may work the next time, and the trained state does not depend on it.
  void keep(const TrainingRun& run, FitDisplay& display) {
    next_save_ = Clock::now() + kCheckpointEvery;
    const Status kept = write_checkpoint(options_.checkpoint, run.save());
    if (kept || warned_) return;
    warned_ = true;
    display.clear();
    say(fmt::format("{}; training goes on\n", kept.error().message));
  }

  FitDisplay::Pace pace(const TrainingRun& run) const {
    const auto steps = static_cast<double>(run.steps() - first_step_);
    const auto examples = static_cast<double>(run.examples_done() - first_example_);
    const double step = training_seconds_ / steps;
    const std::int64_t epochs_left = epochs_ - run.progress().epoch + (run.epoch_ended() ? 0 : 1);
    return {.examples_per_second = examples / training_seconds_,
            .seconds_left = static_cast<double>(run.total_steps() - run.steps()) * step +
                            static_cast<double>(epochs_left) * measuring_seconds_};
  }

  const FitInputs& inputs_;
  const FitOptions& options_;
  Workers& workers_;
  const std::stop_token& stop_;
  std::map<std::int64_t, double> seconds_;
  double training_seconds_ = 0;
  bool ending_ = false;
  std::int64_t epochs_ = 1;
  std::int64_t first_step_ = 0;
  std::int64_t first_example_ = 0;
  double epoch_seconds_ = 0;
  double measuring_seconds_ = 0;                // after the last epoch
  Clock::time_point next_save_ = Clock::now();  // early, to learn early whether it works
  bool warned_ = false;
};

}  // namespace

Result<FitInputs> read_fit_inputs(const FitOptions& options) {
  MUSTER_TRY(FitJob job, read_fit_job(options.job));
  const std::string file = options.job.string();
  if (!options.data.empty()) job.data = options.data;
  if (!options.test.empty()) job.test_data = options.test;
  if (job.data.empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 file + ": there is no training data; name it with --data or in the job's \"data\"",
                 "bad_job"};
  }
  // What costs least first.
  const bool unfitted = has_unfitted_standardizers(job.model);
  if (!unfitted) {
    if (const Result<Json> checked = resolve_model(job.model, "job.model"); !checked)
      return with_context(checked.error(), file);
  }
  MUSTER_TRY(FitData data, load_fit_data(job.data, job.test_data));
  Json model = job.model;
  if (unfitted) {
    MUSTER_TRY_IN(file, model, fit_standardizers(job.model, data.local.train));
  }
  MUSTER_TRY_IN(file, model, resolve_model(model, "job.model"));
  MUSTER_TRY_IN(file, Graph graph, graph_from_model(model, "job.model"));
  if (Status fits = check_data_fits(graph, data.local.train); !fits)
    return with_context(std::move(fits).error(), "training data");
  if (Status fits = check_data_fits(graph, data.test); data.test.size() > 0 && !fits)
    return with_context(std::move(fits).error(), "test data");
  MetricSet metrics = default_metrics(graph.loss());
  if (!job.metrics.is_null()) {
    MUSTER_TRY_IN(file, metrics, metrics_from_json(job.metrics, "job.evaluation.metrics", graph));
  }
  MUSTER_TRY(StateDict start, initial_state_of(model, job.seed));
  if (!options.init.empty()) {
    Result<StateDict> given = read_state_file(options.init, graph.layout());
    if (!given) return wrong_input(std::move(given).error(), "initial state");
    start = *std::move(given);
  }
  return FitInputs{.job = std::move(job),
                   .data = std::move(data.local),
                   .test = std::move(data.test),
                   .model = std::move(model),
                   .graph = std::move(graph),
                   .metrics = std::move(metrics),
                   .start = std::move(start)};
}

Result<FitOutcome> run_fit(const FitInputs& inputs, const FitOptions& options, Workers& workers,
                           const std::stop_token& stop) {
  if (stop.stop_requested()) {
    return Error{ErrorCode::kCancelled, "stopped before the first step; nothing was written"};
  }
  return Fit(inputs, options, workers, stop).run();
}

Status write_checkpoint(const std::filesystem::path& file, const Result<Bytes>& saved) {
  Status written = saved ? write_file_durably(file, *saved) : saved.error();
  if (written) return {};
  return with_context(std::move(written).error(),
                      fmt::format("the checkpoint {} could not be written", file.string()));
}

}  // namespace muster::cli
