#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <utility>
#include <vector>

#include "core/strategy/context/strategy_context.h"

namespace muster {

// The operations of a worker, as InProcessOptions::before sees them.
enum class WorkerOperation {
  kPrepare,
  kExecute,
  kStep,  // each step of an execute
  kGetState,
  kReadBackState,
  kSetState,
  kComputeGradient,
  kReduce,
  kApply,
  kMix,
  kEvaluate,
  kForward,
  kBackward,
};

struct InProcessOptions {
  // A worker that gives no sign of life for that long during a call is lost.
  std::chrono::milliseconds operation_time{600'000};
  std::stop_token stop = {};   // ends every call
  int threads_per_worker = 1;  // that share out a worker's loops; the bits do not depend on it
  // Called before each operation, where it runs: true loses the worker there, as if its process had
  // ended. From any thread, of different workers at the same time. For tests and rehearsals.
  std::function<bool(std::int64_t worker, WorkerOperation operation)> lose = {};
};

// Workers as threads of this process, each with its own copy of the model; examples are shared, not
// copied. Gradients are reduced and states mixed straight from one worker's memory to another's.
//
// The destructor asks what still runs to stop and waits for it.
class InProcessContext final : public StrategyContext {
 public:
  // Errors: kInvalidArgument (no worker, an id twice, an id or tag that is no name);
  // kResourceExhausted when the system gives no more threads.
  static Result<std::unique_ptr<InProcessContext>> create(std::vector<WorkerInfo> workers,
                                                          InProcessOptions options = {});
  // `count` workers called "worker-0", "worker-1", ...
  static Result<std::unique_ptr<InProcessContext>> create(std::int64_t count,
                                                          InProcessOptions options = {});
  ~InProcessContext() override;

  std::int64_t num_workers() const override;
  const WorkerInfo& worker(std::int64_t worker) const override;
  bool is_lost(std::int64_t worker) const override;
  Status prepare(std::int64_t worker, const TrainingPlan& plan, const StateDict& start) override;
  Result<FitResult> execute_on_worker(
      std::int64_t worker, const std::function<void(const FitProgress&)>& progress = {}) override;
  Result<StateDict> get_state(std::int64_t worker,
                              std::span<const std::string> nodes = {}) override;
  Result<StateDict> read_back_state(std::int64_t worker,
                                    std::span<const std::string> nodes = {}) override;
  Status set_state(std::int64_t worker, const StateDict& state) override;
  Result<ShareFigures> compute_gradient(std::int64_t worker, const BatchShare& share) override;
  Result<ShareFigures> get_gradients(std::int64_t worker, const BatchShare& share,
                                     StateDict& gradient) override;
  // ring_all_reduce over the workers' buffers: each moves 2 (n - 1) / n of a gradient.
  Status all_reduce_gradients(std::span<const std::int64_t> workers) override;
  Status apply_gradients(std::int64_t worker, StepNumber at) override;
  Status apply_gradients(std::int64_t worker, const StateDict& gradient, StepNumber at) override;
  Status mix_states(std::span<const std::int64_t> workers, const Neighbours& neighbours,
                    const MixingWeights& weights) override;
  Result<EvaluateResult> evaluate(std::int64_t worker) override;
  Result<PartitionEnds> prepare_partition(std::int64_t worker, const PartitionPlan& plan,
                                          const StateDict& start) override;
  Result<Tensors> execute_partition(std::int64_t worker, std::int64_t micro_batch,
                                    std::int64_t batch, Tensors inputs, std::uint64_t seed,
                                    std::int64_t stage = 0) override;
  Result<Tensors> backward_partition(std::int64_t worker, std::int64_t micro_batch,
                                     Tensors doutputs, std::int64_t stage = 0) override;
  Result<double> partition_gradient_norm(std::int64_t worker) override;
  Status apply_partition(std::int64_t worker, StepNumber at,
                         std::optional<double> clip = std::nullopt) override;
  std::uint64_t bytes_moved() const override { return bytes_moved_.load(); }

 private:
  struct Worker;
  using Turn = std::unique_lock<std::timed_mutex>;
  explicit InProcessContext(InProcessOptions options);

  // Waits until no other call has the worker. Errors: no such worker, it is lost, a stop.
  Result<Turn> take_turn(std::int64_t worker);
  // Runs the operation in the worker's thread and waits for it. `job` holds what it needs: it may
  // go on after this has given up on it.
  template <typename T>
  Result<T> on_thread(std::int64_t worker, WorkerOperation operation,
                      std::function<Result<T>(Worker&, std::stop_token)> job,
                      const std::function<void()>& on_sign = {});
  // Runs it in the caller's thread, for what only copies.
  template <typename Job>
  auto in_place(std::int64_t worker, WorkerOperation operation, const Job& job)
      -> decltype(job(std::declval<Worker&>()));
  // The turns of all, in order of their numbers.
  Result<std::vector<Turn>> take_turns(std::span<const std::int64_t> workers,
                                       WorkerOperation operation);
  Status look_whether_lost(Worker& worker, WorkerOperation operation);

  InProcessOptions options_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::atomic<std::uint64_t> bytes_moved_{0};
};

}  // namespace muster
