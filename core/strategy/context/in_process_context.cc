#include "core/strategy/context/in_process_context.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>

#include "core/base/names.h"
#include "core/strategy/collective/ring.h"
#include "core/strategy/context/strategy_worker.h"
#include "core/strategy/context/worker_thread.h"

namespace muster {
namespace {

// How often a waiting call looks whether a stop was asked for.
constexpr std::chrono::milliseconds kLook{20};
// How often a fit in progress says that it lives.
constexpr std::chrono::milliseconds kSign{5};

std::uint64_t bytes_of(const StateDict& state) {
  return state.values().size_bytes();
}

std::uint64_t bytes_of(const Tensors& tensors) {
  std::uint64_t bytes = 0;
  for (const auto& tensor : tensors) bytes += tensor.size() * sizeof(float);
  return bytes;
}

Status check_workers(const std::vector<WorkerInfo>& workers) {
  if (workers.empty()) {
    return Error{ErrorCode::kInvalidArgument, "no workers, at least one is wanted"};
  }
  std::set<std::string> ids;
  for (const WorkerInfo& worker : workers) {
    MUSTER_TRY_STATUS(check_name("worker id", worker.id));
    for (const std::string& tag : worker.tags) MUSTER_TRY_STATUS(check_name("tag", tag));
    if (ids.insert(worker.id).second) continue;
    return Error{ErrorCode::kInvalidArgument, "two workers have the id " + worker.id};
  }
  return {};
}

}  // namespace

struct InProcessContext::Worker {
  Worker(WorkerInfo its_info, std::int64_t its_number, int threads)
      : info(std::move(its_info)), number(its_number), loops(threads), self(loops) {}

  WorkerInfo info;
  std::int64_t number;
  std::timed_mutex turn;
  std::optional<std::string> lost = {};  // how; guarded by turn
  std::atomic<bool> is_lost{false};      // the same, for whoever has no turn
  Workers loops;
  StrategyWorker self;
  WorkerThread thread;  // last: ends before what its job uses

  Error loss() const {
    return {ErrorCode::kUnavailable, fmt::format("{}: it is lost: {}", worker_name(info), *lost),
            std::string(kWorkerLost)};
  }
  Error lose(std::string how) {
    lost = std::move(how);
    is_lost = true;
    return loss();
  }
};

InProcessContext::InProcessContext(InProcessOptions options) : options_(std::move(options)) {}
InProcessContext::~InProcessContext() = default;

Result<std::unique_ptr<InProcessContext>> InProcessContext::create(std::vector<WorkerInfo> workers,
                                                                   InProcessOptions options) {
  MUSTER_TRY_STATUS(check_workers(workers));
  std::unique_ptr<InProcessContext> context(new InProcessContext(std::move(options)));
  for (WorkerInfo& info : workers) {
    const auto number = static_cast<std::int64_t>(context->workers_.size());
    context->workers_.push_back(std::make_unique<Worker>(
        std::move(info), number, std::max(1, context->options_.threads_per_worker)));
    if (context->workers_.back()->thread.ok()) continue;
    return Error{ErrorCode::kResourceExhausted,
                 fmt::format("the system gave {} threads of the {} that workers want", number,
                             workers.size()),
                 "threads"};
  }
  return context;
}

Result<std::unique_ptr<InProcessContext>> InProcessContext::create(std::int64_t count,
                                                                   InProcessOptions options) {
  std::vector<WorkerInfo> workers;
  for (std::int64_t i = 0; i < count; ++i)
    workers.push_back({.id = fmt::format("worker-{}", i), .tags = {}});
  return create(std::move(workers), std::move(options));
}

std::int64_t InProcessContext::num_workers() const {
  return static_cast<std::int64_t>(workers_.size());
}
const WorkerInfo& InProcessContext::worker(std::int64_t worker) const {
  return workers_[static_cast<std::size_t>(worker)]->info;
}

bool InProcessContext::is_lost(std::int64_t worker) const {
  return workers_[static_cast<std::size_t>(worker)]->is_lost;
}

Result<InProcessContext::Turn> InProcessContext::take_turn(std::int64_t worker) {
  if (worker < 0 || worker >= num_workers()) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("there is no worker number {}, there are {}", worker, num_workers())};
  }
  Worker& its = *workers_[static_cast<std::size_t>(worker)];
  Turn turn(its.turn, std::defer_lock);
  while (!turn.try_lock_for(kLook)) {
    // Whoever has the turn ends within the operation's time.
    if (!options_.stop.stop_requested()) continue;
    return Error{ErrorCode::kCancelled, worker_name(its.info) + ": a stop was asked for"};
  }
  if (its.lost) return its.loss();
  return turn;
}

