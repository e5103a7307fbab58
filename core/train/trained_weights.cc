#include "core/train/trained_weights.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <string_view>

#include "core/tensor/kernels/kernels.h"
#include "core/train/clip.h"

namespace muster {
namespace {

Error non_finite(StepNumber at, const std::string& what) {
  return {ErrorCode::kFailedPrecondition, "training: " + describe(at) + what, "non_finite"};
}

// The graph's own ranges, or those of a layout with some of its parameters.
std::vector<Graph::Range> ranges_in(const Graph& graph, const StateLayout& layout) {
  if (layout == *graph.layout()) return graph.trained_ranges();
  std::set<std::string> trained;
  for (const GraphNode& node : graph.nodes()) {
    for (const ParameterSpec& parameter : node.op->plan().parameters) {
      if (parameter.trained) trained.insert(parameter_name(node, parameter));
    }
  }
  std::vector<Graph::Range> ranges;
  for (const TensorSpec& spec : layout.tensors()) {
    if (!trained.contains(spec.name)) continue;
    if (!ranges.empty() && ranges.back().offset + ranges.back().size == spec.offset) {
      ranges.back().size += spec.size;
    } else {
      ranges.push_back({.offset = spec.offset, .size = spec.size});
    }
  }
  return ranges;
}

// What lies between the ranges.
std::vector<Graph::Range> gaps_between(const std::vector<Graph::Range>& ranges, std::int64_t all) {
  std::vector<Graph::Range> gaps;
  std::int64_t at = 0;
  const auto up_to = [&](std::int64_t end) {
    if (end > at) gaps.push_back({.offset = at, .size = end - at});
  };
  for (const Graph::Range& range : ranges) {
    up_to(range.offset);
    at = range.offset + range.size;
  }
  up_to(all);
  return gaps;
}

}  // namespace

std::string describe(const StepNumber& at) {
  return "step " + std::to_string(at.step + 1) + " of " + std::to_string(at.total) + ": ";
}

TrainedWeights::TrainedWeights(const Graph& graph, const StateDict& start,
                               const LocalSettings& settings, TrainedWeightsOptions options)
    : graph_(&graph),
      start_(&start),
      settings_(settings),
      options_(options),
      ranges_(ranges_in(graph, start.layout())),
      untrained_(gaps_between(ranges_, start.layout().num_elements())),
      w_(start.clone()),
      gradient_(start.layout_ptr()),
      optimizer_(Optimizer::create(settings.optimizer)),
      optimizer_state_(optimizer_->start(start.layout_ptr())) {}

void TrainedWeights::add_gradient_offset() {
  constexpr std::int64_t kPart = 32'768;
  const auto add = kernels::best().add;
  for (const Graph::Range& range : ranges_) {
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

void TrainedWeights::take_untrained_from_gradient() {
  for (const Graph::Range& range : untrained_) {
    std::copy_n(gradient_.values().data() + range.offset, range.size,
                w_.values().data() + range.offset);
  }
}

double TrainedWeights::gradient_norm() const {
  return muster::gradient_norm(gradient_, w_, ranges_, proximal());
}

Status TrainedWeights::step(StepNumber at, std::optional<double> clip) {
  if (options_.gradient_offset != nullptr) add_gradient_offset();
  Optimizer::Step step{
      .lr = learning_rate(settings_.schedule, settings_.optimizer.lr, at.step, at.total),
      .proximal = proximal(),
      .workers = options_.workers};
  if (clip) {
    step.scale = *clip;
  } else if (settings_.clip_norm > 0) {
    const double norm = gradient_norm();
    if (!std::isfinite(norm)) return blew_up(at);
    step.scale = clip_scale(norm, settings_.clip_norm);
  }
  if (!optimizer_->step(w_, gradient_, ranges_, step, optimizer_state_)) return blew_up(at);
  return {};
}

Status TrainedWeights::check_gradient(StepNumber at) const {
  for (const Graph::Range& range : ranges_) {
    const auto values = gradient_.values().subspan(static_cast<std::size_t>(range.offset),
                                                   static_cast<std::size_t>(range.size));
    if (find_non_finite(values) >= 0) return blew_up(at);
  }
  return {};
}

// Looks where it began: in the gradient, in order of the backward pass; else in the optimiser.
Error TrainedWeights::blew_up(StepNumber at) const {
  const std::vector<GraphNode>& nodes = graph_->nodes();
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
    for (const ParameterSpec& parameter : node->op->plan().parameters) {
      const std::string name = parameter_name(*node, parameter);
      const TensorSpec* spec = gradient_.layout().find(name);
      if (!parameter.trained || spec == nullptr) continue;
      const std::span<const float> values = gradient_.tensor(*spec);
      if (const std::int64_t bad = find_non_finite(values); bad >= 0) {
        return non_finite(at, "the gradient of " + name + " is " +
                                  std::to_string(values[static_cast<std::size_t>(bad)]) +
                                  " at element " + std::to_string(bad));
      }
    }
  }
  if (Status finite = check_finite(w_.layout(), w_.values()); !finite) {
    return non_finite(at, "the step leaves " + finite.error().message);
  }
  for (std::size_t i = 0; i < optimizer_state_.moments.size(); ++i) {
    const StateDict& moment = optimizer_state_.moments[i];
    if (Status finite = check_finite(moment.layout(), moment.values()); !finite) {
      return non_finite(at, "the optimizer's " + std::string(optimizer_->moments()[i].name) +
                                " overflows: " + finite.error().message);
    }
  }
  return non_finite(at, "the gradient's norm is not finite");
}

}  // namespace muster
