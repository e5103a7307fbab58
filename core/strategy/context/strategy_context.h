#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/strategy/collective/gossip.h"
#include "core/tensor/state.h"
#include "core/train/data/dataset.h"
#include "core/train/local_trainer.h"
#include "core/train/partition_replica.h"
#include "core/train/replica.h"
#include "core/train/settings.h"
#include "core/train/trained_weights.h"

namespace muster {

// A worker as strategies address it.
struct WorkerInfo {
  std::string id;
  std::vector<std::string> tags;
};

// What a worker is prepared for: a model, how it trains, and the examples it may compute on. Data
// is shipped to it: in one process as a view of the same rows, to a device over its connection
// (once: a worker that has a data set of this digest is not sent it again).
struct TrainingPlan {
  Json model;  // in its resolved form
  LocalSettings settings;
  std::uint64_t seed = 0;  // of execute_on_worker
  LocalData data;          // `holdout` is what evaluate measures
};

// The same for one partition of model parallelism, which sees no examples. A partition whose nodes
// cannot run in one go, because others run between them (A -> B -> A), is prepared as several
// stages.
struct PartitionPlan {
  Json model;  // the whole one
  LocalSettings settings;
  std::vector<std::string> nodes;
  std::int64_t max_micro_batch = 1;
  std::int64_t max_in_flight = 1;  // see PartitionOptions
  // 0 forgets what the worker had before; 1, 2, ..., in that order, add to it.
  std::int64_t stage = 0;
};
// What enters and leaves a partition, as GraphRun orders them.
struct PartitionEnds {
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
};

// A worker's share of a batch; see Replica::Share.
struct BatchShare {
  std::vector<std::int64_t> positions;  // in the plan's training examples; none: a gradient of zero
  double normaliser = 0;                // of the whole batch
  // The gradient is multiplied with this, after it was computed.
  double scale = 1;
  // A gradient has, in the place of parameters that no gradient moves, their next value times this:
  // with the share's part of the batch's examples they add up to the weighted mean.
  double untrained_weight = 1;
  std::uint64_t seed = 0;  // fixes what ops draw
  StepNumber at = {};
};

// How a strategy reaches its workers; it does not know whether they are threads or devices.
//
//   context.prepare(w, plan, start);
//   for each step: context.compute_gradient(w, share); ...; context.apply_gradients(w, at);
//   context.read_back_state(w);
//
// Owned by the embedding program; outlives the executors that use it. Any thread may call; calls to
// one worker run one after another, calls to different workers at the same time (FanOut makes them
// so). Every call blocks until it is done, and ends: after the context's operation time without a
// sign of life from the worker, or when its stop token is asked.
//
// Errors of every call that takes a worker begin with its name, "worker alpha: ...":
//   kUnavailable, reason "worker_lost"  the worker failed, left, or did not answer in time; it is
//                                       then lost for good and every later call says so
//   kCancelled                          a stop was asked for; the worker counts as lost
//   kInvalidArgument                    no such worker (it has no name then), or not its operation
//   kFailedPrecondition                 it was not prepared, or prepared for the other kind of
//   plan;
//                                       reason "non_finite": a NaN or infinity turned up there
// and what the operation says. A worker that was not lost is after an error as before the call,
// except that gradients and weights that turned out not to be finite are of no further use.
class StrategyContext {
 public:
  virtual ~StrategyContext() = default;

  // ---- Who there is ----
  virtual std::int64_t num_workers() const = 0;
  // 0 to num_workers() - 1.
  virtual const WorkerInfo& worker(std::int64_t worker) const = 0;
  // The worker with this id, else the first with this tag; also one that is lost. Errors:
  // kNotFound, reason "no_worker", listing the ids and tags that are registered.
  Result<std::int64_t> worker_for(std::string_view target) const;
  // Whether it was lost, as calls to it would say.
  virtual bool is_lost(std::int64_t worker) const = 0;

  // ---- Whole models ----
  // Gives the worker its plan and its state, and forgets what it had before.
  //   start  the model's layout, all finite
  // Errors besides: those of the model, and of data that does not fit it.
  virtual Status prepare(std::int64_t worker, const TrainingPlan& plan, const StateDict& start) = 0;