Status InProcessContext::look_whether_lost(Worker& worker, WorkerOperation operation) {
  if (!options_.lose || !options_.lose(worker.number, operation)) return {};
  return Error{ErrorCode::kUnavailable, "it ended", std::string(kWorkerLost)};
}

template <typename T>
Result<T> InProcessContext::on_thread(std::int64_t worker, WorkerOperation operation,
                                      std::function<Result<T>(Worker&, std::stop_token)> job,
                                      const std::function<void()>& on_sign) {
  MUSTER_TRY(const Turn turn, take_turn(worker));
  Worker& its = *workers_[static_cast<std::size_t>(worker)];
  const auto result = std::make_shared<std::optional<Result<T>>>();
  its.thread.start([this, &its, result, operation, job = std::move(job)](std::stop_token stop) {
    const Status there = look_whether_lost(its, operation);
    *result = there ? job(its, std::move(stop)) : Result<T>(there.error());
  });
  if (!its.thread.wait(options_.operation_time, options_.stop, on_sign)) {
    if (!options_.stop.stop_requested()) {
      return its.lose(fmt::format("no sign of life for {} ms", options_.operation_time.count()));
    }
    (void)its.lose("a stop was asked for in the middle of its work");
    return Error{ErrorCode::kCancelled, worker_name(its.info) + ": a stop was asked for"};
  }
  Result<T>& done = **result;
  if (done) return std::move(done);
  if (is_worker_lost(done.error())) return its.lose(done.error().message);
  return with_context(std::move(done).error(), worker_name(its.info));
}

template <typename Job>
auto InProcessContext::in_place(std::int64_t worker, WorkerOperation operation, const Job& job)
    -> decltype(job(std::declval<Worker&>())) {
  MUSTER_TRY(const Turn turn, take_turn(worker));
  Worker& its = *workers_[static_cast<std::size_t>(worker)];
  if (const Status there = look_whether_lost(its, operation); !there) {
    return its.lose(there.error().message);
  }
  auto result = job(its);
  if (result) return result;
  return with_context(std::move(result).error(), worker_name(its.info));
}

Result<std::vector<InProcessContext::Turn>> InProcessContext::take_turns(
    std::span<const std::int64_t> workers, WorkerOperation operation) {
  std::vector<std::int64_t> sorted(workers.begin(), workers.end());
  std::ranges::sort(sorted);
  std::vector<Turn> turns;
  for (const std::int64_t worker : sorted) {
    MUSTER_TRY(Turn turn, take_turn(worker));
    Worker& its = *workers_[static_cast<std::size_t>(worker)];
    if (const Status there = look_whether_lost(its, operation); !there) {
      return its.lose(there.error().message);
    }
    turns.push_back(std::move(turn));
  }
  return turns;
}

Status InProcessContext::prepare(std::int64_t worker, const TrainingPlan& plan,
                                 const StateDict& start) {
  const auto copy = std::make_shared<StateDict>(start.clone());
  bytes_moved_ += bytes_of(start);
  return on_thread<void>(worker, WorkerOperation::kPrepare,
                         [plan, copy](Worker& its, const std::stop_token&) {
                           return its.self.prepare(plan, std::move(*copy));
                         });
}

