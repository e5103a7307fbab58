#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "core/graph/graph.h"
#include "tests/core/graph/fenced.h"

// lstm and gru called as a GraphRun calls them, in memory of just the size they plan for.
namespace muster {
namespace {

struct PlanCase {
  std::int64_t steps = 0;
  std::int64_t in = 0;
  std::int64_t units = 0;
  std::int64_t layers = 0;
  std::int64_t batch = 0;
};

class RecurrentPlan : public testing::TestWithParam<std::tuple<std::string, PlanCase, int>> {};

TEST_P(RecurrentPlan, IsEnoughAndItsMemoryMayHoldAnything) {
  const auto& [op_name, c, worker_count] = GetParam();
  const auto graph = Graph::from_json(
      {{"input", {{"shape", {c.steps, c.in}}}},
       {"nodes", {{{"id", "n"}, {"op", op_name}, {"units", c.units}, {"layers", c.layers}}}},
       {"loss", {{"type", "mse"}}}});
  ASSERT_TRUE(graph) << graph.error().message;
  const Op& op = *graph->nodes()[0].op;
  const OpPlan& plan = op.plan();
  const StateDict state = graph->initial_state(1);
  std::vector<std::span<const float>> parameters;
  std::vector<Fenced> gradients;
  std::vector<std::span<float>> dparameters;
  for (const ParameterSpec& parameter : plan.parameters) {
    parameters.push_back(state.tensor("n." + parameter.name));
    gradients.emplace_back(static_cast<std::int64_t>(parameters.back().size()));
  }
  for (Fenced& gradient : gradients) dparameters.push_back(gradient.span());
  const std::vector<float> x(static_cast<std::size_t>(c.batch * c.steps * c.in), 0.25F);
  const std::vector<float> dy(static_cast<std::size_t>(c.batch * c.steps * c.units), 0.5F);
  Fenced y(c.batch * c.steps * c.units);
  Fenced saved(c.batch * plan.saved_per_example + plan.saved_fixed);
  Fenced scratch(c.batch * plan.scratch_per_example + plan.scratch_fixed);
  Fenced dx(c.batch * c.steps * c.in);
  Fenced worker_scratch(plan.scratch_per_worker * worker_count);
  Workers workers(worker_count);
  const WorkerScratch shared{&workers, worker_scratch.span().data(), plan.scratch_per_worker};
  const std::vector<std::span<const float>> inputs{x};
  const std::vector<std::span<float>> dinputs{dx.span()};
  op.forward({.batch = c.batch,
              .training = true,
              .inputs = inputs,
              .parameters = parameters,
              .output = y.span(),
              .saved = saved.span(),
              .scratch = scratch.span(),
              .workers = shared,
              .next_values = {}});
  EXPECT_TRUE(y.intact() && saved.intact() && scratch.intact() && worker_scratch.intact());
  std::ranges::fill(scratch.span(), std::numeric_limits<float>::quiet_NaN());
  op.backward({.batch = c.batch,
               .training = true,
               .inputs = inputs,
               .parameters = parameters,
               .output = y.span(),
               .saved = saved.span(),
               .scratch = scratch.span(),
               .workers = shared,
               .doutput = dy,
               .dinputs = dinputs,
               .dparameters = dparameters});
  EXPECT_TRUE(dx.intact() && saved.intact() && scratch.intact() && worker_scratch.intact());
  EXPECT_EQ(find_non_finite(y.span()), -1);
  EXPECT_EQ(find_non_finite(dx.span()), -1);
  for (Fenced& gradient : gradients) {
    EXPECT_TRUE(gradient.intact());
    EXPECT_EQ(find_non_finite(gradient.span()), -1);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, RecurrentPlan,
    testing::Combine(testing::Values("lstm", "gru"),
                     testing::Values(PlanCase{1, 1, 1, 1, 1}, PlanCase{5, 3, 7, 2, 3},
                                     PlanCase{9, 70, 50, 3, 64}, PlanCase{3, 2, 97, 2, 65},
                                     PlanCase{12, 40, 6, 2, 130}, PlanCase{4, 5, 16, 1, 200},
                                     PlanCase{600, 1, 2, 2, 1}, PlanCase{17, 3, 130, 2, 31}),
                     testing::Values(1, 4)),
    [](const auto& entry) {
      const PlanCase& c = std::get<1>(entry.param);
      return std::get<0>(entry.param) + "_T" + std::to_string(c.steps) + "_in" +
             std::to_string(c.in) + "_units" + std::to_string(c.units) + "_layers" +
             std::to_string(c.layers) + "_batch" + std::to_string(c.batch) + "_workers" +
             std::to_string(std::get<2>(entry.param));
    });

}  // namespace
}  // namespace muster
