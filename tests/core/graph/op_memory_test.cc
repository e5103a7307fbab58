#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/graph/graph.h"
#include "tests/core/graph/fenced.h"
#include "tests/core/graph/op_samples.h"

// Every op called as a GraphRun calls it, in memory of just the size it plans for.
namespace muster {
namespace {

struct Call {
  const GraphNode* node = nullptr;
  std::int64_t batch = 0;
  int workers = 1;
  std::int64_t scratch_short = 0;  // floats that scratch lacks
};

// Forward and backward on whole numbers of 0 to 4, which an embedding wants; returns y and dx.
std::vector<float> call(const Graph& graph, const Call& c) {
  const Op& op = *c.node->op;
  const OpPlan& plan = op.plan();
  const StateDict state = graph.initial_state(1);
  std::vector<std::span<const float>> parameters;
  std::vector<Fenced> fenced;
  for (const ParameterSpec& parameter : plan.parameters) {
    parameters.push_back(state.tensor("n." + parameter.name));
    fenced.emplace_back(static_cast<std::int64_t>(parameters.back().size()));
  }
  std::vector<std::span<float>> dparameters(parameters.size());
  std::vector<std::span<float>> next_values(parameters.size());
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    (plan.parameters[i].trained ? dparameters : next_values)[i] = fenced[i].span();
  }
  std::vector<float> x(static_cast<std::size_t>(c.batch * graph.input_size()));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 7 % 5);
  std::vector<float> dy(static_cast<std::size_t>(c.batch * c.node->size));
  for (std::size_t i = 0; i < dy.size(); ++i) dy[i] = static_cast<float>(i * 5 % 7) - 3;
  Fenced y(c.batch * c.node->size);
  Fenced saved(c.batch * plan.saved_per_example + plan.saved_fixed);
  Fenced scratch(c.batch * plan.scratch_per_example + plan.scratch_fixed - c.scratch_short);
  Fenced worker_scratch(plan.scratch_per_worker * c.workers);
  Workers workers(c.workers);
  const WorkerScratch shared{&workers, worker_scratch.span().data(), plan.scratch_per_worker};
  const std::vector<std::span<const float>> inputs(c.node->inputs.size(), x);
  std::vector<Fenced> dx;
  std::vector<std::span<float>> dinputs;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    dx.emplace_back(static_cast<std::int64_t>(x.size()));
  }
  for (Fenced& each : dx) dinputs.push_back(each.span());
  op.forward({.batch = c.batch,
              .inputs = inputs,
              .parameters = parameters,
              .output = y.span(),
              .saved = saved.span(),
              .scratch = scratch.span(),
              .workers = shared,
              .next_values = next_values});
  std::ranges::fill(scratch.span(), std::numeric_limits<float>::quiet_NaN());
  op.backward({.batch = c.batch,
               .inputs = inputs,
               .parameters = parameters,
               .output = y.span(),
               .saved = saved.span(),
               .scratch = scratch.span(),
               .workers = shared,
               .doutput = dy,
               .dinputs = dinputs,
               .dparameters = dparameters});
  EXPECT_TRUE(y.intact() && saved.intact() && scratch.intact() && worker_scratch.intact());
  for (const Fenced& each : fenced) EXPECT_TRUE(each.intact());
  std::vector<float> values(y.span().begin(), y.span().end());
  for (Fenced& each : dx) {
    EXPECT_TRUE(each.intact());
    values.insert(values.end(), each.span().begin(), each.span().end());
  }
  return values;
}

TEST(OpMemory, EveryOpStaysInWhatItPlansAndManyWorkersGiveTheBitsOfOne) {
  for (const OpSample& sample : op_samples()) {
    const auto graph = Graph::from_json(graph_of(sample));
    ASSERT_TRUE(graph) << graph.error().message;
    for (const std::int64_t batch : {1, 3, 65, 130}) {
      SCOPED_TRACE(sample.op + " batch " + std::to_string(batch));
      Call c{&graph->nodes()[0], batch};
      const std::vector<float> one = call(*graph, c);
      for (const float value : one) ASSERT_TRUE(std::isfinite(value));
      for (c.workers = 2; c.workers <= 3; ++c.workers) EXPECT_TRUE(call(*graph, c) == one);
    }
  }
}

TEST(OpMemoryDeathTest, AnOpThatWouldUseMoreScratchThanThereIsStops) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  int with_scratch = 0;
  for (const OpSample& sample : op_samples()) {
    const auto graph = Graph::from_json(graph_of(sample));
    ASSERT_TRUE(graph) << graph.error().message;
    const OpPlan& plan = graph->nodes()[0].op->plan();
    const std::int64_t floats = 65 * plan.scratch_per_example + plan.scratch_fixed;
    if (floats == 0) continue;
    ++with_scratch;
    const Call c{&graph->nodes()[0], 65, 1, floats};
    EXPECT_DEATH(call(*graph, c), "scratch than it planned") << sample.op;
  }
  EXPECT_GE(with_scratch, 5);  // batch_norm, conv2d, group_norm, gru, lstm
}

}  // namespace
}  // namespace muster