Result<FitResult> InProcessContext::execute_on_worker(
    std::int64_t worker, const std::function<void(const FitProgress&)>& progress) {
  struct Latest {
    std::mutex mutex;
    std::optional<FitProgress> progress;
  };
  const auto latest = std::make_shared<Latest>();
  const auto job = [this, latest](Worker& its, const std::stop_token& stop) {
    auto last_sign = std::chrono::steady_clock::now();
    return its.self.execute(stop, [&](const FitProgress& now) -> Status {
      MUSTER_TRY_STATUS(look_whether_lost(its, WorkerOperation::kStep));
      const std::int64_t block = std::max<std::int64_t>(1, now.steps_total / 100);
      const bool report = now.steps_done % block == 0 || now.steps_done == now.steps_total;
      const auto time = std::chrono::steady_clock::now();
      if (!report && time - last_sign < kSign) return {};
      last_sign = time;
      if (report) {
        const std::lock_guard lock(latest->mutex);
        latest->progress = now;
      }
      its.thread.sign_of_life();
      return {};
    });
  };
  const auto tell = [&] {
    std::optional<FitProgress> now;
    {
      const std::lock_guard lock(latest->mutex);
      now = std::exchange(latest->progress, std::nullopt);
    }
    if (now && progress) progress(*now);
  };
  MUSTER_TRY(FitResult result, on_thread<FitResult>(worker, WorkerOperation::kExecute, job, tell));
  tell();
  bytes_moved_ += bytes_of(result.state);
  return result;
}

Result<StateDict> InProcessContext::get_state(std::int64_t worker,
                                              std::span<const std::string> nodes) {
  MUSTER_TRY(StateDict state, in_place(worker, WorkerOperation::kGetState,
                                       [&](Worker& its) { return its.self.fitted_state(nodes); }));
  bytes_moved_ += bytes_of(state);
  return state;
}

Result<StateDict> InProcessContext::read_back_state(std::int64_t worker,
                                                    std::span<const std::string> nodes) {
  MUSTER_TRY(StateDict state, in_place(worker, WorkerOperation::kReadBackState,
                                       [&](Worker& its) { return its.self.state(nodes); }));
  bytes_moved_ += bytes_of(state);
  return state;
}

Status InProcessContext::set_state(std::int64_t worker, const StateDict& state) {
  bytes_moved_ += bytes_of(state);
  return in_place(worker, WorkerOperation::kSetState,
                  [&](Worker& its) { return its.self.set_state(state); });
}

Result<ShareFigures> InProcessContext::compute_gradient(std::int64_t worker,
                                                        const BatchShare& share) {
  return on_thread<ShareFigures>(
      worker, WorkerOperation::kComputeGradient,
      [share](Worker& its, const std::stop_token&) { return its.self.compute_gradient(share); });
}

Result<ShareFigures> InProcessContext::get_gradients(std::int64_t worker, const BatchShare& share,
                                                     StateDict& gradient) {
  MUSTER_TRY(const ShareFigures figures, compute_gradient(worker, share));
  const auto copy = [&](Worker& its) -> Status {
    MUSTER_TRY(const StateDict* const computed, its.self.gradient());
    MUSTER_TRY_STATUS(check_same_layout(computed->layout(), gradient.layout()));
    std::ranges::copy(computed->values(), gradient.values().begin());
    return {};
  };
  MUSTER_TRY_STATUS(in_place(worker, WorkerOperation::kComputeGradient, copy));
  bytes_moved_ += bytes_of(gradient);
  return figures;
}

Status InProcessContext::all_reduce_gradients(std::span<const std::int64_t> workers) {
  MUSTER_TRY(const std::vector<Turn> turns, take_turns(workers, WorkerOperation::kReduce));
  std::vector<std::span<float>> vectors;
  for (const std::int64_t worker : workers) {
    MUSTER_TRY_IN(worker_name(this->worker(worker)), StateDict* const gradient,
                  workers_[static_cast<std::size_t>(worker)]->self.gradient());
    vectors.push_back(gradient->values());
    if (vectors.back().size() != vectors.front().size()) {
      return Error{ErrorCode::kFailedPrecondition,
                   worker_name(this->worker(worker)) + ": its model has another size"};
    }
  }
  for (const std::int64_t elements : ring_all_reduce(vectors)) {
    bytes_moved_ += static_cast<std::uint64_t>(elements) * sizeof(float);
  }
  return {};
}

Status InProcessContext::apply_gradients(std::int64_t worker, StepNumber at) {
  return on_thread<void>(worker, WorkerOperation::kApply,
                         [at](Worker& its, const std::stop_token&) { return its.self.apply(at); });
}

