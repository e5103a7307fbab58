#include <algorithm>
#include <limits>
#include <utility>

#include "core/graph/graph_run_parts.h"

namespace muster {

Status GraphRun::Parts::choose_nodes(const std::vector<std::string>& ids) {
  std::vector<bool> chosen(graph.nodes().size(), ids.empty());
  for (const std::string& id : ids) {
    const int index = graph.find(id);
    if (index < 0) {
      return Error{ErrorCode::kInvalidArgument, "graph run: unknown node \"" + id + "\"",
                   "unknown_node"};
    }
    chosen[static_cast<std::size_t>(index)] = true;
  }
  tensors.resize(graph.nodes().size() + 1);
  tensors[0].size = graph.input_size();
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const GraphNode& node = graph.nodes()[i];
    tensors[i + 1].size = node.size;
    if (!chosen[i]) continue;
    NodeRun run;
    run.node = &node;
    run.output = i + 1;
    for (const int input : node.inputs) run.inputs.push_back(static_cast<std::size_t>(input + 1));
    runs.push_back(std::move(run));
  }
  return {};
}

void GraphRun::Parts::find_boundaries() {
  std::vector<bool> computed(tensors.size(), false);
  std::vector<bool> listed(tensors.size(), false);
  for (const NodeRun& run : runs) computed[run.output] = true;
  for (const NodeRun& run : runs) {
    for (const std::size_t input : run.inputs) {
      ++tensors[input].users;
      if (computed[input] || listed[input]) continue;
      listed[input] = true;
      inputs.push_back(input);
      input_names.push_back(tensor_name(input));
    }
  }
  std::vector<bool> leaves(tensors.size(), false);
  leaves[static_cast<std::size_t>(graph.output() + 1)] = true;
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    if (computed[i + 1]) continue;
    for (const int input : graph.nodes()[i].inputs)
      leaves[static_cast<std::size_t>(input + 1)] = true;
  }
  for (const NodeRun& run : runs) {
    if (!leaves[run.output]) continue;
    outputs.push_back(run.output);
    ++tensors[run.output].users;  // a gradient comes from outside too
    output_names.push_back(run.node->id);
  }
}

Status GraphRun::Parts::make_layout() {
  layout = graph.layout();
  if (runs.size() != graph.nodes().size()) {
    std::vector<StateLayout::Entry> entries;
    for (const NodeRun& run : runs) {
      for (const ParameterSpec& parameter : run.node->op->plan().parameters) {
        entries.push_back({parameter_name(*run.node, parameter), parameter.shape});
      }
    }
    MUSTER_TRY(layout, StateLayout::create(std::move(entries)));
  }
  for (NodeRun& run : runs) {
    for (const ParameterSpec& parameter : run.node->op->plan().parameters) {
      const TensorSpec* spec = layout->find(parameter_name(*run.node, parameter));
      require(spec != nullptr, "graph run: a parameter is not in the layout");
      run.offsets.push_back(spec->offset);
      run.sizes.push_back(spec->size);
    }
  }
  return {};
}

// A tensor's gradient is needed when a trained parameter lies above it, or a wanted input does.
void GraphRun::Parts::find_differentiated(const GraphRunOptions& options) {
  std::vector<bool> needed(tensors.size(), false);
  for (const std::size_t input : inputs) needed[input] = options.input_gradients;
  for (NodeRun& run : runs) {
    for (const ParameterSpec& parameter : run.node->op->plan().parameters) {
      run.differentiate = run.differentiate || parameter.trained;
    }
    for (const std::size_t input : run.inputs) {
      run.differentiate = run.differentiate || needed[input];
    }
    needed[run.output] = run.differentiate;
  }
  for (std::size_t t = 0; t < tensors.size(); ++t) tensors[t].gradient_at = needed[t] ? 0 : -1;
}

