#include "core/graph/graph_run.h"

#include <algorithm>
#include <utility>

#include "core/graph/graph_run_parts.h"

namespace muster {

void GraphRun::Parts::forward(const StateDict& state, const Mode& how) {
  const std::span<const float> values = state.values();
  for (NodeRun& run : runs) {
    const OpPlan& plan = run.node->op->plan();
    for (std::size_t i = 0; i < run.inputs.size(); ++i) {
      run.input_values[i] = {tensors[run.inputs[i]].value, floats(run.inputs[i])};
    }
    for (std::size_t i = 0; i < run.offsets.size(); ++i) {
      run.parameters[i] = values.subspan(static_cast<std::size_t>(run.offsets[i]),
                                         static_cast<std::size_t>(run.sizes[i]));
      if (run.next_at[i] >= 0) run.next_values[i] = place(run.next_at[i], run.sizes[i]);
    }
    run.node->op->forward(
        {.batch = batch,
         .training = how.training,
         // Random spreads neighbouring seeds over its whole state.
         .seed = how.seed ^ (0x9E3779B97F4A7C15ULL * run.output),
         .inputs = run.input_values,
         .parameters = run.parameters,
         .output = place(tensors[run.output].value_at, batch * run.node->size),
         .saved = place(run.saved_at, batch * plan.saved_per_example + plan.saved_fixed),
         .scratch = place(scratch_at, batch * plan.scratch_per_example + plan.scratch_fixed),
         .workers = worker_scratches(),
         .next_values = run.next_values});
  }
}

void GraphRun::Parts::backward(StateDict& gradient, bool accumulate) {
  const std::span<float> values = gradient.values();
  for (auto run = runs.rbegin(); run != runs.rend(); ++run) {
    if (!run->differentiate) continue;
    const OpPlan& plan = run->node->op->plan();
    for (std::size_t i = 0; i < run->inputs.size(); ++i) {
      Tensor& tensor = tensors[run->inputs[i]];
      run->dinputs[i] = {};
      if (tensor.gradient == nullptr) continue;
      float* target = tensor.written ? arena.get() + run->spares_at[i] : tensor.gradient;
      run->dinputs[i] = {target, floats(run->inputs[i])};
      tensor.written = true;
    }
    for (std::size_t i = 0; i < run->offsets.size(); ++i) {
      if (!plan.parameters[i].trained) continue;
      run->dparameters[i] = values.subspan(static_cast<std::size_t>(run->offsets[i]),
                                           static_cast<std::size_t>(run->sizes[i]));
    }
    const std::size_t out = run->output;
    run->node->op->backward(
        {.batch = batch,
         .training = mode.training,
         .accumulate = accumulate,
         .inputs = run->input_values,
         .parameters = run->parameters,
         .output = {tensors[out].value, floats(out)},
         .saved = place(run->saved_at, batch * plan.saved_per_example + plan.saved_fixed),
         .scratch = place(scratch_at, batch * plan.scratch_per_example + plan.scratch_fixed),
         .workers = worker_scratches(),
         .doutput = {tensors[out].gradient, floats(out)},
         .dinputs = run->dinputs,
         .dparameters = run->dparameters});
    for (std::size_t i = 0; i < run->inputs.size(); ++i) {
      float* sum = tensors[run->inputs[i]].gradient;
      if (run->dinputs[i].empty() || run->dinputs[i].data() == sum) continue;
      for (std::size_t k = 0; k < run->dinputs[i].size(); ++k) sum[k] += run->dinputs[i][k];
    }
  }
}

GraphRun::GraphRun(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
GraphRun::GraphRun(GraphRun&&) noexcept = default;
GraphRun& GraphRun::operator=(GraphRun&&) noexcept = default;
GraphRun::~GraphRun() = default;

Result<std::unique_ptr<GraphRun::Parts>> GraphRun::Parts::plan(const Graph& graph,
                                                               const GraphRunOptions& options) {
  if (options.max_batch < 1) {
    return Error{
        ErrorCode::kInvalidArgument,
        "graph run: max_batch is " + std::to_string(options.max_batch) + ", wanted at least 1"};
  }
  auto parts = std::make_unique<Parts>(graph);
  parts->max_batch = options.max_batch;
  parts->can_backward = options.backward;
  if (options.workers != nullptr) parts->workers = options.workers;
  MUSTER_TRY_STATUS(parts->choose_nodes(options.nodes));
  parts->find_boundaries();
  MUSTER_TRY_STATUS(parts->make_layout());
  parts->find_differentiated(options);
  parts->plan_arena();
  return parts;
}

Result<GraphRun> GraphRun::create(const Graph& graph, const GraphRunOptions& options) {
  MUSTER_TRY(auto parts, Parts::plan(graph, options));
  MUSTER_TRY_STATUS(parts->take_arena(options));
  return GraphRun(std::move(parts));
}

Result<std::uint64_t> GraphRun::measure(const Graph& graph, const GraphRunOptions& options) {
  MUSTER_TRY(const auto parts, Parts::plan(graph, options));
  return static_cast<std::uint64_t>(parts->arena_floats) * sizeof(float);
}

const std::vector<std::string>& GraphRun::inputs() const {
  return parts_->input_names;
}
const std::vector<std::string>& GraphRun::outputs() const {
  return parts_->output_names;
}
const LayoutPtr& GraphRun::layout() const {
  return parts_->layout;
}

std::uint64_t GraphRun::workspace_bytes() const {
  return static_cast<std::uint64_t>(parts_->arena_floats) * sizeof(float);
}

std::span<const float> GraphRun::run(const StateDict& state, std::span<const float> x,
                                     std::int64_t batch, const Mode& mode) {
  require(parts_->outputs.size() == 1, "graph run: the short form of run wants one output");
  run(state, std::span<const std::span<const float>>(&x, 1), batch, mode);
  const std::size_t output = parts_->outputs[0];
  return {parts_->tensors[output].value, parts_->floats(output)};
}

void GraphRun::run(const StateDict& state, std::span<const std::span<const float>> x,
                   std::int64_t batch, const Mode& mode) {
  Parts& parts = *parts_;
  require(batch >= 1 && batch <= parts.max_batch, "graph run: batch out of range");
  require(x.size() == parts.inputs.size(), "graph run: another number of inputs");
  require(state.layout() == *parts.layout, "graph run: the state has another layout");
  parts.batch = batch;
  parts.mode = mode;
  for (std::size_t i = 0; i < x.size(); ++i) {
    require(x[i].size() == parts.floats(parts.inputs[i]), "graph run: an input of another size");
    parts.tensors[parts.inputs[i]].value = x[i].data();
  }
  parts.forward(state, mode);
}

std::span<const float> GraphRun::activation(std::string_view node) const {
  const int index = parts_->graph.find(node);
  require(index >= 0, "graph run: activation of an unknown node");
  const auto tensor = static_cast<std::size_t>(index + 1);
  return {parts_->tensors[tensor].value, parts_->floats(tensor)};
}

void GraphRun::backward(std::span<const float> doutput, StateDict& gradient, bool accumulate) {
  backward(std::span<const std::span<const float>>(&doutput, 1), gradient, accumulate);
}

void GraphRun::backward(std::span<const std::span<const float>> doutputs, StateDict& gradient,
                        bool accumulate) {
  Parts& parts = *parts_;
  require(parts.can_backward && parts.batch >= 1, "graph run: backward without run, or not wanted");
  require(doutputs.size() == parts.outputs.size(), "graph run: another number of gradients");
  require(gradient.layout() == *parts.layout, "graph run: the gradient has another layout");
  for (Parts::Tensor& tensor : parts.tensors) tensor.written = false;
  for (std::size_t i = 0; i < doutputs.size(); ++i) {
    Parts::Tensor& tensor = parts.tensors[parts.outputs[i]];
    require(doutputs[i].size() == parts.floats(parts.outputs[i]),
            "graph run: a gradient of another size");
    if (tensor.gradient == nullptr) continue;
    std::copy(doutputs[i].begin(), doutputs[i].end(), tensor.gradient);
    tensor.written = true;
  }
  parts.backward(gradient, accumulate);
}

std::span<const float> GraphRun::input_gradient(std::string_view input) const {
  const auto tensor = static_cast<std::size_t>(parts_->graph.find(input) + 1);
  require(tensor < parts_->tensors.size() && parts_->tensors[tensor].gradient != nullptr,
          "graph run: no gradient for this input");
  return {parts_->tensors[tensor].gradient, parts_->floats(tensor)};
}

void GraphRun::update_untrained(StateDict& state) const {
  require(state.layout() == *parts_->layout, "graph run: the state has another layout");
  for (const Parts::NodeRun& run : parts_->runs) {
    for (std::size_t i = 0; i < run.next_at.size(); ++i) {
      if (run.next_at[i] < 0) continue;
      std::copy_n(parts_->arena.get() + run.next_at[i], run.sizes[i],
                  state.values().data() + run.offsets[i]);
    }
  }
}

std::string_view GraphRun::first_non_finite() const {
  for (const Parts::NodeRun& run : parts_->runs) {
    const std::span<const float> values{parts_->tensors[run.output].value,
                                        parts_->floats(run.output)};
    if (find_non_finite(values) >= 0) return run.node->id;
  }
  return "";
}

}  // namespace muster
