#include <gmock/gmock.h>

#include <limits>
#include <set>
#include <string>

#include "core/base/random.h"
#include "core/graph/graph_run.h"
#include "tests/core/graph/op_samples.h"

// What holds for every op.
namespace muster {
namespace {

TEST(OpKinds, AllHaveASample) {
  std::set<std::string> sampled;
  for (const OpSample& sample : op_samples()) sampled.insert(sample.op);
  for (const OpKind& kind : builtin_ops()) {
    EXPECT_TRUE(sampled.contains(std::string(kind.name))) << kind.name;
  }
  EXPECT_EQ(sampled.size(), builtin_ops().size());
}

TEST(OpKinds, CanonicalFormsReadBackToThemselves) {
  for (const OpSample& sample : op_samples()) {
    SCOPED_TRACE(sample.op);
    const Result<Graph> graph = Graph::from_json(graph_of(sample));
    ASSERT_TRUE(graph) << graph.error().message;
    const Json written = graph->to_json();
    const Result<Graph> again = Graph::from_json(written);
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(again->to_json(), written);
    for (const auto& [key, value] : sample.attributes.items()) {
      EXPECT_TRUE(written["nodes"][0].contains(key)) << key;
    }
  }
}

TEST(OpKinds, UnknownAttributesAndOtherNumbersOfInputsAreRefused) {
  for (const OpSample& sample : op_samples()) {
    SCOPED_TRACE(sample.op);
    Json unknown = graph_of(sample);
    unknown["nodes"][0]["dilatation"] = 2;
    const Result<Graph> graph = Graph::from_json(unknown);
    ASSERT_FALSE(graph);
    EXPECT_THAT(graph.error().message, testing::HasSubstr("dilatation"));
    OpSample other = sample;
    other.inputs = sample.inputs == 1 ? 2 : 1;
    EXPECT_FALSE(Graph::from_json(graph_of(other)));
  }
}

// A workspace full of NaN must not shine through: whatever an op reads it has written before.
TEST(OpKinds, ResultsDoNotDependOnWhatTheWorkspaceHeld) {
  for (const OpSample& sample : op_samples()) {
    SCOPED_TRACE(sample.op);
    const Result<Graph> graph = Graph::from_json(graph_of(sample));
    ASSERT_TRUE(graph) << graph.error().message;
    const StateDict state = graph->initial_state(5);
    GraphRunOptions options;
    options.max_batch = 3;
    options.input_gradients = true;
    const auto size = static_cast<std::size_t>(graph->input_size());
    const auto out = static_cast<std::size_t>(graph->node(graph->output()).size);
    std::vector<float> x(3 * size);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 4);
    const std::vector<float> dy(3 * out, 0.25F);
    for (const bool training : {true, false}) {
      const GraphRun::Mode mode{.training = training, .seed = 2};
      Result<GraphRun> run = GraphRun::create(*graph, options);
      ASSERT_TRUE(run);
      const auto go = [&] {
        const auto y = run->run(state, x, 3, mode);
        std::vector<float> all(y.begin(), y.end());
        StateDict gradient(graph->layout());
        run->backward(dy, gradient);
        all.insert(all.end(), gradient.values().begin(), gradient.values().end());
        const auto dx = run->input_gradient("input");
        all.insert(all.end(), dx.begin(), dx.end());
        return all;
      };
      const std::vector<float> clean = go();
      const std::vector<float> bad(3 * size, std::numeric_limits<float>::quiet_NaN());
      run->run(state, bad, 3, mode);
      StateDict unused(graph->layout());
      run->backward(std::vector<float>(3 * out, std::numeric_limits<float>::quiet_NaN()), unused);
      EXPECT_EQ(go(), clean);
    }
  }
}

// So that the loss guard sees it. (Row numbers that are NaN give rows of NaN too.)
TEST(OpKinds, ANanInTheInputReachesTheOutput) {
  for (const OpSample& sample : op_samples()) {
    SCOPED_TRACE(sample.op);
    const Result<Graph> graph = Graph::from_json(graph_of(sample));
    ASSERT_TRUE(graph) << graph.error().message;
    const StateDict state = graph->initial_state(5);
    Result<GraphRun> run = GraphRun::create(*graph, {.max_batch = 2});
    ASSERT_TRUE(run);
    std::vector<float> x(2 * static_cast<std::size_t>(graph->input_size()), 1.0F);
    x[0] = std::numeric_limits<float>::quiet_NaN();
    for (const bool training : {true, false}) {
      run->run(state, x, 2, {.training = training, .seed = 2});
      EXPECT_EQ(run->first_non_finite(), "n");
    }
  }
}

}  // namespace
}  // namespace muster
