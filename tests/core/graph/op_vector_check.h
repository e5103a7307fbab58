#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/graph/graph_run.h"
#include "tests/support/vectors.h"

// Runs one case of the layer vectors (tests/vectors/layers_*.json) as a node "n".
namespace muster {

// How a case of the vectors is said with us.
struct OpTranslation {
  // Op and attributes; the id and the inputs are added.
  Json node;
  // Names of the case's parameters -> ours ("W" -> "n.weight").
  std::map<std::string, std::string> parameters = {};
  // Names in running_before and running_after -> ours ("mean" -> "n.running_mean"). They are
  // parameters that are not trained.
  std::map<std::string, std::string> statistics = {};
  // The case's inputs in the order of the node's; empty: its only one.
  std::vector<std::string> inputs = {};
  // The case's outputs that the node's output is made of, one after the other for each example.
  std::vector<std::string> outputs = {"y"};
  // Where the batch dimension of an input or output is, when not in front: x of [T, N, F] is 1.
  std::map<std::string, std::size_t> batch_axis = {};
  // When the node's output is not just `outputs` in a row: makes [batch, ...] out of the case's
  // outputs (`gradient` false) or their gradients (`gradient` true), which have the batch in front.
  std::function<std::vector<double>(const std::map<std::string, std::vector<double>>& outputs,
                                    std::int64_t batch, bool gradient)>
      join = nullptr;
};

namespace op_vector_check {

// A tensor of the vectors with its batch dimension in front.
struct BatchFirst {
  std::int64_t batch = 0;
  Shape shape;  // of one example
  std::vector<double> data;