// A gradient is used from the backward of its last user (or the start, when it comes from outside)
// to that of the node which made the tensor; so most can share their memory. A tensor of several
// users needs a spare at each, to be added to what the others gave.
void GraphRun::Parts::place_gradients(ArenaPlan& plan) {
  constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
  std::vector<std::int64_t> first(tensors.size(), kNever);
  std::vector<std::int64_t> last(tensors.size(), kNever);
  for (const std::size_t output : outputs) first[output] = 0;
  const auto floats = [&](std::size_t tensor) {
    ArenaPlan size;
    size.take(tensors[tensor].size, max_batch, 0);
    return size.total();
  };
  SharedPlan shared;
  // Places to shift by where their buffer comes to lie.
  std::vector<std::pair<std::int64_t*, std::size_t>> places;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    NodeRun& run = runs[runs.size() - 1 - r];
    const auto step = static_cast<std::int64_t>(r);
    last[run.output] = step;
    ArenaPlan spares;  // one buffer for all of the node
    std::vector<std::int64_t*> spare_places;
    for (std::size_t i = 0; i < run.inputs.size(); ++i) {
      const Tensor& tensor = tensors[run.inputs[i]];
      if (tensor.gradient_at < 0) continue;
      first[run.inputs[i]] = std::min(first[run.inputs[i]], step);
      if (tensor.users < 2) continue;
      run.spares_at[i] = spares.take(tensor.size, max_batch, 0);
      spare_places.push_back(&run.spares_at[i]);
    }
    if (spare_places.empty()) continue;
    const std::size_t buffer = shared.add(spares.total(), step, step);
    for (std::int64_t* place : spare_places) places.emplace_back(place, buffer);
  }
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    if (tensors[t].gradient_at < 0 || first[t] == kNever) continue;
    tensors[t].gradient_at = 0;
    places.emplace_back(&tensors[t].gradient_at, shared.add(floats(t), first[t], last[t]));
  }
  const std::int64_t block = plan.take(shared.place(), 1, 0);
  for (const auto& [place, buffer] : places) *place += block + shared.offset(buffer);
}

void GraphRun::Parts::plan_arena() {
  ArenaPlan plan;
  std::int64_t scratch_per_example = 0;
  std::int64_t scratch_fixed = 0;
  for (NodeRun& run : runs) {
    const OpPlan& op = run.node->op->plan();
    tensors[run.output].value_at = plan.take(run.node->size, max_batch, 0);
    run.saved_at = plan.take(op.saved_per_example, max_batch, op.saved_fixed);
    scratch_per_example = std::max(scratch_per_example, op.scratch_per_example);
    scratch_fixed = std::max(scratch_fixed, op.scratch_fixed);
    // A cache line apart, so that workers do not write to one.
    worker_scratch = std::max(worker_scratch, (op.scratch_per_worker + 31) / 16 * 16);
    for (std::size_t i = 0; i < op.parameters.size(); ++i) {
      run.next_at.push_back(op.parameters[i].trained ? -1 : plan.take(0, 0, run.sizes[i]));
    }
    run.spares_at.assign(run.inputs.size(), -1);
    run.input_values.resize(run.inputs.size());
    run.dinputs.resize(run.inputs.size());
    run.parameters.resize(op.parameters.size());
    run.next_values.resize(op.parameters.size());
    run.dparameters.resize(op.parameters.size());
  }
  if (can_backward) place_gradients(plan);
  scratch_at = plan.take(scratch_per_example, max_batch, scratch_fixed);
  worker_scratch_at = plan.take(worker_scratch, workers->count(), 0);
  arena_floats = plan.total();
}

Status GraphRun::Parts::take_arena(const GraphRunOptions& options) {
  const auto bytes = static_cast<std::uint64_t>(arena_floats) * sizeof(float);
  if (bytes > options.limit_bytes) {
    return Error{ErrorCode::kResourceExhausted,
                 "graph run: the workspace for " + std::to_string(max_batch) + " examples takes " +
                     std::to_string(bytes) + " bytes, over the limit " +
                     std::to_string(options.limit_bytes),
                 "workspace"};
  }
  arena = make_aligned_floats(arena_floats);
  if (arena == nullptr) {
    return Error{ErrorCode::kResourceExhausted,
                 "graph run: no memory for a workspace of " + std::to_string(bytes) + " bytes",
                 "workspace"};
  }
  for (const NodeRun& run : runs) {
    tensors[run.output].value = arena.get() + tensors[run.output].value_at;
  }
  for (Tensor& tensor : tensors) {
    if (tensor.gradient_at >= 0 && can_backward) tensor.gradient = arena.get() + tensor.gradient_at;
  }
  return {};
}

}  // namespace muster
