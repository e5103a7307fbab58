#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "core/graph/graph_run.h"
#include "core/train/evaluate.h"
#include "core/train/graph_trainer.h"
#include "tests/support/vectors.h"

namespace muster {
namespace {

struct Model {
  Json graph;
  std::map<std::string, std::string> names;  // theirs to ours
};

Model model_of(const Json& test) {
  const auto features = vectors::shape(test.at("x"))[1];
  const Json& start = test.at("w_start");
  Json nodes = Json::array();
  Model model;
  if (test.at("model") == "mlp") {
    nodes.push_back({{"id", "fc1"}, {"op", "dense"}, {"units", vectors::shape(start.at("W1"))[0]}});
    nodes.push_back({{"id", "act"}, {"op", test.at("activation")}});
    nodes.push_back({{"id", "fc2"}, {"op", "dense"}, {"units", vectors::shape(start.at("W2"))[0]}});
    model.names = {
        {"W1", "fc1.weight"}, {"b1", "fc1.bias"}, {"W2", "fc2.weight"}, {"b2", "fc2.bias"}};
  } else {
    nodes.push_back({{"id", "fc"}, {"op", "dense"}, {"units", vectors::shape(start.at("W"))[0]}});
    model.names = {{"W", "fc.weight"}, {"b", "fc.bias"}};
  }
  model.graph = {{"input", {{"shape", {features}}}},
                 {"nodes", nodes},
                 {"loss", {{"type", "softmax_cross_entropy"}}}};
  return model;
}

StateDict start_of(const Json& test, const Model& model, const Graph& graph) {
  StateDict state(graph.layout());
  for (const auto& [theirs, ours] : model.names) {
    const auto values = vectors::floats(test.at("w_start").at(theirs));
    std::copy(values.begin(), values.end(), state.tensor(ours).begin());
  }
  return state;
}

LocalData data_of(const Json& test) {
  DatasetRows rows;
  rows.shape = {vectors::shape(test.at("x"))[1]};
  rows.floats = vectors::floats(test.at("x"));
  rows.labels = test.at("labels").get<std::vector<std::int32_t>>();
  return {.train = *Dataset::create(std::move(rows)), .holdout = {}};
}

FitTask task_of(const Json& test, const Model& model, std::int64_t steps) {
  FitTask task;
  task.model = {{"graph", model.graph}};
  Json optimizer = test.at("hyperparameters");
  optimizer["type"] = test.at("optimizer");
  if (optimizer.contains("beta1")) {
    optimizer["betas"] = {optimizer.at("beta1"), optimizer.at("beta2")};
    optimizer.erase("beta1");
    optimizer.erase("beta2");
  }
  task.local = *local_settings_from_json({{"epochs", 1000},
                                          {"max_steps", steps},
                                          {"batch_size", test.at("batch_size")},
                                          {"shuffle", false},
                                          {"mu", test.at("mu")},
                                          {"optimizer", optimizer}},
                                         "local");
  return task;
}

class LocalOptimizer : public testing::TestWithParam<const char*> {};

// A fit of s steps has the weights of the reference after step s; the mean training loss of its
// last epoch is that of the batches before their steps.
TEST_P(LocalOptimizer, TrainerMatchesTheReferenceAfterEveryStep) {
  const Json file = vectors::load(GetParam());
  ASSERT_FALSE(file.at("cases").empty());
  for (const Json& test : file.at("cases")) {
    SCOPED_TRACE(test.at("name").get<std::string>());
    const vectors::Tolerance tolerance = vectors::tolerance(test.at("tolerance"));
    const Model model = model_of(test);
    const Result<Graph> graph = Graph::from_json(model.graph);
    ASSERT_TRUE(graph) << graph.error().message;
    const StateDict start = start_of(test, model, *graph);
    GraphTrainer trainer(data_of(test));
    const std::int64_t examples = trainer.num_examples();
    const auto steps = static_cast<std::int64_t>(test.at("expected").size());
    ASSERT_EQ(steps, test.at("steps").get<std::int64_t>());
    const std::int64_t batch_size = test.at("batch_size").get<std::int64_t>();
    double loss_sum = 0;
    std::int64_t seen = 0;
    for (std::int64_t step = 1; step <= steps; ++step) {
      const Json& expected = test.at("expected").at(static_cast<std::size_t>(step - 1));
      const Result<FitResult> fit = trainer.fit(start, task_of(test, model, step), {}, {});
      ASSERT_TRUE(fit) << fit.error().message;
      EXPECT_EQ(fit->steps, step);
      EXPECT_EQ(fit->examples, examples);
      for (const auto& [theirs, ours] : model.names) {
        vectors::expect_close(fit->state.tensor(ours),
                              vectors::doubles(expected.at("weights").at(theirs)), tolerance);
      }
      if (seen == examples) {
        loss_sum = 0;
        seen = 0;
      }
      const std::int64_t count = std::min(batch_size, examples - seen);
      loss_sum += static_cast<double>(count) * vectors::number(expected.at("batch_loss"));
      seen += count;
      vectors::expect_close(std::vector{fit->metrics.at("loss")},
                            std::vector{loss_sum / static_cast<double>(seen)}, tolerance);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Vectors, LocalOptimizer,
                         testing::Values("local_sgd_softmax.json", "local_sgd_mlp.json",
                                         "local_adam.json"));

}  // namespace
}  // namespace muster
