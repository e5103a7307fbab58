#include "core/strategy/context/strategy_worker.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "core/graph/model.h"
#include "core/tensor/kernels/kernels.h"
#include "core/train/batch.h"
#include "core/train/evaluate.h"
#include "core/train/training_run.h"

namespace muster {
namespace {

Error not_prepared(const char* what) {
  return {ErrorCode::kFailedPrecondition, std::string("it was not prepared for ") + what,
          "not_prepared"};
}

std::span<float> part(StateDict& state, const Graph::Range& range) {
  return state.values().subspan(static_cast<std::size_t>(range.offset),
                                static_cast<std::size_t>(range.size));
}

Status check_positions(std::span<const std::int64_t> positions, std::int64_t examples,
                       std::int64_t most) {
  if (static_cast<std::int64_t>(positions.size()) > most) {
    return Error{ErrorCode::kInvalidArgument, "a share of " + std::to_string(positions.size()) +
                                                  " examples, a batch has at most " +
                                                  std::to_string(most)};
  }
  for (const std::int64_t position : positions) {
    if (position >= 0 && position < examples) continue;
    return Error{ErrorCode::kInvalidArgument, "the share has example " + std::to_string(position) +
                                                  ", the data has " + std::to_string(examples)};
  }
  return {};
}

Status check_has_tensors(const StateDict& from, const StateDict& to) {
  for (const TensorSpec& spec : to.layout().tensors()) {
    const TensorSpec* found = from.layout().find(spec.name);
    if (found == nullptr || found->shape != spec.shape) {
      return check_same_layout(to.layout(), from.layout());
    }
  }
  return {};
}

// Copies the tensors of `to` out of a state that has them all.
Status copy_tensors(const StateDict& from, StateDict& to) {
  MUSTER_TRY_STATUS(check_has_tensors(from, to));
  for (const TensorSpec& spec : to.layout().tensors()) {
    std::ranges::copy(from.tensor(spec.name), to.tensor(spec).begin());
  }
  return {};
}

}  // namespace

// A whole model. The state is in `idle` until steps are asked for, then in the replica.
struct StrategyWorker::Whole {
  TrainingPlan plan;
  Graph graph;
  StateDict start;
  std::optional<StateDict> fitted = {};  // nullopt: the state now is what the last fit gave
  std::optional<StateDict> idle = {};
  std::optional<Replica> replica = {};
  std::vector<float> untrained_now = {};  // with the replica

  StateDict& state() { return replica ? replica->weights().w() : *idle; }

  void keep_untrained() {
    auto at = untrained_now.begin();
    for (const Graph::Range& range : replica->weights().untrained_ranges()) {
      at = std::ranges::copy(part(state(), range), at).out;
    }
  }
  // Puts back what was kept; `gradient` gets what was there, times `weight`.
  void put_back_untrained(StateDict& gradient, double weight) {
    auto kept = untrained_now.begin();
    for (const Graph::Range& range : replica->weights().untrained_ranges()) {
      const std::span<float> now = part(state(), range);
      const std::span<float> next = part(gradient, range);
      for (std::size_t i = 0; i < now.size(); ++i) {
        next[i] = static_cast<float>(weight * static_cast<double>(now[i]));
        now[i] = *kept++;
      }
    }
  }
};

// The stages of a partition.
struct StrategyWorker::Part {
  Json model;
  Graph graph;
  std::vector<PartitionReplica> stages = {};
  std::optional<StateDict> fitted = {};  // when prepared

