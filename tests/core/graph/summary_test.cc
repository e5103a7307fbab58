#include "core/graph/summary.h"

#include <gmock/gmock.h>

#include "core/graph/graph_run.h"

namespace muster {
namespace {

using testing::HasSubstr;

Graph two_branches() {
  return *Graph::from_json(
      {{"input", {{"shape", {3}}}},
       {"nodes",
        {{{"id", "a"}, {"op", "dense"}, {"units", 5}},
         {{"id", "b"}, {"op", "dense"}, {"units", 5}, {"inputs", {"input"}}, {"bias", false}},
         {{"id", "sum"}, {"op", "add"}, {"inputs", {"a", "b"}}}}},
       {"loss", {{"type", "softmax_cross_entropy"}}}});
}

TEST(Summary, CountsWhatEachNodeCosts) {
  const Graph graph = two_branches();
  const auto summary = summarize(graph, 10);
  ASSERT_TRUE(summary) << summary.error().message;
  ASSERT_EQ(summary->nodes.size(), 3U);
  const NodeSummary& a = summary->nodes[0];
  EXPECT_EQ(a.id, "a");
  EXPECT_EQ(a.op, "dense");
  EXPECT_EQ(a.inputs, std::vector<std::string>{"input"});
  EXPECT_EQ(a.output, (Shape{5}));
  EXPECT_EQ(a.parameters, 5 * 3 + 5);
  EXPECT_EQ(a.multiply_adds, 15);
  EXPECT_GE(a.kept_bytes, 10 * 5 * 4);
  EXPECT_EQ(summary->nodes[1].parameters, 15);
  EXPECT_EQ(summary->nodes[2].parameters, 0);
  EXPECT_EQ(summary->nodes[2].inputs, (std::vector<std::string>{"a", "b"}));
}

TEST(Summary, TotalsAreThoseOfTheStateAndTheRun) {
  const Graph graph = two_branches();
  const auto summary = summarize(graph, 10);
  ASSERT_TRUE(summary) << summary.error().message;
  EXPECT_EQ(summary->parameters, 35);
  EXPECT_EQ(summary->untrained, 0);
  EXPECT_EQ(summary->multiply_adds, 30);
  EXPECT_EQ(summary->state_bytes, 140);
  const auto run = GraphRun::create(graph, {.max_batch = 10});
  ASSERT_TRUE(run) << run.error().message;
  EXPECT_EQ(summary->workspace_bytes, static_cast<std::int64_t>(run->workspace_bytes()));
  EXPECT_EQ(summary->training_bytes, 280 + summary->workspace_bytes);
}

TEST(Summary, MemoryGrowsWithTheBatch) {
  const Graph graph = two_branches();
  const auto small = summarize(graph, 10);
  const auto large = summarize(graph, 1000);
  ASSERT_TRUE(small && large);
  EXPECT_GE(large->workspace_bytes, small->workspace_bytes + 990 * 3 * 5 * 4);  // outputs
  EXPECT_EQ(large->nodes[0].kept_bytes, 100 * small->nodes[0].kept_bytes);
  EXPECT_EQ(large->multiply_adds, small->multiply_adds);
}

TEST(Summary, ABatchThatTakesTooMuchIsRefused) {
  const Graph graph = two_branches();
  EXPECT_EQ(summarize(graph, 0).error().code, ErrorCode::kInvalidArgument);
  const auto summary = summarize(graph, std::int64_t{1} << 60);
  ASSERT_FALSE(summary);
  EXPECT_EQ(summary.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(summary.error().message, HasSubstr("1152921504606846976"));
}

TEST(Summary, AsJsonHasEveryNode) {
  const auto summary = summarize(two_branches(), 4);
  ASSERT_TRUE(summary);
  const Json json = to_json(*summary);
  EXPECT_EQ(json.at("nodes").size(), 3U);
  EXPECT_EQ(json.at("nodes")[0].at("output"), Json::array({5}));
  EXPECT_EQ(json.at("batch"), 4);
  EXPECT_EQ(json.at("parameters"), 35);
}

}  // namespace
}  // namespace muster
