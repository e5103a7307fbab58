#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <string>
#include <vector>

#include "core/base/random.h"
#include "core/graph/graph_run.h"

// Checks what backward computes against central differences, for any little graph.
namespace muster {

// A graph for check_gradient. Its last node is the output; nodes may use "input" any number of
// times, so ops of several inputs are checked with several nodes.
struct GradientCase {
  std::string name;
  Shape input;  // without the batch dimension
  Json nodes;
  bool whole_numbers = false;  // inputs are row numbers 0..4, with no gradient
  bool training = true;        // false: differentiate evaluation
  // Inputs that all differ by more than twice the step of the differences, so that no maximum
  // changes its place.
  bool spread = false;
  double tolerance = 4e-3;  // relative and absolute
};

inline void PrintTo(const GradientCase& each, std::ostream* out) {
  *out << each.name;
}

// Between 0.1 and 1 in magnitude: away from 0, where relu has its corner.
inline std::vector<float> gradient_values(std::size_t count, Random& random) {
  std::vector<float> values(count);
  for (float& value : values) {
    const double x = random.uniform() * 0.9 + 0.1;
    value = static_cast<float>(random.below(2) == 0 ? x : -x);
  }
  return values;
}

namespace gradient_check {

constexpr float kStep = 1.0F / 256;

inline std::vector<float> inputs_of(const GradientCase& test, std::size_t count, Random& random) {
  std::vector<float> x = gradient_values(count, random);
  for (std::size_t i = 0; i < count && test.whole_numbers; ++i) {
    x[i] = static_cast<float>(random.below(5));
  }
  if (!test.spread) return x;
  for (std::size_t i = 0; i < count; ++i) {
    x[i] = (static_cast<float>(i) - static_cast<float>(count) / 2 + 0.5F) * 4 * kStep;
  }
  random.shuffle(x);
  return x;
}

// Random values; what is not trained (running statistics) is positive, as a variance must be.
inline StateDict state_of(const Graph& graph, Random& random) {
  StateDict state(graph.layout());
  for (float& value : state.values()) value = static_cast<float>(random.uniform() + 0.5);
  for (const Graph::Range& range : graph.trained_ranges()) {
    const auto start = gradient_values(static_cast<std::size_t>(range.size), random);
    std::copy(start.begin(), start.end(), state.values().begin() + range.offset);
  }
  return state;
}

inline GraphRun run_of(const Graph& graph, int batch, Workers& workers) {
  GraphRunOptions options;
  options.max_batch = batch;
  options.input_gradients = true;
  options.workers = &workers;
  Result<GraphRun> run = GraphRun::create(graph, options);
  EXPECT_TRUE(run) << run.error().message;
  return *std::move(run);
}

inline StateDict filled(const LayoutPtr& layout, float value) {
  StateDict state(layout);
  std::fill(state.values().begin(), state.values().end(), value);
  return state;
}

}  // namespace gradient_check

// Differentiates sum(output * direction) by every input and trained parameter, and checks
//   - the gradients against central differences (in float32, so `tolerance` is wide);
//   - that `accumulate` adds what a plain backward writes, up to rounding, and that both leave
//     parameters that are not trained alone;
//   - that two workers give the bits of one.
inline void check_gradient(const GradientCase& test, int batch) {
  using gradient_check::kStep;
  const Result<Graph> graph = Graph::from_json(
      {{"input", {{"shape", test.input}}}, {"nodes", test.nodes}, {"loss", {{"type", "mse"}}}});
  ASSERT_TRUE(graph) << graph.error().message;
  Workers one(1);
  GraphRun run = gradient_check::run_of(*graph, batch, one);
  Random random(7);
  StateDict state = gradient_check::state_of(*graph, random);
  const auto elements = [&](std::int64_t size) {
    return static_cast<std::size_t>(batch) * static_cast<std::size_t>(size);
  };
  auto x = gradient_check::inputs_of(test, elements(graph->input_size()), random);
  const auto direction = gradient_values(elements(graph->node(graph->output()).size), random);
  // One seed, so that dropout's mask is the same in every call.
  const GraphRun::Mode mode{.training = test.training, .seed = 3};
  const auto value = [&] {
    const auto y = run.run(state, x, batch, mode);
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += static_cast<double>(y[i]) * direction[i];
    return sum;
  };
  value();
  const auto output = run.activation(graph->node(graph->output()).id);
  const std::vector<float> first_output(output.begin(), output.end());
  constexpr float kBefore = 77;
  StateDict gradient = gradient_check::filled(graph->layout(), kBefore);
  run.backward(direction, gradient);
  const auto dx = run.input_gradient("input");
  const std::vector<float> input_gradient(dx.begin(), dx.end());

  StateDict sum = gradient_check::filled(graph->layout(), 0.5F);
  value();
  run.backward(direction, sum, true);
  std::vector<bool> trained(state.values().size(), false);
  for (const Graph::Range& range : graph->trained_ranges()) {
    std::fill_n(trained.begin() + range.offset, range.size, true);
  }
  for (std::size_t i = 0; i < trained.size(); ++i) {
    const float written = gradient.values()[i];
    if (trained[i]) {
      EXPECT_NEAR(sum.values()[i], 0.5F + written, 1e-5 * (1 + std::abs(written)))
          << "accumulated parameter " << i;
    } else {
      EXPECT_EQ(written, kBefore) << "untrained parameter " << i;
      EXPECT_EQ(sum.values()[i], 0.5F) << "untrained parameter " << i;
    }
  }

  Workers two(2);
  GraphRun shared = gradient_check::run_of(*graph, batch, two);
  StateDict shared_gradient = gradient_check::filled(graph->layout(), kBefore);
  const auto shared_output = shared.run(state, x, batch, mode);
  EXPECT_TRUE(std::ranges::equal(shared_output, first_output)) << "output of two workers";
  shared.backward(direction, shared_gradient);
  EXPECT_TRUE(shared_gradient == gradient) << "gradients of two workers";
  EXPECT_TRUE(std::ranges::equal(shared.input_gradient("input"), input_gradient))
      << "input gradients of two workers";

  const auto check = [&](float& place, float got, const std::string& what) {
    const float before = place;
    place = before + kStep;
    const double up = value();
    place = before - kStep;
    const double down = value();
    place = before;
    const double want = (up - down) / (2 * kStep);
    EXPECT_NEAR(got, want, test.tolerance * (1 + std::abs(want))) << what;
  };
  for (std::size_t i = 0; i < trained.size(); ++i) {
    if (!trained[i]) continue;
    check(state.values()[i], gradient.values()[i], "parameter " + std::to_string(i));
  }
  for (std::size_t i = 0; i < x.size() && !test.whole_numbers; ++i) {
    check(x[i], input_gradient[i], "input " + std::to_string(i));
  }
}

}  // namespace muster