Status InProcessContext::apply_gradients(std::int64_t worker, const StateDict& gradient,
                                         StepNumber at) {
  const auto copy = std::make_shared<StateDict>(gradient.clone());
  bytes_moved_ += bytes_of(gradient);
  return on_thread<void>(worker, WorkerOperation::kApply,
                         [copy, at](Worker& its, const std::stop_token&) -> Status {
                           MUSTER_TRY(StateDict* const own, its.self.gradient());
                           MUSTER_TRY_STATUS(check_same_layout(own->layout(), copy->layout()));
                           std::ranges::copy(copy->values(), own->values().begin());
                           return its.self.apply(at);
                         });
}

Status InProcessContext::mix_states(std::span<const std::int64_t> workers,
                                    const Neighbours& neighbours, const MixingWeights& weights) {
  MUSTER_TRY(const std::vector<Turn> turns, take_turns(workers, WorkerOperation::kMix));
  std::vector<StateDict*> states;
  std::vector<StateDict> before;
  std::vector<std::span<const float>> from;
  std::vector<std::span<float>> to;
  for (const std::int64_t worker : workers) {
    MUSTER_TRY_IN(worker_name(this->worker(worker)), StateDict* const state,
                  workers_[static_cast<std::size_t>(worker)]->self.mutable_state());
    states.push_back(state);
    before.push_back(state->clone());
  }
  for (std::size_t i = 0; i < states.size(); ++i) {
    from.emplace_back(std::as_const(before[i]).values());
    to.emplace_back(states[i]->values());
    bytes_moved_ += neighbours[i].size() * bytes_of(*states[i]);
  }
  gossip_step(neighbours, weights, from, to);
  return {};
}

Result<EvaluateResult> InProcessContext::evaluate(std::int64_t worker) {
  return on_thread<EvaluateResult>(
      worker, WorkerOperation::kEvaluate,
      [](Worker& its, const std::stop_token& stop) { return its.self.evaluate(stop); });
}

Result<PartitionEnds> InProcessContext::prepare_partition(std::int64_t worker,
                                                          const PartitionPlan& plan,
                                                          const StateDict& start) {
  const auto copy = std::make_shared<StateDict>(start.clone());
  bytes_moved_ += bytes_of(start);
  return on_thread<PartitionEnds>(worker, WorkerOperation::kPrepare,
                                  [plan, copy](Worker& its, const std::stop_token&) {
                                    return its.self.prepare_partition(plan, *copy);
                                  });
}

Result<Tensors> InProcessContext::execute_partition(std::int64_t worker, std::int64_t micro_batch,
                                                    std::int64_t batch, Tensors inputs,
                                                    std::uint64_t seed, std::int64_t stage) {
  bytes_moved_ += bytes_of(inputs);
  const auto entering = std::make_shared<Tensors>(std::move(inputs));
  MUSTER_TRY(Tensors outputs,
             on_thread<Tensors>(
                 worker, WorkerOperation::kForward,
                 [=](Worker& its, const std::stop_token&) -> Result<Tensors> {
                   MUSTER_TRY(PartitionReplica* const partition, its.self.partition(stage));
                   return partition->forward(micro_batch, batch, std::move(*entering), seed);
                 }));
  bytes_moved_ += bytes_of(outputs);
  return outputs;
}

Result<Tensors> InProcessContext::backward_partition(std::int64_t worker, std::int64_t micro_batch,
                                                     Tensors doutputs, std::int64_t stage) {
  bytes_moved_ += bytes_of(doutputs);
  const auto entering = std::make_shared<Tensors>(std::move(doutputs));
  MUSTER_TRY(Tensors dinputs,
             on_thread<Tensors>(worker, WorkerOperation::kBackward,
                                [=](Worker& its, const std::stop_token&) -> Result<Tensors> {
                                  MUSTER_TRY(PartitionReplica* const partition,
                                             its.self.partition(stage));
                                  return partition->backward(micro_batch, std::move(*entering));
                                }));
  bytes_moved_ += bytes_of(dinputs);
  return dinputs;
}

Result<double> InProcessContext::partition_gradient_norm(std::int64_t worker) {
  return on_thread<double>(
      worker, WorkerOperation::kReduce,
      [](Worker& its, const std::stop_token&) { return its.self.partition_gradient_norm(); });
}

Status InProcessContext::apply_partition(std::int64_t worker, StepNumber at,
                                         std::optional<double> clip) {
  return on_thread<void>(worker, WorkerOperation::kApply, [=](Worker& its, const std::stop_token&) {
    return its.self.apply_partition(at, clip);
  });
}

}  // namespace muster
