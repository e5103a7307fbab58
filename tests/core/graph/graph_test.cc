#include "core/graph/graph.h"

#include <gmock/gmock.h>

#include <cmath>
#include <string>

#include "core/graph/model.h"

namespace muster {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Json dense(const std::string& id, int units) {
  return {{"id", id}, {"op", "dense"}, {"units", units}};
}

Json graph_of(Json nodes, Shape input = {4}) {
  return {{"input", {{"shape", input}}},
          {"nodes", std::move(nodes)},
          {"loss", {{"type", "softmax_cross_entropy"}}}};
}

std::string error_of(const Json& json) {
  const Result<Graph> graph = Graph::from_json(json);
  return graph ? "no error" : graph.error().message;
}

TEST(Graph, InfersShapesAndNamesParametersAsPyTorchDoes) {
  const Result<Graph> graph =
      Graph::from_json(graph_of({{{"id", "flat"}, {"op", "flatten"}}, dense("fc1", 5)}, {2, 3}));
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_EQ(graph->output_shape(), (Shape{5}));
  ASSERT_NE(graph->layout()->find("fc1.weight"), nullptr);
  EXPECT_EQ(graph->layout()->find("fc1.weight")->shape, (Shape{5, 6}));
  EXPECT_EQ(graph->layout()->find("fc1.bias")->shape, (Shape{5}));
}

TEST(Graph, CanonicalFormHasAllDefaultsAndReadsBackToItself) {
  const Result<Graph> graph = Graph::from_json(graph_of({dense("fc1", 5)}));
  ASSERT_TRUE(graph);
  const Json wanted{
      {"input", {{"shape", {4}}}},
      {"nodes", Json::array({{{"id", "fc1"},
                              {"op", "dense"},
                              {"units", 5},
                              {"bias", true},
                              {"init", "pytorch"},
                              {"inputs", {"input"}}}})},
      {"output", "fc1"},
      {"loss",
       {{"type", "softmax_cross_entropy"}, {"reduction", "mean"}, {"label_smoothing", 0.0}}}};
  EXPECT_EQ(graph->to_json(), wanted);
  const Result<Graph> again = Graph::from_json(graph->to_json());
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->to_json(), wanted);
}

// Every op does so in op_kinds_test.cc.
TEST(Graph, EveryLossReadsItsCanonicalFormBack) {
  for (const LossKind& loss : builtin_losses()) {
    SCOPED_TRACE(loss.name);
    Json json = graph_of({dense("n", 3)}, {2, 3});
    json["loss"] = {{"type", loss.name}};
    const Result<Graph> graph = Graph::from_json(json);
    ASSERT_TRUE(graph) << graph.error().message;
    const Result<Graph> again = Graph::from_json(graph->to_json());
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(again->to_json(), graph->to_json());
  }
}

TEST(Graph, NodesMayComeInAnyOrder) {
  Json later = dense("a", 3);
  later["inputs"] = {"b"};
  Json json = graph_of({later, {{"id", "b"}, {"op", "tanh"}, {"inputs", {"input"}}}});
  json["output"] = "a";
  const Result<Graph> graph = Graph::from_json(json);
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_EQ(graph->nodes()[0].id, "b");
  EXPECT_EQ(graph->nodes()[1].id, "a");
}

TEST(Graph, UnknownOpIsRefusedNamingNodeAndKnownOps) {
  EXPECT_THAT(error_of(graph_of({{{"id", "c1"}, {"op", "convolve"}}})),
              AllOf(HasSubstr("c1"), HasSubstr("convolve"), HasSubstr("dense"), HasSubstr("relu")));
}

TEST(Graph, UnknownAttributeIsRefusedNamingNode) {
  Json node = dense("fc1", 3);
  node["unit"] = 5;
  EXPECT_THAT(error_of(graph_of({node})), AllOf(HasSubstr("fc1"), HasSubstr("unit")));
}

