#include "core/strategy/executors/population_crew.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

namespace muster {
namespace {

constexpr double kWorst = -std::numeric_limits<double>::infinity();

// Members that wait for a worker, by their number.
class Queue {
 public:
  explicit Queue(std::size_t members) : waiting_(members) {
    // The first is taken from the back.
    std::iota(waiting_.rbegin(), waiting_.rend(), std::size_t{0});
  }
  std::optional<std::size_t> take() {
    const std::lock_guard lock(mutex_);
    if (waiting_.empty()) return std::nullopt;
    const std::size_t member = waiting_.back();
    waiting_.pop_back();
    return member;
  }
  void put_back(std::size_t member) {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(member);
  }
  bool empty() {
    const std::lock_guard lock(mutex_);
    return waiting_.empty();
  }

 private:
  std::mutex mutex_;
  std::vector<std::size_t> waiting_;  // guarded by mutex_
};

}  // namespace

PopulationCrew::PopulationCrew(StrategyContext& context, const StrategyTask& task,
                               std::int64_t min_workers, std::vector<std::int64_t> alive,
                               FanOut fan_out)
    : context_(&context),
      task_(&task),
      min_workers_(min_workers),
      alive_(std::move(alive)),
      fan_out_(std::move(fan_out)) {}

Result<PopulationCrew> PopulationCrew::create(StrategyContext& context, const StrategyTask& task,
                                              std::int64_t min_workers) {
  std::vector<std::int64_t> alive;
  for (std::int64_t worker = 0; worker < context.num_workers(); ++worker) {
    if (!context.is_lost(worker)) alive.push_back(worker);
  }
  const auto count = static_cast<std::int64_t>(alive.size());
  if (count < std::max<std::int64_t>(1, min_workers)) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("PopulationBased: at least {} workers are wanted (min_workers), there "
                             "are {}",
                             std::max<std::int64_t>(1, min_workers), count),
                 "bad_strategy"};
  }
  MUSTER_TRY(FanOut fan_out, FanOut::create(alive.size()));
  return PopulationCrew(context, task, min_workers, std::move(alive), std::move(fan_out));
}

Result<std::vector<MemberOutcome>> PopulationCrew::train(std::span<const MemberTurn> members) {
  std::vector<MemberOutcome> outcomes(members.size());
  Queue queue(members.size());
  while (!queue.empty()) {
    const auto results = fan_out_.run(alive_, [&](std::size_t, std::int64_t worker) -> Status {
      while (const std::optional<std::size_t> member = queue.take()) {
        Result<MemberOutcome> outcome = train_on(worker, members[*member]);
        if (!outcome) {
          queue.put_back(*member);
          return std::move(outcome).error();
        }
        outcomes[*member] = *std::move(outcome);
      }
      return {};
    });
    MUSTER_TRY_STATUS(settle(results));
  }
  return outcomes;
}

Result<MemberOutcome> PopulationCrew::train_on(std::int64_t worker,
                                               const MemberTurn& member) const {
  const TrainingPlan plan{
      .model = task_->model, .settings = member.settings, .seed = member.seed, .data = task_->data};
  if (const Status ready = context_->prepare(worker, plan, *member.start); !ready) {
    return failed(worker, ready.error());
  }
  Result<FitResult> fitted = context_->execute_on_worker(worker);
  if (!fitted) return failed(worker, fitted.error());
  Result<EvaluateResult> scored = context_->evaluate(worker);
  if (!scored) return failed(worker, scored.error());
  MemberOutcome outcome{.state = std::move(fitted->state),
                        .training = std::move(fitted->metrics),
                        .holdout = std::move(scored->metrics)};
  const auto accuracy = outcome.holdout.find("accuracy");
  const auto loss = outcome.holdout.find("loss");
  if (accuracy != outcome.holdout.end()) {
    outcome.score = accuracy->second;
  } else if (loss != outcome.holdout.end()) {
    outcome.score = -loss->second;
  } else {
    outcome.score = std::numeric_limits<double>::quiet_NaN();
  }
  // Accuracy is no number either where predictions are not.
  const bool finite = std::isfinite(outcome.score) &&
                      (loss == outcome.holdout.end() || std::isfinite(loss->second));
  if (finite) return outcome;
  return MemberOutcome{.score = kWorst,
                       .failure = "its score on the held-out examples is not a finite number"};
}

// An error of the member's own is its failure; that of its worker is not.
Result<MemberOutcome> PopulationCrew::failed(std::int64_t worker, const Error& error) const {
  if (is_worker_lost(error) || error.code == ErrorCode::kCancelled) return error;
  const std::string prefix = worker_name(context_->worker(worker)) + ": ";
  const bool named = error.message.starts_with(prefix);
  return MemberOutcome{.score = kWorst,
                       .failure = named ? error.message.substr(prefix.size()) : error.message};
}

Status PopulationCrew::settle(std::span<const Status> results) {
  std::optional<Error> loss;
  for (const Status& result : results) {
    if (result) continue;
    if (!is_worker_lost(result.error())) return result.error();
    if (!loss) loss = result.error();
  }
  if (!loss) return {};
  std::erase_if(alive_, [&](std::int64_t worker) { return context_->is_lost(worker); });
  const auto left = static_cast<std::int64_t>(alive_.size());
  if (left >= std::max<std::int64_t>(1, min_workers_) && alive_.size() < results.size()) return {};
  loss->message += fmt::format("; {} of {} workers are left, at least {} are wanted", left,
                               context_->num_workers(), std::max<std::int64_t>(1, min_workers_));
  return *loss;
}

Json PopulationCrew::report() const {
  Json left = Json::array();
  Json lost = Json::array();
  for (std::int64_t worker = 0; worker < context_->num_workers(); ++worker) {
    Json& list = std::ranges::binary_search(alive_, worker) ? left : lost;
    list.push_back(context_->worker(worker).id);
  }
  return {{"workers", std::move(left)}, {"lost", std::move(lost)}};
}

}  // namespace muster
