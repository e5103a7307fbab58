#include "core/strategy/executors/data_parallel_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/graph/model.h"
#include "core/strategy/executors/split_rows.h"

namespace muster {
namespace {

// Sets the draws of a batch's shares apart.
constexpr std::uint64_t kShareSeed = 0xA24BAED4963EE407ULL;

Error invalid(std::string message) {
  return {ErrorCode::kInvalidArgument, "DataParallel: " + std::move(message), "bad_strategy"};
}

Status check(const StrategyContext& context, const DataParallel& strategy,
             const StrategyTask& task) {
  const std::int64_t replicas = strategy.num_replicas;
  const std::int64_t rows = task.data.train.size();
  if (rows == 0) {
    return Error{ErrorCode::kFailedPrecondition, "DataParallel: there are no training rows",
                 "no_data"};
  }
  if (replicas > context.num_workers()) {
    return invalid(fmt::format("{} replicas are wanted, there are {} workers", replicas,
                               context.num_workers()));
  }
  if (rows < replicas) {
    return invalid(fmt::format("{} training rows are fewer than {} replicas", rows, replicas));
  }
  if (task.settings.batch_size < replicas) {
    return invalid(fmt::format("a batch_size of {} gives fewer rows than {} replicas",
                               task.settings.batch_size, replicas));
  }
  return {};
}

}  // namespace

DataParallelRun::DataParallelRun(StrategyContext& context, const DataParallel& strategy,
                                 const StrategyTask& task, const StrategyObserver& observer,
                                 Graph graph, FanOut fan_out)
    : context_(&context),
      strategy_(&strategy),
      task_(&task),
      observer_(&observer),
      graph_(std::move(graph)),
      fan_out_(std::move(fan_out)),
      seeds_(task.seed),
      order_(task.data.train.size(), task.settings, seeds_.order),
      targets_(graph_, order_.batch_size(), 0),
      alive_(static_cast<std::size_t>(strategy.num_replicas)),
      figures_(task, graph_.loss(), order_),
      bytes_before_(context.bytes_moved()) {
  std::iota(alive_.begin(), alive_.end(), std::int64_t{0});
}

Result<std::unique_ptr<DataParallelRun>> DataParallelRun::create(StrategyContext& context,
                                                                 const DataParallel& strategy,
                                                                 const StrategyTask& task,
                                                                 const StrategyObserver& observer) {
  MUSTER_TRY_STATUS(check(context, strategy, task));
  MUSTER_TRY(Graph graph, graph_from_model(task.model));
  MUSTER_TRY_STATUS(check_same_layout(*graph.layout(), task.start->layout()));
  MUSTER_TRY_STATUS(check_data_fits(graph, task.data.train));
  MUSTER_TRY(FanOut fan_out, FanOut::create(static_cast<std::size_t>(strategy.num_replicas)));
  std::unique_ptr<DataParallelRun> run(
      new DataParallelRun(context, strategy, task, observer, std::move(graph), std::move(fan_out)));
  run->keep(task.start->clone());
  return run;
}

Status DataParallelRun::prepare() {
  const TrainingPlan plan{
      .model = task_->model, .settings = task_->settings, .seed = task_->seed, .data = task_->data};
  const auto results = fan_out_.run(alive_, [&](std::size_t /*slot*/, std::int64_t worker) {
    return context_->prepare(worker, plan, *task_->start);
  });
  const Result<bool> settled = settle(results);
  if (!settled) return interrupted(settled.error());
  return {};
}

double DataParallelRun::normaliser_of(std::span<const std::int64_t> positions) {
  targets_.load_targets(task_->data.train, positions);
  return graph_.loss().normaliser(targets_.target());
}

std::vector<BatchShare> DataParallelRun::shares_of(std::int64_t step) {
  const std::span<const std::int64_t> batch = order_.batch(step);
  const double normaliser = normaliser_of(batch);
  std::vector<std::int64_t> weights;
  for (const std::int64_t worker : alive_) {
    weights.push_back(
        strategy_->shares.empty() ? 1 : strategy_->shares[static_cast<std::size_t>(worker)]);
  }
  std::vector<BatchShare> shares;
  std::size_t begin = 0;
  for (const std::int64_t rows : split_rows(static_cast<std::int64_t>(batch.size()), weights)) {
    const auto positions = batch.subspan(begin, static_cast<std::size_t>(rows));
    begin += static_cast<std::size_t>(rows);
    shares.push_back(
        {.positions = {positions.begin(), positions.end()},
         .normaliser = normaliser,
         .untrained_weight = static_cast<double>(rows) / static_cast<double>(batch.size()),
         .seed = seeds_.of_step(step) + kShareSeed * shares.size(),
         .at = at(step)});
  }
  return shares;
}

Result<bool> DataParallelRun::settle(std::span<const Status> results) {
  std::optional<Error> loss;
  for (const Status& result : results) {
    if (result) continue;
    if (!is_worker_lost(result.error())) return result.error();
    if (!loss) loss = result.error();
  }
  const std::size_t before = alive_.size();
  std::erase_if(alive_, [&](std::int64_t worker) { return context_->is_lost(worker); });
  if (alive_.size() == before) {
    if (loss) return *loss;  // a loss that the context does not know of
    return false;
  }
  if (static_cast<std::int64_t>(alive_.size()) >= strategy_->min_replicas) return true;
  if (!loss) {
    loss = Error{ErrorCode::kUnavailable, "a worker is lost", std::string(kWorkerLost)};
  }
  loss->message += fmt::format("; {} of {} replicas are left, at least {} are wanted",
                               alive_.size(), strategy_->num_replicas, strategy_->min_replicas);
  return *loss;
}

void DataParallelRun::complete_step(std::span<const ShareFigures> shares) {
  ShareFigures batch;
  for (const ShareFigures& share : shares) {
    batch.loss += share.loss;
    batch.normaliser = share.normaliser;  // the whole batch's, in each
    batch.examples += share.examples;
    if (share.correct) batch.correct = batch.correct.value_or(0) + *share.correct;
  }
  figures_.complete_step(batch);
}

void DataParallelRun::keep(StateDict state) {
  kept_ = std::move(state);
  kept_steps_ = figures_.steps();
}

Error DataParallelRun::interrupted(Error error) {
  if (!is_worker_lost(error)) return error;
  for (const std::int64_t worker : alive_) {
    Result<StateDict> state = context_->read_back_state(worker);
    // One that failed in its step has weights that are of no use.
    if (!state || !check_finite(state->layout(), state->values())) continue;
    return interrupted_with(std::move(error), *std::move(state), figures_.steps());
  }
  return interrupted_with(std::move(error), std::move(*kept_), kept_steps_);
}

Error DataParallelRun::interrupted(Error error, StateDict last_complete) {
  if (!is_worker_lost(error)) return error;
  return interrupted_with(std::move(error), std::move(last_complete), figures_.steps());
}

Error DataParallelRun::interrupted_with(Error error, StateDict state, std::int64_t steps) {
  if (!observer_->interrupted) return error;
  StrategyResult last = figures_.result_with(std::move(state));
  last.bytes_moved = context_->bytes_moved() - bytes_before_;
  last.steps = steps;
  last.complete = false;
  last.report = report();
  observer_->interrupted(last);
  return error;
}

Json DataParallelRun::report() const {
  Json left = Json::array();
  Json lost = Json::array();
  for (std::int64_t worker = 0; worker < strategy_->num_replicas; ++worker) {
    Json& list = std::ranges::binary_search(alive_, worker) ? left : lost;
    list.push_back(context_->worker(worker).id);
  }
  return {{"replicas", std::move(left)}, {"lost", std::move(lost)}};
}

Result<StrategyResult> DataParallelRun::finish(StateDict state, Json report) {
  MUSTER_TRY(StrategyResult result, figures_.finish(std::move(state)));
  result.bytes_moved = context_->bytes_moved() - bytes_before_;
  result.report = std::move(report);
  return result;
}

}  // namespace muster