  std::vector<float> floats() const {
    std::vector<float> values;
    for (const double value : data) values.push_back(static_cast<float>(value));
    return values;
  }
};

inline BatchFirst batch_first(const OpTranslation& how, const std::string& name,
                              const Json& tensor) {
  const auto found = how.batch_axis.find(name);
  const std::size_t axis = found == how.batch_axis.end() ? 0 : found->second;
  BatchFirst result;
  result.shape = vectors::shape(tensor);
  result.batch = result.shape.at(axis);
  std::size_t before = 1;
  for (std::size_t i = 0; i < axis; ++i) before *= static_cast<std::size_t>(result.shape[i]);
  const std::vector<double> data = vectors::doubles(tensor);
  const auto batch = static_cast<std::size_t>(result.batch);
  const std::size_t after = data.size() / before / batch;
  for (std::size_t n = 0; n < batch; ++n) {
    for (std::size_t i = 0; i < before; ++i) {
      const auto from = data.begin() + static_cast<std::ptrdiff_t>((i * batch + n) * after);
      result.data.insert(result.data.end(), from, from + static_cast<std::ptrdiff_t>(after));
    }
  }
  result.shape.erase(result.shape.begin() + static_cast<std::ptrdiff_t>(axis));
  return result;
}

inline std::vector<double> joined(const OpTranslation& how, const Json& tensors, std::int64_t batch,
                                  bool gradient) {
  std::map<std::string, std::vector<double>> parts;
  for (const auto& [name, tensor] : tensors.items()) {
    parts[name] = batch_first(how, name, tensor).data;
  }
  if (how.join != nullptr) return how.join(parts, batch, gradient);
  std::vector<double> all;
  for (std::size_t n = 0; n < static_cast<std::size_t>(batch); ++n) {
    for (const std::string& name : how.outputs) {
      const std::vector<double>& part = parts.at(name);
      const auto size = static_cast<std::ptrdiff_t>(part.size() / static_cast<std::size_t>(batch));
      const auto from = part.begin() + static_cast<std::ptrdiff_t>(n) * size;
      all.insert(all.end(), from, from + size);
    }
  }
  return all;
}

// A graph whose node "n" has inputs of these shapes: the graph's own, and others that dense nodes
// make. Only "n" is run, from its boundary.
inline Result<Graph> graph_of(const OpTranslation& how, const std::vector<std::string>& names,
                              const std::map<std::string, BatchFirst>& inputs) {
  Json nodes = Json::array();
  Json node = how.node;
  node["id"] = "n";
  node["inputs"] = {"input"};
  for (std::size_t i = 1; i < names.size(); ++i) {
    const BatchFirst& input = inputs.at(names[i]);
    const std::string id = "in_" + names[i];
    const std::size_t size = input.data.size() / static_cast<std::size_t>(input.batch);
    nodes.push_back({{"id", id + "_flat"}, {"op", "flatten"}, {"inputs", {"input"}}});
    nodes.push_back({{"id", id + "_dense"}, {"op", "dense"}, {"units", size}});
    nodes.push_back({{"id", id}, {"op", "reshape"}, {"shape", input.shape}});
    node["inputs"].push_back(id);
  }
  nodes.push_back(node);
  return Graph::from_json({{"input", {{"shape", inputs.at(names[0]).shape}}},
                           {"nodes", nodes},
                           {"loss", {{"type", "mse"}}}});
}

}  // namespace op_vector_check

// Checks output, gradients of parameters and inputs, and running statistics of `test` (out of
// `file`, which has the tolerance).
inline void check_op_vector(const Json& file, const Json& test, const OpTranslation& how) {
  using op_vector_check::BatchFirst;
  SCOPED_TRACE(test.at("name").get<std::string>());
  std::vector<std::string> names = how.inputs;
  if (names.empty()) {
    ASSERT_EQ(test.at("inputs").size(), 1U);
    names = {test.at("inputs").cbegin().key()};
  }
  std::map<std::string, BatchFirst> inputs;
  for (const std::string& name : names) {
    inputs[name] = op_vector_check::batch_first(how, name, test.at("inputs").at(name));
  }
  const std::int64_t batch = inputs.at(names[0]).batch;
  const Result<Graph> graph = op_vector_check::graph_of(how, names, inputs);
  ASSERT_TRUE(graph) << graph.error().message;
  GraphRunOptions options;
  options.max_batch = batch;
  options.input_gradients = true;
  options.nodes = {"n"};
  Result<GraphRun> run = GraphRun::create(*graph, options);
  ASSERT_TRUE(run) << run.error().message;

  StateDict state(run->layout());
  const Json parameters = test.value("params", Json::object());
  const Json before = test.value("running_before", Json::object());
  ASSERT_EQ(parameters.size() + before.size(), run->layout()->tensors().size());
  const auto set = [&](const std::string& ours, const Json& tensor) {
    ASSERT_NE(run->layout()->find(ours), nullptr) << ours;
    ASSERT_EQ(run->layout()->find(ours)->shape, vectors::shape(tensor)) << ours;
    const auto values = vectors::floats(tensor);
    std::copy(values.begin(), values.end(), state.tensor(ours).begin());
  };
  for (const auto& [name, tensor] : parameters.items()) set(how.parameters.at(name), tensor);
  for (const auto& [name, tensor] : before.items()) set(how.statistics.at(name), tensor);

  std::vector<std::vector<float>> x;
  std::vector<std::span<const float>> x_spans;
  for (const std::string& name : names) x.push_back(inputs.at(name).floats());
  for (const std::vector<float>& each : x) x_spans.emplace_back(each);
  const bool training =
      test.value("hyperparameters", Json::object()).value("mode", "train") == "train";
  run->run(state, x_spans, batch, {.training = training, .seed = 1});
  const vectors::Tolerance tolerance = vectors::tolerance(file, test);
  const Json& expected = test.at("expected");
  vectors::expect_close(run->activation("n"),
                        op_vector_check::joined(how, expected.at("output"), batch, false),
                        tolerance);

  std::vector<float> direction;
  for (const double value : op_vector_check::joined(how, test.at("grad_output"), batch, true)) {
    direction.push_back(static_cast<float>(value));
  }
  StateDict gradient(run->layout());
  std::fill(gradient.values().begin(), gradient.values().end(), 77.0F);
  run->backward(direction, gradient);
  for (const auto& [name, tensor] : parameters.items()) {
    SCOPED_TRACE("gradient of " + name);
    vectors::expect_close(gradient.tensor(how.parameters.at(name)),
                          vectors::doubles(expected.at("grad_params").at(name)), tolerance);
  }
  for (std::size_t i = 0; expected.contains("grad_input") && i < names.size(); ++i) {
    SCOPED_TRACE("gradient of input " + names[i]);
    const BatchFirst want =
        op_vector_check::batch_first(how, names[i], expected.at("grad_input").at(names[i]));
    vectors::expect_close(run->input_gradient(i == 0 ? "input" : "in_" + names[i]), want.data,
                          tolerance);
  }
  if (!before.empty()) {
    StateDict after = state.clone();
    if (training) run->update_untrained(after);
    for (const auto& [name, tensor] : expected.at("running_after").items()) {
      SCOPED_TRACE("running " + name);
      vectors::expect_close(after.tensor(how.statistics.at(name)), vectors::doubles(tensor),
                            tolerance);
    }
  }
}

}  // namespace muster