TEST(Graph, MissingAttributeIsRefusedNamingNode) {
  EXPECT_THAT(error_of(graph_of({{{"id", "fc1"}, {"op", "dense"}}})),
              AllOf(HasSubstr("fc1"), HasSubstr("units")));
}

TEST(Graph, CycleIsRefusedNamingANodeOfIt) {
  Json a = dense("a", 4);
  a["inputs"] = {"b"};
  EXPECT_THAT(error_of(graph_of({a, dense("b", 4)})), AllOf(HasSubstr("(a)"), HasSubstr("cycle")));
  Json self = dense("s", 4);
  self["inputs"] = {"s"};
  EXPECT_THAT(error_of(graph_of({self})), AllOf(HasSubstr("(s)"), HasSubstr("cycle")));
}

TEST(Graph, UnknownInputIsRefused) {
  Json a = dense("a", 4);
  a["inputs"] = {"ghost"};
  EXPECT_THAT(error_of(graph_of({a})), AllOf(HasSubstr("(a)"), HasSubstr("ghost")));
}

TEST(Graph, IdsMustBeDifferentNamesOtherThanInput) {
  EXPECT_THAT(error_of(graph_of({dense("a", 4), dense("a", 4)})),
              HasSubstr("(a): the id is taken"));
  EXPECT_THAT(error_of(graph_of({dense("input", 4)})), HasSubstr("reserved"));
  EXPECT_THAT(error_of(graph_of({dense("a/b", 4)})), HasSubstr("nodes[0]"));
}

TEST(Graph, UnusedNodeIsRefusedNamingIt) {
  Json b = dense("b", 3);
  b["inputs"] = {"input"};
  EXPECT_THAT(error_of(graph_of({dense("a", 4), b})),
              AllOf(HasSubstr("node a"), HasSubstr("used")));
}

TEST(Graph, ShapesThatDoNotFitAreRefusedSayingBoth) {
  const Json json = graph_of({dense("a", 4),
                              {{"id", "sum"}, {"op", "add"}, {"inputs", {"a", "b"}}},
                              {{"id", "b"}, {"op", "dense"}, {"units", 5}, {"inputs", {"input"}}}});
  EXPECT_THAT(error_of(json), AllOf(HasSubstr("sum"), HasSubstr("[4]"), HasSubstr("[5]")));
  EXPECT_THAT(error_of(graph_of({{{"id", "n"}, {"op", "layer_norm"}, {"normalized_shape", {3}}}})),
              AllOf(HasSubstr("(n)"), HasSubstr("[3]"), HasSubstr("[4]")));
}

TEST(Graph, WrongNumberOfInputsIsRefused) {
  Json node = dense("a", 4);
  node["inputs"] = {"input", "input"};
  EXPECT_THAT(error_of(graph_of({node})), AllOf(HasSubstr("(a)"), HasSubstr("2"), HasSubstr("1")));
  node["inputs"] = Json::array();
  EXPECT_THAT(error_of(graph_of({node})), AllOf(HasSubstr("(a)"), HasSubstr("got 0")));
}