  // Trains from the worker's state now, with plan.settings on plan.data.train: a TrainingRun from
  // its first step to its last, with its bits. The result's state is also the worker's, and what
  // get_state gives. `progress` is called in the caller's thread.
  virtual Result<FitResult> execute_on_worker(
      std::int64_t worker, const std::function<void(const FitProgress&)>& progress = {}) = 0;

  // What the worker's last fit returned: execute_on_worker, or the state of prepare or set_state
  // when that came later. Steps by apply_gradients do not show in it.
  //   nodes  only the parameters of these nodes; empty: all
  virtual Result<StateDict> get_state(std::int64_t worker,
                                      std::span<const std::string> nodes = {}) = 0;
  // The worker's state now: after apply_gradients it is another than get_state's, and it is the one
  // that a data-parallel run has to end on.
  virtual Result<StateDict> read_back_state(std::int64_t worker,
                                            std::span<const std::string> nodes = {}) = 0;
  // After it, get_state and read_back_state both give that state. The optimiser's moments stay.
  //   state  the layout that prepare's state had (a partition: its own parameters, or all)
  virtual Status set_state(std::int64_t worker, const StateDict& state) = 0;

  // Computes the gradient of a share of a batch at the worker's state now, which stays as it is;
  // the gradient stays at the worker. Errors besides: "non_finite" for the loss and the gradient,
  // naming node or parameter; kInvalidArgument for a position that is not in the data.
  virtual Result<ShareFigures> compute_gradient(std::int64_t worker, const BatchShare& share) = 0;
  // The same, and fetches it: into `gradient`, of the model's layout.
  virtual Result<ShareFigures> get_gradients(std::int64_t worker, const BatchShare& share,
                                             StateDict& gradient) = 0;
  // The gradients that these workers computed last become their sum, in all of them with the same
  // bits: a ring where workers reach each other, else through the coordinator. After an error
  // gradients are of no further use until they are computed again; states are as before.
  virtual Status all_reduce_gradients(std::span<const std::int64_t> workers) = 0;
  // One optimiser step of the worker with the gradient it has, or with the one given.
  virtual Status apply_gradients(std::int64_t worker, StepNumber at) = 0;
  virtual Status apply_gradients(std::int64_t worker, const StateDict& gradient, StepNumber at) = 0;

  // One step of gossip (gossip.h): the states of `workers`, whose numbers in `neighbours` are their
  // places in that list, become their weighted means. Here through the caller, with set_state;
  // contexts whose workers reach each other do better. After an error some have been mixed, some
  // not.
  virtual Status mix_states(std::span<const std::int64_t> workers, const Neighbours& neighbours,
                            const MixingWeights& weights);

  // Of the worker's state now, on plan.data.holdout; see muster::evaluate.
  virtual Result<EvaluateResult> evaluate(std::int64_t worker) = 0;

  // ---- Partitions of a model; see PartitionReplica, whose calls these are ----
  // get_state, read_back_state and set_state serve partitions too, with the parameters of all their
  // stages.
  //   start  has the stage's parameters; others are not looked at
  virtual Result<PartitionEnds> prepare_partition(std::int64_t worker, const PartitionPlan& plan,
                                                  const StateDict& start) = 0;
  virtual Result<Tensors> execute_partition(std::int64_t worker, std::int64_t micro_batch,
                                            std::int64_t batch, Tensors inputs, std::uint64_t seed,
                                            std::int64_t stage = 0) = 0;
  virtual Result<Tensors> backward_partition(std::int64_t worker, std::int64_t micro_batch,
                                             Tensors doutputs, std::int64_t stage = 0) = 0;
  // These two are of all stages.
  virtual Result<double> partition_gradient_norm(std::int64_t worker) = 0;
  virtual Status apply_partition(std::int64_t worker, StepNumber at,
                                 std::optional<double> clip = std::nullopt) = 0;

  // States, gradients, activations and data that went to workers, from them and between them so
  // far, in bytes; rows that are shared in memory do not move.
  virtual std::uint64_t bytes_moved() const = 0;
};

// What the calls' errors have in common.
inline constexpr std::string_view kWorkerLost = "worker_lost";
bool is_worker_lost(const Error& error);
// "worker alpha"
std::string worker_name(const WorkerInfo& worker);

}  // namespace muster