  // Of all stages. Errors: kInvalidArgument when two stages have the same node.
  Result<StateDict> state() const {
    std::vector<StateLayout::Entry> entries;
    for (const PartitionReplica& stage : stages) {
      for (const TensorSpec& spec : stage.state().layout().tensors()) {
        entries.push_back({spec.name, spec.shape});
      }
    }
    MUSTER_TRY(const LayoutPtr layout, StateLayout::create(std::move(entries)));
    StateDict all(layout);
    for (const PartitionReplica& stage : stages) {
      for (const TensorSpec& spec : stage.state().layout().tensors()) {
        std::ranges::copy(stage.state().tensor(spec), all.tensor(spec.name).begin());
      }
    }
    return all;
  }
  Status set_state(const StateDict& state) {
    for (const PartitionReplica& stage : stages) {
      MUSTER_TRY_STATUS(check_has_tensors(state, stage.state()));
    }
    for (PartitionReplica& stage : stages) {
      MUSTER_TRY_STATUS(copy_tensors(state, stage.state()));
    }
    MUSTER_TRY(fitted, this->state());
    return {};
  }
};

StrategyWorker::StrategyWorker(Workers& loops) : loops_(&loops) {}
StrategyWorker::~StrategyWorker() = default;

Status StrategyWorker::prepare(TrainingPlan plan, StateDict start) {
  MUSTER_TRY(Graph graph, graph_from_model(plan.model));
  MUSTER_TRY_STATUS(check_same_layout(*graph.layout(), start.layout()));
  MUSTER_TRY_STATUS(check_finite(start.layout(), start.values()));
  MUSTER_TRY_STATUS(check_data_fits(graph, plan.data.train));
  MUSTER_TRY_STATUS(check_data_fits(graph, plan.data.holdout));
  StateDict idle = start.clone();
  whole_ = std::make_unique<Whole>(Whole{.plan = std::move(plan),
                                         .graph = std::move(graph),
                                         .start = std::move(start),
                                         .idle = std::move(idle)});
  part_.reset();
  return {};
}

Result<StrategyWorker::Whole*> StrategyWorker::whole() const {
  if (whole_ == nullptr) return not_prepared("a whole model");
  return whole_.get();
}

Result<Replica*> StrategyWorker::replica() {
  MUSTER_TRY(Whole* const whole, this->whole());
  if (!whole->replica) {
    MUSTER_TRY(Replica made, Replica::create(whole->graph, whole->plan.data.train, whole->start,
                                             whole->plan.settings, {.workers = loops_}));
    MUSTER_TRY_STATUS(copy_tensors(*whole->idle, made.weights().w()));
    std::int64_t floats = 0;
    for (const Graph::Range& range : made.weights().untrained_ranges()) floats += range.size;
    whole->untrained_now.resize(static_cast<std::size_t>(floats));
    whole->replica = std::move(made);
    whole->idle.reset();
  }
  return &*whole->replica;
}

Result<FitResult> StrategyWorker::execute(
    const std::stop_token& stop, const std::function<Status(const FitProgress&)>& progress) {
  MUSTER_TRY(Whole* const whole, this->whole());
  const StateDict from = whole->state().clone();
  MUSTER_TRY(TrainingRun run,
             TrainingRun::create(whole->graph, whole->plan.data.train, from, whole->plan.settings,
                                 whole->plan.seed, {.workers = loops_}));
  while (!run.done()) {
    if (stop.stop_requested()) {
      return Error{ErrorCode::kCancelled, "training was stopped after " +
                                              std::to_string(run.steps()) + " of " +
                                              std::to_string(run.total_steps()) + " steps"};
    }
    MUSTER_TRY_STATUS(run.step());
    MUSTER_TRY_STATUS(progress(run.progress()));
  }
  MUSTER_TRY(FitResult result, std::move(run).finish());
  whole->replica.reset();
  whole->fitted.reset();
  whole->idle = result.state.clone();
  return result;
}

Result<StateDict> StrategyWorker::fitted_state(std::span<const std::string> nodes) const {
  if (part_ != nullptr) {
    return state_of_nodes(part_->graph, *part_->fitted, nodes);
  }
  MUSTER_TRY(Whole* const whole, this->whole());
  return state_of_nodes(whole->graph, whole->fitted ? *whole->fitted : whole->state(), nodes);
}

Result<StateDict> StrategyWorker::state(std::span<const std::string> nodes) const {
  if (part_ != nullptr) {
    MUSTER_TRY(const StateDict now, part_->state());
    return state_of_nodes(part_->graph, now, nodes);
  }
  MUSTER_TRY(Whole* const whole, this->whole());
  return state_of_nodes(whole->graph, whole->state(), nodes);
}

Status StrategyWorker::set_state(const StateDict& state) {
  MUSTER_TRY_STATUS(check_finite(state.layout(), state.values()));
  if (part_ != nullptr) return part_->set_state(state);
  MUSTER_TRY(Whole* const whole, this->whole());
  MUSTER_TRY_STATUS(check_same_layout(whole->start.layout(), state.layout()));
  std::ranges::copy(state.values(), whole->state().values().begin());
  whole->fitted.reset();
  return {};
}

Result<ShareFigures> StrategyWorker::compute_gradient(const BatchShare& share) {
  MUSTER_TRY(Replica* const replica, this->replica());
  MUSTER_TRY_STATUS(
      check_positions(share.positions, whole_->plan.data.train.size(), replica->batch_size()));
  whole_->keep_untrained();
  Result<ShareFigures> figures = replica->compute_gradient({.positions = share.positions,
                                                            .normaliser = share.normaliser,
                                                            .seed = share.seed,
                                                            .at = share.at});
  TrainedWeights& weights = replica->weights();
  whole_->put_back_untrained(weights.gradient(), share.untrained_weight);
  if (!figures) return figures;
  MUSTER_TRY_STATUS(weights.check_gradient(share.at));
  if (share.scale != 1) {
    for (const Graph::Range& range : weights.trained_ranges()) {
      for (float& value : part(weights.gradient(), range)) {
        value *= static_cast<float>(share.scale);
      }
    }
  }
  return figures;
}

Result<StateDict*> StrategyWorker::gradient() {
  MUSTER_TRY(Replica* const replica, this->replica());
  return &replica->weights().gradient();
}

Status StrategyWorker::apply(StepNumber at) {
  MUSTER_TRY(Replica* const replica, this->replica());
  TrainedWeights& weights = replica->weights();
  if (!whole_->fitted) whole_->fitted = weights.w().clone();
  weights.take_untrained_from_gradient();
  return weights.step(at);
}

Result<StateDict*> StrategyWorker::mutable_state() {
  MUSTER_TRY(Replica* const replica, this->replica());
  if (!whole_->fitted) whole_->fitted = replica->state().clone();
  return &replica->weights().w();
}

Result<EvaluateResult> StrategyWorker::evaluate(const std::stop_token& stop) {
  MUSTER_TRY(Whole* const whole, this->whole());
  return muster::evaluate(whole->graph, whole->state(), whole->plan.data.holdout, stop, loops_);
}

Result<PartitionEnds> StrategyWorker::prepare_partition(PartitionPlan plan,
                                                        const StateDict& start) {
  std::unique_ptr<Part> fresh;
  if (plan.stage == 0) {
    MUSTER_TRY(Graph graph, graph_from_model(plan.model));
    fresh = std::make_unique<Part>(Part{.model = plan.model, .graph = std::move(graph)});
  }
  Part* const part = fresh != nullptr ? fresh.get() : part_.get();
  if (part == nullptr) return not_prepared("a partition");
  if (plan.stage != static_cast<std::int64_t>(part->stages.size()) || plan.model != part->model) {
    return Error{ErrorCode::kInvalidArgument,
                 "stage " + std::to_string(plan.stage) + " of its partition comes after " +
                     std::to_string(part->stages.size()) +
                     " stages, the next one of the same model is wanted"};
  }
  MUSTER_TRY(PartitionReplica replica,
             PartitionReplica::create(part->graph, start, plan.settings,
                                      {.nodes = std::move(plan.nodes),
                                       .max_micro_batch = plan.max_micro_batch,
                                       .max_in_flight = plan.max_in_flight,
                                       .workers = loops_}));
  PartitionEnds ends{.inputs = replica.inputs(), .outputs = replica.outputs()};
  part->stages.push_back(std::move(replica));
  Result<StateDict> fitted = part->state();
  if (!fitted) {
    part->stages.pop_back();
    return std::move(fitted).error();
  }
  part->fitted = *std::move(fitted);
  if (fresh != nullptr) {
    part_ = std::move(fresh);
    whole_.reset();
  }
  return ends;
}

Result<PartitionReplica*> StrategyWorker::partition(std::int64_t stage) {
  if (part_ == nullptr) return not_prepared("a partition");
  if (stage < 0 || stage >= static_cast<std::int64_t>(part_->stages.size())) {
    return Error{ErrorCode::kInvalidArgument, "there is no stage " + std::to_string(stage) +
                                                  " of its partition, there are " +
                                                  std::to_string(part_->stages.size())};
  }
  return &part_->stages[static_cast<std::size_t>(stage)];
}

Result<double> StrategyWorker::partition_gradient_norm() const {
  if (part_ == nullptr) return not_prepared("a partition");
  double squares = 0;
  for (const PartitionReplica& stage : part_->stages) {
    squares += stage.gradient_norm() * stage.gradient_norm();
  }
  return std::sqrt(squares);
}

Status StrategyWorker::apply_partition(StepNumber at, std::optional<double> clip) {
  if (part_ == nullptr) return not_prepared("a partition");
  for (const PartitionReplica& stage : part_->stages) MUSTER_TRY_STATUS(stage.check_ready());
  for (PartitionReplica& stage : part_->stages) MUSTER_TRY_STATUS(stage.apply(at, clip));
  return {};
}

Result<StateDict> state_of_nodes(const Graph& graph, const StateDict& state,
                                 std::span<const std::string> nodes) {
  if (nodes.empty()) return state.clone();
  std::vector<StateLayout::Entry> entries;
  for (const std::string& id : nodes) {
    const int index = graph.find(id);
    if (index < 0) {
      return Error{ErrorCode::kInvalidArgument, "the model has no node " + describe(Json(id)),
                   "unknown_node"};
    }
    for (const ParameterSpec& parameter : graph.node(index).op->plan().parameters) {
      const TensorSpec* spec = state.layout().find(parameter_name(graph.node(index), parameter));
      if (spec != nullptr) entries.push_back({spec->name, spec->shape});
    }
  }
  MUSTER_TRY(const LayoutPtr layout, StateLayout::create(std::move(entries)));
  StateDict result(layout);
  MUSTER_TRY_STATUS(copy_tensors(state, result));
  return result;
}

}  // namespace muster