TEST(Graph, LimitsHoldBeforeMemoryIsTaken) {
  Json many = Json::array();
  for (int i = 0; i <= 10'000; ++i)
    many.push_back({{"id", std::string("n").append(std::to_string(i))}, {"op", "relu"}});
  EXPECT_THAT(error_of(graph_of(many)), HasSubstr("10001 nodes"));
  many.erase(many.size() - 1);
  EXPECT_EQ(error_of(graph_of(many)), "no error");
  EXPECT_THAT(error_of(graph_of({dense("a", 60'000), dense("b", 60'000)})),
              AllOf(HasSubstr("node b"), HasSubstr("3600300000")));
  EXPECT_THAT(error_of(graph_of({dense("a", 2)}, {1 << 30, 1 << 30, 1 << 30})),
              HasSubstr("graph.input"));
  EXPECT_THAT(error_of(graph_of({dense("a", 2)}, {1 << 30, 1 << 10})), HasSubstr("elements"));
}

TEST(Graph, MalformedFieldsAreRefused) {
  EXPECT_THAT(error_of(Json::array()), HasSubstr("graph"));
  EXPECT_THAT(error_of(graph_of(Json::array())), HasSubstr("graph.nodes"));
  EXPECT_THAT(error_of(graph_of({1})), HasSubstr("graph.nodes[0]"));
  for (const Json& shape : {Json(3), Json::array(), Json{0}, Json{-1}, Json{2.5}, Json{"a"},
                            Json{18446744073709551615ULL}}) {
    Json json = graph_of({dense("a", 4)});
    json["input"]["shape"] = shape;
    EXPECT_THAT(error_of(json), HasSubstr("graph.input")) << shape;
  }
  Json json = graph_of({dense("a", 4)});
  json["output"] = "z";
  EXPECT_THAT(error_of(json), HasSubstr("graph.output"));
  json = graph_of({dense("a", 4)});
  json["loss"] = {{"type", "huge"}};
  EXPECT_THAT(error_of(json), AllOf(HasSubstr("graph.loss"), HasSubstr("mse")));
  json["loss"] = {{"type", "mse"}, {"reduction", "max"}};
  EXPECT_THAT(error_of(json), HasSubstr("graph.loss.reduction"));
  json = graph_of({dense("a", 4)});
  json["extra"] = 1;
  EXPECT_THAT(error_of(json), HasSubstr("extra"));
}

TEST(Graph, FreshStateIsFixedBySeedAndNameAndWithinPyTorchsBounds) {
  const Result<Graph> graph = Graph::from_json(graph_of({dense("a", 300), dense("b", 3)}, {100}));
  ASSERT_TRUE(graph);
  const StateDict state = graph->initial_state(1);
  EXPECT_TRUE(state == graph->initial_state(1));
  EXPECT_FALSE(state == graph->initial_state(2));
  float largest = 0;
  double sum = 0;
  for (const float value : state.tensor("a.weight")) {
    largest = std::max(largest, std::abs(value));
    sum += value;
  }
  EXPECT_LE(largest, 0.1F);
  EXPECT_GT(largest, 0.0999F);
  EXPECT_NEAR(sum / 30'000, 0.0, 0.002);
  // A parameter's start does not depend on the rest of the graph.
  const Result<Graph> smaller = Graph::from_json(graph_of({dense("a", 300)}, {100}));
  ASSERT_TRUE(smaller);
  const StateDict part = smaller->initial_state(1);
  EXPECT_TRUE(std::ranges::equal(part.tensor("a.weight"), state.tensor("a.weight")));
}

TEST(Model, PresetsResolveToCanonicalGraphs) {
  const Result<Json> model = resolve_model({{"preset", "2nn"}});
  ASSERT_TRUE(model) << model.error().message;
  const Result<Graph> graph = graph_from_model(*model);
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_EQ(graph->layout()->num_elements(), 199'210);
  EXPECT_EQ(graph->input_shape(), (Shape{28, 28}));
  EXPECT_EQ(*resolve_model(*model), *model);
  const Result<Json> small =
      resolve_model({{"preset", "logistic"}, {"input", {5}}, {"classes", 3}});
  ASSERT_TRUE(small) << small.error().message;
  EXPECT_EQ(graph_from_model(*small)->layout()->num_elements(), 18);
}

TEST(Model, UnknownPresetAndFieldsAreRefused) {
  EXPECT_THAT(resolve_model({{"preset", "3nn"}}).error().message,
              AllOf(HasSubstr("3nn"), HasSubstr("2nn"), HasSubstr("logistic")));
  EXPECT_THAT(resolve_model({{"preset", "2nn"}, {"graph", 1}}).error().message, HasSubstr("graph"));
  EXPECT_FALSE(resolve_model(Json::object()));
  EXPECT_FALSE(resolve_model(Json()));
  EXPECT_FALSE(resolve_model({{"graph", {{"input", 1}}}}));
}

}  // namespace
}  // namespace muster
