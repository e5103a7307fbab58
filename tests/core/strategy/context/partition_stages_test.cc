#include <gmock/gmock.h>

#include "tests/core/strategy/partition_support.h"

// A worker with several stages of a partition.
namespace muster {
namespace {

using strategies::Problem;
using ::testing::HasSubstr;

class PartitionStages : public ::testing::Test {
 protected:
  Result<PartitionEnds> prepare(std::int64_t stage, std::vector<std::string> nodes) {
    return context_->prepare_partition(0,
                                       {.model = problem_.task.model,
                                        .settings = problem_.task.settings,
                                        .nodes = std::move(nodes),
                                        .max_micro_batch = 2,
                                        .stage = stage},
                                       problem_.start);
  }
  std::vector<std::string> tensors() {
    std::vector<std::string> names;
    const auto state = context_->read_back_state(0);
    EXPECT_TRUE(state);
    for (const TensorSpec& spec : state->layout().tensors()) names.push_back(spec.name);
    return names;
  }

  const Problem problem_{Json::object(), strategies::residual_model()};
  std::unique_ptr<InProcessContext> context_ = strategies::workers(1);
};

TEST_F(PartitionStages, StepAndShowTheirStateTogether) {
  ASSERT_TRUE(prepare(0, {"fc1"}));
  const auto ends = prepare(1, {"fc2"});
  ASSERT_TRUE(ends) << ends.error().message;
  EXPECT_THAT(ends->inputs, ::testing::ElementsAre("act1"));
  EXPECT_THAT(tensors(),
              ::testing::ElementsAre("fc1.bias", "fc1.weight", "fc2.bias", "fc2.weight"));
  ASSERT_TRUE(context_->execute_partition(0, 0, 1, {std::vector<float>(4, 1)}, 1));
  ASSERT_TRUE(context_->execute_partition(0, 0, 1, {std::vector<float>(8, 1)}, 1, 1));
  ASSERT_TRUE(context_->backward_partition(0, 0, {std::vector<float>(8, 3)}));
  EXPECT_FALSE(context_->apply_partition(0, {})) << "stage 1 is in flight";
  EXPECT_TRUE(*context_->read_back_state(0) == *context_->get_state(0)) << "nothing has moved";
  ASSERT_TRUE(context_->backward_partition(0, 0, {std::vector<float>(8, 4)}, 1));
  // Ones in, so the gradient of every weight and bias is what came back: 8 times (4 + 1) threes and
  // 8 times (8 + 1) fours.
  EXPECT_NEAR(*context_->partition_gradient_norm(0), std::sqrt(40 * 9.0 + 72 * 16.0), 1e-4);
  ASSERT_TRUE(context_->apply_partition(0, {}));
  const StateDict now = *context_->read_back_state(0);
  EXPECT_NEAR(now.tensor("fc1.bias")[0], problem_.start.tensor("fc1.bias")[0] - 0.3F, 1e-6);
  EXPECT_NEAR(now.tensor("fc2.bias")[0], problem_.start.tensor("fc2.bias")[0] - 0.4F, 1e-6);
  ASSERT_TRUE(context_->set_state(0, problem_.start));
  EXPECT_EQ(context_->read_back_state(0)->tensor("fc2.bias")[0],
            problem_.start.tensor("fc2.bias")[0]);
}

TEST_F(PartitionStages, AFirstStageForgetsWhatWasThere) {
  ASSERT_TRUE(prepare(0, {"fc1"}));
  ASSERT_TRUE(prepare(1, {"fc2"}));
  ASSERT_TRUE(prepare(0, {"fc3"}));
  EXPECT_THAT(tensors(), ::testing::ElementsAre("fc3.bias", "fc3.weight"));
  EXPECT_THAT(context_->execute_partition(0, 0, 1, {std::vector<float>(8)}, 1, 1).error().message,
              HasSubstr("there is no stage 1"));
}

TEST_F(PartitionStages, RefusesAStageOutOfTurnOrWithANodeOfAnother) {
  EXPECT_EQ(prepare(1, {"fc1"}).error().reason, "not_prepared");
  ASSERT_TRUE(prepare(0, {"fc1"}));
  EXPECT_THAT(prepare(2, {"fc2"}).error().message, HasSubstr("stage 2"));
  EXPECT_EQ(prepare(1, {"fc1"}).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(prepare(0, {"fc9"}).error().reason, "unknown_node");
  EXPECT_THAT(tensors(), ::testing::ElementsAre("fc1.bias", "fc1.weight")) << "as before";
}

}  // namespace
}  // namespace muster
