#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>

#include "core/graph/graph_run.h"
#include "tests/core/graph/op_vector_check.h"
#include "tests/support/vectors.h"

namespace muster {
namespace {

OpTranslation translate(const Json& test) {
  const std::string layer = test.at("layer");
  const Json settings = test.value("hyperparameters", Json::object());
  if (layer == "Dense") {
    return {
        {{"op", "dense"}, {"units", settings.at("out")}, {"bias", settings.value("bias", true)}},
        {{"W", "n.weight"}, {"b", "n.bias"}}};
  }
  if (layer == "ReLU") return {{{"op", "relu"}}};
  if (layer == "Tanh") return {{{"op", "tanh"}}};
  if (layer == "Sigmoid") return {{{"op", "sigmoid"}}};
  if (layer == "Flatten") return {{{"op", "flatten"}}};
  if (layer == "Dropout") return {{{"op", "dropout"}, {"p", settings.at("p")}}};
  if (layer == "LayerNorm") {
    return {{{"op", "layer_norm"},
             {"normalized_shape", settings.at("normalized_shape")},
             {"eps", settings.at("eps")}},
            {{"gamma", "n.weight"}, {"beta", "n.bias"}}};
  }
  if (layer == "Embedding") {
    return {
        {{"op", "embedding"}, {"vocabulary", settings.at("num")}, {"units", settings.at("dim")}},
        {{"W", "n.weight"}}};
  }
  if (layer == "MaxPool2d" || layer == "AvgPool2d") {
    Json node = settings;
    node["op"] = layer == "MaxPool2d" ? "max_pool2d" : "avg_pool2d";
    return {node};
  }
  if (layer == "BatchNorm1d" || layer == "BatchNorm2d") {
    return {
        {{"op", "batch_norm"}, {"eps", settings.at("eps")}, {"momentum", settings.at("momentum")}},
        {{"gamma", "n.weight"}, {"beta", "n.bias"}},
        {{"mean", "n.running_mean"}, {"var", "n.running_var"}}};
  }
  throw std::runtime_error("no translation for layer " + layer);
}

class LayerVectors : public testing::TestWithParam<std::pair<std::string, std::size_t>> {};

TEST_P(LayerVectors, EveryCaseMatchesTheReference) {
  const auto& [name, cases] = GetParam();
  const Json file = vectors::load("layers_" + name + ".json");
  ASSERT_EQ(file.at("cases").size(), cases);
  for (const Json& test : file.at("cases")) check_op_vector(file, test, translate(test));
}

INSTANTIATE_TEST_SUITE_P(Files, LayerVectors,
                         testing::Values(std::pair("dense", 13), std::pair("pool", 10),
                                         std::pair("batchnorm", 4)),
                         [](const auto& entry) { return entry.param.first; });

TEST(OpVectors, EveryLossCaseMatchesTheReference) {
  const std::map<std::string, std::string> types{{"SoftmaxCrossEntropy", "softmax_cross_entropy"},
                                                 {"MSE", "mse"},
                                                 {"BCEWithLogits", "bce_with_logits"}};
  const Json file = vectors::load("losses.json");
  ASSERT_EQ(file.at("cases").size(), 9U);
  for (const Json& test : file.at("cases")) {
    SCOPED_TRACE(test.at("name").get<std::string>());
    Json json = test.at("hyperparameters");
    json["type"] = types.at(test.at("loss_function"));
    const Json& inputs = test.at("inputs");
    const Result<std::unique_ptr<Loss>> loss =
        loss_from_json(json, "loss", {vectors::shape(inputs.at("prediction")).back()});
    ASSERT_TRUE(loss) << loss.error().message;
    const std::vector<float> prediction = vectors::floats(inputs.at("prediction"));
    std::vector<std::int32_t> labels;
    std::vector<float> values;
    if (inputs.contains("labels")) {
      for (const std::int64_t label : vectors::integers(inputs.at("labels"))) {
        labels.push_back(static_cast<std::int32_t>(label));
      }
    } else {
      values = vectors::floats(inputs.at("target"));
    }
    std::vector<float> gradient(prediction.size(), 77.0F);
    const double value = (*loss)->compute(prediction, {labels, values}, gradient);
    const vectors::Tolerance tolerance = vectors::tolerance(file, test);
    vectors::expect_close(std::vector{value}, vectors::doubles(test.at("expected").at("loss")),
                          tolerance);
    vectors::expect_close(gradient, vectors::doubles(test.at("expected").at("grad_prediction")),
                          tolerance);
    EXPECT_EQ((*loss)->compute(prediction, {labels, values}, {}), value);
  }
}

TEST(OpVectors, WholeNetworkMatchesTheReferenceAndAnSgdStep) {
  const Json file = vectors::load("models_mlp.json");
  const Json& test = file.at("cases").at(0);
  const std::map<std::string, std::string> names{
      {"W1", "fc1.weight"}, {"b1", "fc1.bias"}, {"W2", "fc2.weight"}, {"b2", "fc2.bias"}};
  const Result<Graph> graph = Graph::from_json({{"input", {{"shape", {784}}}},
                                                {"nodes",
                                                 {{{"id", "fc1"}, {"op", "dense"}, {"units", 32}},
                                                  {{"id", "relu1"}, {"op", "relu"}},
                                                  {{"id", "fc2"}, {"op", "dense"}, {"units", 10}}}},
                                                {"loss", {{"type", "softmax_cross_entropy"}}}});
  ASSERT_TRUE(graph) << graph.error().message;
  StateDict state(graph->layout());
  for (const auto& [name, ours] : names) {
    const auto values = vectors::floats(test.at("params").at(name));
    std::copy(values.begin(), values.end(), state.tensor(ours).begin());
  }
  std::vector<float> x = vectors::floats(test.at("x"));
  for (float& value : x) value = std::max(value, 0.0F);
  const auto labels = test.at("labels").get<std::vector<std::int32_t>>();
  GraphRunOptions options;
  options.max_batch = 4;
  Result<GraphRun> run = GraphRun::create(*graph, options);
  ASSERT_TRUE(run);
  const vectors::Tolerance tolerance = vectors::tolerance(file, test);
  const Json& expected = test.at("expected");
  const auto logits = run->run(state, x, 4, {.training = true});
  vectors::expect_close(logits, vectors::doubles(expected.at("logits")), tolerance);
  std::vector<float> dlogits(40);
  const double loss = graph->loss().compute(logits, {labels, {}}, dlogits);
  vectors::expect_close(std::vector{loss}, vectors::doubles(expected.at("loss")), tolerance);
  StateDict gradient(graph->layout());
  run->backward(dlogits, gradient);
  for (const auto& [name, ours] : names) {
    SCOPED_TRACE(name);
    vectors::expect_close(gradient.tensor(ours),
                          vectors::doubles(expected.at("grad_params").at(name)), tolerance);
  }
  for (std::size_t i = 0; i < state.values().size(); ++i) {
    state.values()[i] -= 0.1F * gradient.values()[i];
  }
  const double after = graph->loss().compute(run->run(state, x, 4, {}), {labels, {}}, {});
  vectors::expect_close(std::vector{after},
                        vectors::doubles(expected.at("loss_after_one_sgd_step_lr_0.1")), tolerance);
}

}  // namespace
}  // namespace muster
