#include "core/strategy/partition/stages.h"

#include <gmock/gmock.h>

#include "tests/core/strategy/partition_support.h"

namespace muster {
namespace {

using strategies::Cut;
using strategies::model_parallel;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Graph residual_graph() {
  return *graph_from_model(strategies::residual_model());
}

std::vector<std::int64_t> places_of(const Graph& graph, const Cut& cut) {
  const auto context = strategies::workers(4);
  const auto places = places_of_nodes(graph, model_parallel(cut), *context);
  EXPECT_TRUE(places) << places.error().message;
  return *places;
}

std::string text_of(const std::vector<Stage>& stages) {
  std::string text;
  for (const Stage& stage : stages) {
    text += (text.empty() ? "" : " | ") + std::to_string(stage.place) + "." +
            std::to_string(stage.index) + ":";
    for (const std::string& node : stage.nodes) text += " " + node;
  }
  return text;
}

TEST(Stages, NodesOfNoPartitionAreAtTheCoordinator) {
  EXPECT_THAT(places_of(residual_graph(), {{"fc2"}, {"sum", "fc1"}}),
              ElementsAre(1, kCoordinator, 0, kCoordinator, 1, kCoordinator));
}

TEST(Stages, APlaceIsTheWorkerWithTheIdOrTheTag) {
  const Graph graph = residual_graph();
  const auto context = *InProcessContext::create({{"alpha", {}}, {"beta", {"gpu"}}});
  ModelParallel strategy{.partitions = {{{"fc1"}, "gpu"}, {{"fc2"}, "alpha"}}};
  EXPECT_THAT(*places_of_nodes(graph, strategy, *context), ElementsAre(1, -1, 0, -1, -1, -1));
}

TEST(Stages, ACutIntoContiguousPiecesGivesOneEach) {
  const Graph graph = residual_graph();
  EXPECT_EQ(text_of(stages_of(graph, places_of(graph, strategies::kTwoPieces))),
            "0.0: fc1 act1 | 1.0: fc2 act2 sum fc3");
  EXPECT_EQ(text_of(stages_of(graph, places_of(graph, strategies::kThreePieces))),
            "0.0: fc1 act1 | 1.0: fc2 act2 | 2.0: sum fc3");
}

TEST(Stages, APlaceThatIsReturnedToGetsAnotherOne) {
  const Graph graph = residual_graph();
  EXPECT_EQ(text_of(stages_of(graph, places_of(graph, strategies::kTwoInterleaved))),
            "0.0: fc1 | 1.0: act1 | 0.1: fc2 | 1.1: act2 | 0.2: sum | 1.2: fc3");
  EXPECT_EQ(text_of(stages_of(graph, places_of(graph, strategies::kMiddleOnly))),
            "-1.0: fc1 act1 | 0.0: fc2 | -1.1: act2 sum fc3");
}

// Whatever the cut: every node once, what it needs in its own stage or an earlier one.
TEST(Stages, EveryStageNeedsOnlyEarlierOnes) {
  const Graph graph = residual_graph();
  const auto nodes = static_cast<std::int64_t>(graph.nodes().size());
  for (std::int64_t code = 0; code < 729; ++code) {  // 3 places for each of 6 nodes
    std::vector<std::int64_t> places;
    for (std::int64_t rest = code; static_cast<std::int64_t>(places.size()) < nodes; rest /= 3) {
      places.push_back(rest % 3 - 1);
    }
    const std::vector<Stage> stages = stages_of(graph, places);
    std::map<std::string, std::size_t> stage_of;
    for (std::size_t i = 0; i < stages.size(); ++i) {
      for (const std::string& id : stages[i].nodes) {
        EXPECT_TRUE(stage_of.emplace(id, i).second);
        EXPECT_EQ(places[static_cast<std::size_t>(graph.find(id))], stages[i].place);
      }
    }
    ASSERT_EQ(stage_of.size(), graph.nodes().size());
    for (const GraphNode& node : graph.nodes()) {
      for (const int input : node.inputs) {
        if (input < 0) continue;
        EXPECT_LE(stage_of[graph.node(input).id], stage_of[node.id]) << "cut " << code;
      }
    }
    EXPECT_EQ(stage_of["fc3"], stages.size() - 1);
  }
}

TEST(Stages, RefusesWhatIsNotThere) {
  const Graph graph = residual_graph();
  const auto context = strategies::workers(2);
  const auto refusal = [&](const Cut& cut) {
    const auto places = places_of_nodes(graph, model_parallel(cut), *context);
    EXPECT_FALSE(places);
    return places ? "" : places.error().message;
  };
  EXPECT_THAT(refusal({{"fc1"}, {"fc2", "fc1"}}),
              AllOf(HasSubstr("partitions[1]"), HasSubstr("\"fc1\" is claimed already"),
                    HasSubstr("partitions[0]")));
  EXPECT_THAT(refusal({{"fc2", "fc2"}}), HasSubstr("\"fc2\" is claimed already"));
  EXPECT_THAT(refusal({{"fc1"}, {"fc9"}}),
              AllOf(HasSubstr("partitions[1]: the model has no node \"fc9\""), HasSubstr("act1")));
  EXPECT_THAT(refusal({{"fc1"}, {"fc2"}, {"fc3"}}),
              AllOf(HasSubstr("partitions[2]"), HasSubstr("\"worker-2\""),
                    HasSubstr("registered are worker-0, worker-1")));
}

TEST(Wiring, KnowsWhoMakesAndWhoNeedsATensor) {
  const Graph graph = residual_graph();
  const std::vector<PartitionEnds> ends{{.inputs = {"input"}, .outputs = {"act1"}},
                                        {.inputs = {"act1"}, .outputs = {"act2"}},
                                        {.inputs = {"act2", "act1"}, .outputs = {"fc3"}}};
  const auto wiring = wire(graph, ends);
  ASSERT_TRUE(wiring) << wiring.error().message;
  EXPECT_EQ(wiring->loss(), 3);
  const auto& tensors = wiring->tensors;
  ASSERT_EQ(tensors.size(), 4U);
  EXPECT_THAT(tensors[0].consumers, ElementsAre(0));
  EXPECT_EQ(tensors[0].producer, -1);
  EXPECT_THAT(tensors[1].consumers, ElementsAre(1, 2)) << "the residual connection";
  EXPECT_THAT(tensors[3].consumers, ElementsAre(3)) << "the loss";
  EXPECT_THAT(wiring->inputs[2], ElementsAre(2, 1));
  EXPECT_EQ(wiring->output, 3U);
}

TEST(Wiring, RefusesAStageThatNeedsALaterOne) {
  const Graph graph = residual_graph();
  const std::vector<PartitionEnds> ends{{.inputs = {"act2"}, .outputs = {"act1"}},
                                        {.inputs = {"act1"}, .outputs = {"act2"}}};
  EXPECT_EQ(wire(graph, ends).error().code, ErrorCode::kInternal);
}

}  // namespace
}  // namespace muster
