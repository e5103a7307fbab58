#include "core/train/training_run.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <string>
#include <utility>

#include "core/base/random.h"
#include "core/tensor/kernels/kernels.h"
#include "core/train/clip.h"

namespace muster {
namespace {

// Sets the draws of a batch's parts apart.
constexpr std::uint64_t kPartSeed = 0xD1B54A32D192ED03ULL;

std::int64_t steps_of(const LocalSettings& settings, std::int64_t steps_per_epoch) {
  const std::int64_t steps = settings.epochs * steps_per_epoch;
  return settings.max_steps > 0 ? std::min(steps, settings.max_steps) : steps;
}

std::int64_t parts_of(std::int64_t count, std::int64_t part) {
  return (count + part - 1) / part;
}

}  // namespace

TrainingRun::TrainingRun(const Graph& graph, const Dataset& data, const StateDict& start,
                         const LocalSettings& settings, TrainingRunOptions options, GraphRun run)
    : graph_(&graph),
      data_(&data),
      start_(&start),
      settings_(settings),
      options_(std::move(options)),
      run_(std::move(run)),
      batch_(graph, std::min(settings.batch_size, data.size()),
             std::min(settings.micro_batch(), data.size())),
      batch_size_(std::min(settings.batch_size, data.size())),
      part_size_(std::min(settings.micro_batch(), data.size())),
      steps_per_epoch_(parts_of(data.size(), batch_size_)),
      total_steps_(steps_of(settings, steps_per_epoch_)),
      doutput_(static_cast<std::size_t>(part_size_ * graph.node(graph.output()).size)),
      w_(start.clone()),
      gradient_(start.layout_ptr()),
      optimizer_(Optimizer::create(settings.optimizer)),
      optimizer_state_(optimizer_->start(start.layout_ptr())),
      order_(static_cast<std::size_t>(data.size())),
      tally_(graph.loss()) {
  epochs_.reserve(std::min(static_cast<std::size_t>(settings.epochs), kMostEpochsKept));
}

Result<TrainingRun> TrainingRun::make(const Graph& graph, const Dataset& data,
                                      const StateDict& start, const LocalSettings& settings,
                                      TrainingRunOptions options) {
  if (data.size() == 0) {
    return Error{ErrorCode::kFailedPrecondition, "training: there are no local examples",
                 "no_data"};
  }
  MUSTER_TRY_STATUS(check_same_layout(*graph.layout(), start.layout()));
  MUSTER_TRY_STATUS(check_finite(start.layout(), start.values()));
  MUSTER_TRY_STATUS(check_data_fits(graph, data));
  if (options.gradient_offset != nullptr) {
    const StateDict& offset = *options.gradient_offset;
    Status good = check_same_layout(start.layout(), offset.layout());
    if (good) good = check_finite(offset.layout(), offset.values());
    if (!good) return with_context(std::move(good).error(), "gradient offset");
  }
  MUSTER_TRY(GraphRun run,
             GraphRun::create(graph, {.max_batch = std::min(settings.micro_batch(), data.size()),
                                      .limit_bytes = options.limit_bytes,
                                      .workers = options.workers}));
  return TrainingRun(graph, data, start, settings, std::move(options), std::move(run));
}

Result<TrainingRun> TrainingRun::create(const Graph& graph, const Dataset& data,
                                        const StateDict& start, const LocalSettings& settings,
                                        std::uint64_t seed, TrainingRunOptions options) {
  MUSTER_TRY(TrainingRun run, make(graph, data, start, settings, std::move(options)));
  run.derive_seeds(seed);
  run.start_clock(0);
  return run;
}

void TrainingRun::derive_seeds(std::uint64_t seed) {
  seed_ = seed;
  dropout_seed_ = derive_seed(seed, {"dropout"});
  order_seed_ = derive_seed(seed, {"order"});
}

Status TrainingRun::step() {
  if (failure_) return *failure_;
  if (done()) {
    return Error{ErrorCode::kFailedPrecondition, "training: all steps are done, or the time is up"};
  }
  if (position() == 0) begin_epoch();
  const auto at = static_cast<std::size_t>(position());
  const std::size_t count = std::min(static_cast<std::size_t>(batch_size_), order_.size() - at);
  Status status = compute_gradient(std::span<const std::int64_t>(order_).subspan(at, count));
  if (status) status = move_weights();
  if (!status) {
    failure_ = status.error();
    return status;
  }
  ++steps_;
  look_at_clock();
  if (epoch_ended()) end_epoch();
  return {};
}

void TrainingRun::begin_epoch() {
  tally_ = Tally(graph_->loss());
  std::iota(order_.begin(), order_.end(), std::int64_t{0});
  // Random spreads neighbouring seeds over its whole state.
  if (settings_.shuffle && steps_ < total_steps_) {
    Random(order_seed_ + static_cast<std::uint64_t>(epoch())).shuffle(order_);
  }
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

// The gradient of the batch's loss, part after part; also the batch's figures and the next values
// of parameters that no gradient moves.
Status TrainingRun::compute_gradient(std::span<const std::int64_t> positions) {
  const Loss& loss = graph_->loss();
  const auto size = static_cast<std::size_t>(part_size_);
  batch_.load_targets(*data_, positions);
  const double whole = loss.normaliser(batch_.target());
  double value = 0;
  for (std::size_t at = 0; at < positions.size(); at += size) {
    const std::size_t count = std::min(size, positions.size() - at);
    const TargetView target = batch_.target(at, count);
    batch_.load_features(*data_, positions, at, count);
    const std::uint64_t seed =
        dropout_seed_ + static_cast<std::uint64_t>(steps_) + kPartSeed * (at / size);
    const std::span<const float> output = run_.run(
        w_, batch_.features(), static_cast<std::int64_t>(count), {.training = true, .seed = seed});
    const std::span<float> doutput = std::span(doutput_).first(output.size());
    value += loss.compute_part(output, target, whole, doutput);
    if (!std::isfinite(value)) return blew_up(value);
    tally_.count_correct(output, target);
    run_.backward(doutput, gradient_, at > 0);
    run_.update_untrained(w_);
  }
  tally_.add(value, whole, static_cast<std::int64_t>(positions.size()));
  return {};
}

void TrainingRun::add_gradient_offset() {
  constexpr std::int64_t kPart = 32'768;
  const auto add = kernels::best().add;
  for (const Graph::Range& range : graph_->trained_ranges()) {
    const float* offset = options_.gradient_offset->values().data() + range.offset;
    float* gradient = gradient_.values().data() + range.offset;
    const auto part = [&](std::int64_t begin, std::int64_t end, int /*worker*/) {
      add(end - begin, offset + begin, gradient + begin);
    };
    if (options_.workers == nullptr) {
      part(0, range.size, 0);
    } else {
      options_.workers->for_each(range.size, kPart, part);
    }
  }
}

Status TrainingRun::move_weights() {
  if (options_.gradient_offset != nullptr) add_gradient_offset();
  const std::vector<Graph::Range>& ranges = graph_->trained_ranges();
  Optimizer::Step step{
      .lr = learning_rate(settings_.schedule, settings_.optimizer.lr, steps_, total_steps_),
      .proximal = {.mu = settings_.mu, .global = start_},
      .workers = options_.workers};
  if (settings_.clip_norm > 0) {
    const double norm = gradient_norm(gradient_, w_, ranges, step.proximal);
    if (!std::isfinite(norm)) return gradient_blew_up();
    step.scale = clip_scale(norm, settings_.clip_norm);
  }
  if (!optimizer_->step(w_, gradient_, ranges, step, optimizer_state_)) return gradient_blew_up();
  return {};
}

std::int64_t TrainingRun::examples_done() const {
  return epoch() * data_->size() + position();
}

FitProgress TrainingRun::progress() const {
  FitProgress progress{
      .steps_done = steps_, .steps_total = total_steps_, .loss = tally_.mean_loss()};
  progress.epoch = steps_ == 0 ? 1 : (steps_ - 1) / steps_per_epoch_ + 1;
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
  if (Status finite = check_finite(w_.layout(), w_.values()); !finite) {
    return non_finite("after the last step: " + finite.error().message);
  }
  FitResult result{.state = std::move(w_),
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
