#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/graph/graph_run.h"
#include "tests/support/vectors.h"

namespace muster {
namespace {

Json convolution(const char* id, int filters, int padding) {
  return {{"id", id}, {"op", "conv2d"}, {"filters", filters}, {"kernel", 3}, {"padding", padding}};
}

Json pool(const char* id) {
  return {{"id", id}, {"op", "max_pool2d"}, {"kernel", 2}};
}

Json plain(const char* id, const char* op) {
  return {{"id", id}, {"op", op}};
}

// "conv1.W" of the vectors is "conv1.weight" with us.
std::string our_name(const std::string& theirs) {
  const std::size_t dot = theirs.find('.');
  return theirs.substr(0, dot) + (theirs.substr(dot) == ".W" ? ".weight" : ".bias");
}

TEST(ModelVectors, TheConvolutionalNetworkMatchesTheReference) {
  const Json file = vectors::load("models_cnn.json");
  ASSERT_EQ(file.at("cases").size(), 1U);
  const Json& test = file.at("cases")[0];
  const Result<Graph> graph = Graph::from_json(
      {{"input", {{"shape", {1, 10, 10}}}},
       {"nodes",
        {convolution("conv1", 3, 1), plain("relu1", "relu"), pool("pool1"),
         convolution("conv2", 4, 0), plain("relu2", "relu"), pool("pool2"),
         plain("flat", "flatten"), Json{{"id", "fc"}, {"op", "dense"}, {"units", 5}}}},
       {"loss", {{"type", "softmax_cross_entropy"}}}});
  ASSERT_TRUE(graph) << graph.error().message;
  StateDict state(graph->layout());
  ASSERT_EQ(test.at("params").size(), graph->layout()->tensors().size());
  for (const auto& [name, tensor] : test.at("params").items()) {
    const TensorSpec* spec = graph->layout()->find(our_name(name));
    ASSERT_NE(spec, nullptr) << name;
    ASSERT_EQ(spec->shape, vectors::shape(tensor)) << name;
    const auto values = vectors::floats(tensor);
    std::copy(values.begin(), values.end(), state.tensor(*spec).begin());
  }

  GraphRunOptions options;
  options.max_batch = 3;
  options.input_gradients = true;
  Result<GraphRun> run = GraphRun::create(*graph, options);
  ASSERT_TRUE(run) << run.error().message;
  const std::vector<float> x = vectors::floats(test.at("x"));
  const auto logits = run->run(state, x, 3, {.training = true});
  const vectors::Tolerance tolerance = vectors::tolerance(file, test);
  const Json& expected = test.at("expected");
  vectors::expect_close(logits, vectors::doubles(expected.at("logits")), tolerance);

  std::vector<std::int32_t> labels;
  for (const std::int64_t label : vectors::integers(test.at("labels"))) {
    labels.push_back(static_cast<std::int32_t>(label));
  }
  std::vector<float> dlogits(logits.size());
  const double loss = graph->loss().compute(logits, {.labels = labels, .values = {}}, dlogits);
  vectors::expect_close(std::vector<double>{loss}, vectors::doubles(expected.at("loss")),
                        tolerance);

  StateDict gradient(graph->layout());
  run->backward(dlogits, gradient);
  for (const auto& [name, tensor] : expected.at("grad_params").items()) {
    SCOPED_TRACE(name);
    vectors::expect_close(gradient.tensor(our_name(name)), vectors::doubles(tensor), tolerance);
  }
  vectors::expect_close(run->input_gradient("input"), vectors::doubles(expected.at("grad_x")),
                        tolerance);
}

}  // namespace
}  // namespace muster
