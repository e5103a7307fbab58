#include "core/strategy/description/model_parallel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Result<ModelParallel> read(const std::string& text) {
  const Json json = Json::parse(text);
  JsonObject object(json, "strategy");
  return model_parallel_from_json(object);
}

std::string refusal(const std::string& text) {
  const auto strategy = read(text);
  EXPECT_FALSE(strategy) << text;
  return strategy ? "" : strategy.error().message;
}

std::string with_communication(const std::string& communication) {
  return R"({"partitions": [{"node_ids": ["a"], "target": "x"}], "communication": )" +
         communication + "}";
}

TEST(ModelParallelDescription, DefaultIsDirectAndAPipelinesGPipe) {
  const auto direct = read(R"({"partitions": [{"node_ids": ["a"], "target": "x"}]})");
  ASSERT_TRUE(direct) << direct.error().message;
  EXPECT_TRUE(std::holds_alternative<DirectExchange>(direct->communication));
  const auto pipeline =
      read(with_communication(R"({"method": "Pipeline", "micro_batch_size": 4})"));
  ASSERT_TRUE(pipeline) << pipeline.error().message;
  EXPECT_EQ(std::get<PipelineExchange>(pipeline->communication),
            (PipelineExchange{.micro_batch_size = 4, .schedule = PipelineSchedule::kGPipe}));
}

TEST(ModelParallelDescription, ANodeClaimedTwiceIsRefusedNamingItAndWhoHasIt) {
  EXPECT_THAT(
      refusal(R"({"partitions": [{"node_ids": ["a", "b"], "target": "x"},
                                         {"node_ids": ["c", "b"], "target": "y"}]})"),
      AllOf(HasSubstr("partitions[1].node_ids"), HasSubstr("\"b\""), HasSubstr("partitions[0]")));
  EXPECT_THAT(refusal(R"({"partitions": [{"node_ids": ["a", "a"], "target": "x"}]})"),
              HasSubstr("\"a\""));
}

TEST(ModelParallelDescription, PartitionsWithoutNodesOrTargetAreRefused) {
  EXPECT_THAT(refusal(R"({})"), HasSubstr("partitions"));
  EXPECT_THAT(refusal(R"({"partitions": []})"), HasSubstr("partitions"));
  EXPECT_THAT(refusal(R"({"partitions": [{"node_ids": [], "target": "x"}]})"),
              HasSubstr("partitions[0].node_ids"));
  EXPECT_THAT(refusal(R"({"partitions": [{"target": "x"}]})"), HasSubstr("node_ids"));
  EXPECT_THAT(refusal(R"({"partitions": [{"node_ids": ["a"]}]})"), HasSubstr("target"));
  EXPECT_THAT(refusal(R"({"partitions": [{"node_ids": ["a"], "target": ""}]})"),
              HasSubstr("target"));
  EXPECT_THAT(refusal(R"({"partitions": [{"node_ids": ["a"], "target": "x", "rank": 1}]})"),
              HasSubstr("rank"));
}

TEST(ModelParallelDescription, UnknownMethodsSchedulesAndFieldsAreRefusedListingTheKnown) {
  EXPECT_THAT(refusal(with_communication(R"({"method": "Mail"})")),
              AllOf(HasSubstr("communication.method"), HasSubstr("DataStore"), HasSubstr("Direct"),
                    HasSubstr("Pipeline")));
  EXPECT_THAT(refusal(with_communication(
                  R"({"method": "Pipeline", "micro_batch_size": 4, "schedule": "2F2B"})")),
              AllOf(HasSubstr("schedule"), HasSubstr("GPipe"), HasSubstr("1F1B")));
  EXPECT_THAT(refusal(with_communication(R"({"method": "Pipeline"})")),
              HasSubstr("micro_batch_size"));
  EXPECT_THAT(refusal(with_communication(R"({"method": "Pipeline", "micro_batch_size": 0})")),
              HasSubstr("micro_batch_size"));
  EXPECT_THAT(refusal(with_communication(R"({"method": "Direct", "micro_batch_size": 4})")),
              HasSubstr("micro_batch_size"));
}

}  // namespace
}  // namespace muster
