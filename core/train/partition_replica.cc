#include "core/train/partition_replica.h"

#include <algorithm>
#include <span>
#include <utility>

namespace muster {
namespace {

Error invalid(std::string message) {
  return {ErrorCode::kInvalidArgument, "partition: " + std::move(message)};
}

std::string micro_batch(std::int64_t id) {
  return "micro-batch " + std::to_string(id);
}

std::vector<std::span<const float>> views_of(const Tensors& tensors) {
  return {tensors.begin(), tensors.end()};
}

// What `state` has for the tensors of `layout`.
Status copy_part(const StateDict& state, StateDict& part) {
  for (const TensorSpec& spec : part.layout().tensors()) {
    const TensorSpec* found = state.layout().find(spec.name);
    if (found == nullptr || found->shape != spec.shape) {
      return invalid("the start state has no " + spec.name + " of shape " + to_string(spec.shape));
    }
    std::ranges::copy(state.tensor(*found), part.tensor(spec).begin());
  }
  return {};
}

Status check_options(const PartitionOptions& options) {
  if (options.nodes.empty()) return invalid("no nodes, at least one is wanted");
  if (options.max_micro_batch < 1 || options.max_in_flight < 1) {
    return invalid("max_micro_batch is " + std::to_string(options.max_micro_batch) +
                   " and max_in_flight " + std::to_string(options.max_in_flight) +
                   ", at least 1 is wanted");
  }
  return {};
}

}  // namespace

Result<PartitionReplica> PartitionReplica::create(const Graph& graph, const StateDict& start,
                                                  const LocalSettings& settings,
                                                  PartitionOptions options) {
  MUSTER_TRY_STATUS(check_options(options));
  PartitionReplica partition;
  GraphRunOptions wanted{
      .max_batch = options.max_micro_batch,
      .input_gradients = true,
      .nodes = options.nodes,
      .limit_bytes = options.limit_bytes / static_cast<std::uint64_t>(options.max_in_flight),
      .workers = options.workers};
  for (std::int64_t i = 0; i < options.max_in_flight; ++i) {
    MUSTER_TRY(GraphRun run, GraphRun::create(graph, wanted));
    // Nobody needs the derivative by the graph's own input.
    if (wanted.input_gradients && run.inputs() == std::vector<std::string>{"input"}) {
      wanted.input_gradients = false;
      MUSTER_TRY(run, GraphRun::create(graph, wanted));
    }
    partition.free_.push_back(std::move(run));
  }
  const GraphRun& first = partition.free_.front();
  partition.graph_ = &graph;
  partition.inputs_ = first.inputs();
  partition.outputs_ = first.outputs();
  partition.start_ = std::make_unique<StateDict>(first.layout());
  MUSTER_TRY_STATUS(copy_part(start, *partition.start_));
  MUSTER_TRY_STATUS(check_finite(partition.start_->layout(), partition.start_->values()));
  partition.weights_ = std::make_unique<TrainedWeights>(
      graph, *partition.start_, settings, TrainedWeightsOptions{.workers = options.workers});
  partition.options_ = std::move(options);
  return partition;
}

const std::vector<std::string>& PartitionReplica::inputs() const {
  return inputs_;
}
const std::vector<std::string>& PartitionReplica::outputs() const {
  return outputs_;
}

Status PartitionReplica::check_sizes(const std::vector<std::string>& names, std::int64_t batch,
                                     const Tensors& tensors, const char* what) const {
  if (tensors.size() != names.size()) {
    return invalid(std::to_string(tensors.size()) + " " + what + ", " +
                   std::to_string(names.size()) + " are wanted");
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    const int node = graph_->find(names[i]);
    const std::int64_t size = node < 0 ? graph_->input_size() : graph_->node(node).size;
    if (static_cast<std::int64_t>(tensors[i].size()) != batch * size) {
      return invalid(std::string(what) + ": " + names[i] + " has " +
                     std::to_string(tensors[i].size()) + " values, " + std::to_string(batch) +
                     " examples of " + std::to_string(size) + " are wanted");
    }
  }
  return {};
}

Result<Tensors> PartitionReplica::forward(std::int64_t id, std::int64_t batch, Tensors inputs,
                                          std::uint64_t seed) {
  if (batch < 1 || batch > options_.max_micro_batch) {
    return invalid(micro_batch(id) + " has " + std::to_string(batch) + " examples, 1 to " +
                   std::to_string(options_.max_micro_batch) + " are wanted");
  }
  if (in_flight_.contains(id)) return invalid(micro_batch(id) + " is in flight already");
  MUSTER_TRY_STATUS(check_sizes(inputs_, batch, inputs, "inputs"));
  if (free_.empty()) {
    return Error{ErrorCode::kFailedPrecondition,
                 "partition: " + micro_batch(id) + " comes while " +
                     std::to_string(in_flight_.size()) + " are in flight, the most there may be",
                 "in_flight"};
  }
  Flight flight{
      .run = std::move(free_.back()), .batch = batch, .inputs = std::move(inputs), .seed = seed};
  free_.pop_back();
  flight.run.run(weights_->w(), views_of(flight.inputs), batch, {.training = true, .seed = seed});
  if (const std::string_view node = flight.run.first_non_finite(); !node.empty()) {
    free_.push_back(std::move(flight.run));
    return Error{ErrorCode::kFailedPrecondition,
                 "partition: " + micro_batch(id) + ": the first node that is not finite is " +
                     std::string(node),
                 "non_finite"};
  }
  Tensors outputs;
  for (const std::string& name : outputs_) {
    const auto values = flight.run.activation(name);
    outputs.emplace_back(values.begin(), values.end());
  }
  in_flight_.emplace(id, std::move(flight));
  return outputs;
}

Result<Tensors> PartitionReplica::backward(std::int64_t id, Tensors doutputs) {
  const auto found = in_flight_.find(id);
  if (found == in_flight_.end()) return invalid(micro_batch(id) + " is not in flight");
  Flight& flight = found->second;
  MUSTER_TRY_STATUS(check_sizes(outputs_, flight.batch, doutputs, "gradients"));
  flight.run.backward(views_of(doutputs), weights_->gradient(), has_gradient_);
  has_gradient_ = true;
  flight.run.update_untrained(weights_->w());
  Tensors dinputs;
  for (const std::string& name : inputs_) {
    dinputs.emplace_back();
    if (graph_->find(name) < 0) continue;
    const auto values = flight.run.input_gradient(name);
    dinputs.back().assign(values.begin(), values.end());
  }
  free_.push_back(std::move(flight.run));
  in_flight_.erase(found);
  return dinputs;
}

void PartitionReplica::abandon() {
  for (auto& [id, flight] : in_flight_) free_.push_back(std::move(flight.run));
  in_flight_.clear();
  has_gradient_ = false;
}

Status PartitionReplica::check_ready() const {
  if (!in_flight_.empty()) {
    return Error{ErrorCode::kFailedPrecondition,
                 "partition: " + micro_batch(in_flight_.begin()->first) + " is still in flight"};
  }
  if (!has_gradient_) {
    return Error{ErrorCode::kFailedPrecondition, "partition: no micro-batch was computed"};
  }
  return {};
}

Status PartitionReplica::apply(StepNumber at, std::optional<double> clip) {
  MUSTER_TRY_STATUS(check_ready());
  has_gradient_ = false;
  return weights_->step(at, clip);
}

}  // namespace muster
