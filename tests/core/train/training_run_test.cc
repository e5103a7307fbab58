#include "core/train/training_run.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "tests/core/train/training_support.h"

namespace muster {
namespace {

using testing::HasSubstr;

LocalSettings settings_of(const Json& json) {
  auto settings = local_settings_from_json(json, "local");
  EXPECT_TRUE(settings) << settings.error().message;
  return *settings;
}

struct Problem {
  explicit Problem(const Json& model = training::small_model(), std::int64_t examples = 23)
      : graph(*graph_from_model(model)),
        data(training::make_data(examples)),
        start(graph.initial_state(1)) {}

  Result<TrainingRun> run(const Json& settings, TrainingRunOptions options = {}) const& {
    return TrainingRun::create(graph, data, start, settings_of(settings), 7, std::move(options));
  }
  Result<FitResult> train(const Json& settings) const {
    MUSTER_TRY(TrainingRun made, run(settings));
    while (!made.done()) MUSTER_TRY_STATUS(made.step());
    return std::move(made).finish();
  }

  Graph graph;
  Dataset data;
  StateDict start;
};

double distance(const StateDict& a, const StateDict& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.values().size(); ++i) {
    sum += std::pow(double{a.values()[i]} - b.values()[i], 2);
  }
  return std::sqrt(sum);
}

TEST(TrainingRun, CountsItsStepsAndEpochs) {
  const Problem problem;
  auto run = problem.run({{"epochs", 2}, {"batch_size", 10}});
  ASSERT_TRUE(run);
  EXPECT_EQ(run->total_steps(), 6);
  std::vector<std::int64_t> examples;
  std::vector<bool> ended;
  while (!run->done()) {
    ASSERT_TRUE(run->step());
    examples.push_back(run->examples_done());
    ended.push_back(run->epoch_ended());
  }
  EXPECT_THAT(examples, testing::ElementsAre(10, 20, 23, 33, 43, 46));
  EXPECT_THAT(ended, testing::ElementsAre(false, false, true, false, false, true));
  EXPECT_EQ(run->step().error().code, ErrorCode::kFailedPrecondition);
  const auto result = std::move(*run).finish();
  ASSERT_TRUE(result);
  EXPECT_TRUE(result->complete);
  EXPECT_EQ(result->steps, 6);
}

TEST(TrainingRun, HasNoResultBeforeItIsDone) {
  const Problem problem;
  auto run = problem.run({{"batch_size", 10}});
  ASSERT_TRUE(run && run->step());
  const auto result = std::move(*run).finish();
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kFailedPrecondition);
  EXPECT_THAT(result.error().message, HasSubstr("1 of 3 steps"));
}

TEST(TrainingRun, KeepsTheMetricsOfTheLastThousandEpochs) {
  const Problem problem(training::small_model(), 2);
  const auto result = problem.train({{"epochs", 1003}});
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->epochs.size(), 1000U);
  EXPECT_EQ(result->epochs.front().epoch, 4);
  EXPECT_EQ(result->epochs.back().epoch, 1003);
}

TEST(TrainingRun, FollowsItsSchedule) {
  const Problem problem;
  const Json still{{"type", "step"}, {"step_size", 2}, {"gamma", 0}};
  const auto two = problem.train({{"batch_size", 5}, {"max_steps", 2}});
  const auto five = problem.train({{"batch_size", 5}, {"schedule", still}});
  ASSERT_TRUE(two && five);
  EXPECT_EQ(five->steps, 5);
  EXPECT_TRUE(two->state == five->state);
  // The first step of a warm-up over 4 steps has a quarter of the rate.
  const auto rising = problem.train({{"batch_size", 5},
                                     {"max_steps", 1},
                                     {"optimizer", {{"lr", 0.4}}},
                                     {"schedule", {{"warmup_steps", 4}}}});
  const auto small =
      problem.train({{"batch_size", 5}, {"max_steps", 1}, {"optimizer", {{"lr", 0.1}}}});
  ASSERT_TRUE(rising && small);
  EXPECT_TRUE(rising->state == small->state);
}

TEST(TrainingRun, ClipsTheGradientWithItsProximalPart) {
  const Problem problem;
  const auto moved = [&](Json settings) {
    settings["optimizer"] = {{"lr", 0.5}};
    settings["max_steps"] = 1;
    return distance(problem.train(settings)->state, problem.start);
  };
  EXPECT_GT(moved({{"batch_size", 8}}), 0.5 * 0.01);
  EXPECT_NEAR(moved({{"batch_size", 8}, {"clip_norm", 0.01}}), 0.5 * 0.01, 1e-5);
  // Far from the start the proximal term is most of the gradient, and is clipped with it.
  auto run =
      problem.run({{"epochs", 2}, {"mu", 1000}, {"clip_norm", 0.01}, {"optimizer", {{"lr", 0.5}}}});
  ASSERT_TRUE(run && run->step());
  const StateDict before = run->state().clone();
  ASSERT_TRUE(run->step());
  EXPECT_NEAR(distance(run->state(), before), 0.5 * 0.01, 1e-5);
}

// With plain SGD a constant in the gradient is a shift of every step.
TEST(TrainingRun, AnOffsetIsAddedToTheGradientInEveryStep) {
  const Problem problem;
  StateDict offset(problem.graph.layout());
  offset.values()[3] = 0.25F;
  const auto stepped = [&](const StateDict* with) {
    auto run = problem.run({{"batch_size", 8}, {"max_steps", 1}, {"optimizer", {{"lr", 0.5}}}},
                           {.gradient_offset = with});
    EXPECT_TRUE(run) << run.error().message;
    EXPECT_TRUE(run->step());
    return run->state().clone();
  };
  const StateDict plain = stepped(nullptr);
  const StateDict zero(problem.graph.layout());
  EXPECT_TRUE(stepped(&zero) == plain);
  const StateDict shifted = stepped(&offset);
  for (std::size_t i = 0; i < plain.values().size(); ++i) {
    EXPECT_NEAR(shifted.values()[i], plain.values()[i] - (i == 3 ? 0.125F : 0), 1e-6) << i;
  }
}

TEST(TrainingRun, ClipsTheGradientWithItsOffset) {
  const Problem problem;
  StateDict offset(problem.graph.layout());
  for (float& value : offset.values()) value = 1e3F;
  auto run = problem.run(
      {{"batch_size", 8}, {"max_steps", 1}, {"clip_norm", 0.01}, {"optimizer", {{"lr", 0.5}}}},
      {.gradient_offset = &offset});
  ASSERT_TRUE(run && run->step());
  EXPECT_NEAR(distance(run->state(), problem.start), 0.5 * 0.01, 1e-5);
}

TEST(TrainingRun, RefusesAnOffsetThatDoesNotFit) {
  const Problem problem;
  const StateDict other(*StateLayout::create({{"w", {3}}}));
  StateDict broken(problem.graph.layout());
  broken.values()[5] = std::numeric_limits<float>::infinity();
  for (const StateDict* offset : {&other, &std::as_const(broken)}) {
    const auto run = problem.run(Json::object(), {.gradient_offset = offset});
    ASSERT_FALSE(run);
    EXPECT_EQ(run.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(run.error().message, HasSubstr("gradient offset"));
  }
}

TEST(TrainingRun, AClipThatIsNeverReachedChangesNoBit) {
  const Problem problem;
  const auto plain = problem.train({{"batch_size", 8}, {"mu", 0.1}});
  const auto clipped = problem.train({{"batch_size", 8}, {"mu", 0.1}, {"clip_norm", 1e6}});
  ASSERT_TRUE(plain && clipped);
  EXPECT_TRUE(plain->state == clipped->state);
}

class Accumulation : public testing::TestWithParam<Json> {};

// Batches of 10 of 23 examples: the last one is short.
TEST_P(Accumulation, InPartsTheStepsAreThoseOfTheWholeBatch) {
  const Json model = training::model_with({{{"id", "fc1"}, {"op", "dense"}, {"units", 8}},
                                           {{"id", "act"}, {"op", "tanh"}},
                                           {{"id", "fc2"}, {"op", "dense"}, {"units", 2}}},
                                          GetParam());
  const Problem problem(model);
  const auto train = [&](std::int64_t parts) {
    return problem.train({{"epochs", 2},
                          {"batch_size", 10},
                          {"accumulate", parts},
                          {"mu", 0.1},
                          {"optimizer", {{"lr", 0.05}, {"momentum", 0.5}}}});
  };
  const auto whole = train(1);
  ASSERT_TRUE(whole) << whole.error().message;
  for (const std::int64_t parts : {2, 3, 4, 10}) {
    const auto apart = train(parts);
    ASSERT_TRUE(apart) << apart.error().message;
    EXPECT_EQ(apart->steps, whole->steps);
    for (std::size_t i = 0; i < whole->state.values().size(); ++i) {
      EXPECT_NEAR(apart->state.values()[i], whole->state.values()[i], 2e-6) << parts << " parts";
    }
    EXPECT_NEAR(apart->metrics.at("loss"), whole->metrics.at("loss"), 1e-5);
    EXPECT_EQ(apart->metrics.at("accuracy"), whole->metrics.at("accuracy"));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Losses, Accumulation,
    testing::Values(Json{{"type", "softmax_cross_entropy"}},
                    Json{{"type", "softmax_cross_entropy"}, {"reduction", "sum"}},
                    Json{{"type", "softmax_cross_entropy"}, {"class_weights", {3.0, 0.5}}}));

TEST(TrainingRun, PartsOfABatchDrawApart) {
  // Equal examples and one dropout: parts that drew alike would give the whole step of one part.
  DatasetRows rows;
  rows.shape = {4};
  rows.floats = std::vector<float>(32, 1.0F);
  rows.labels = std::vector<std::int32_t>(8, 1);
  Problem problem;
  problem.data = *Dataset::create(std::move(rows));
  const auto apart =
      problem.train({{"batch_size", 8}, {"accumulate", 2}, {"max_steps", 1}, {"shuffle", false}});
  problem.data = problem.data.subset(std::vector<std::int64_t>{0, 1, 2, 3});
  const auto one = problem.train({{"batch_size", 4}, {"max_steps", 1}, {"shuffle", false}});
  ASSERT_TRUE(apart && one);
  EXPECT_FALSE(apart->state == one->state);
}

// One dense layer and mse, with features of one size and weights of one.
class NonFinite : public testing::Test {
 protected:
  Error error_of(float feature, float weight, const Json& optimizer, double clip = 0) {
    Problem problem(training::model_with(
        {{{"id", "flat"}, {"op", "flatten"}}, {{"id", "fc"}, {"op", "dense"}, {"units", 1}}},
        {{"type", "mse"}}));
    DatasetRows rows;
    rows.shape = {4};
    rows.floats = std::vector<float>(8, feature);
    rows.values = {0, 0};
    problem.data = *Dataset::create(std::move(rows));
    for (float& value : problem.start.values()) value = weight;
    auto run = problem.run({{"optimizer", optimizer}, {"clip_norm", clip}, {"epochs", 3}});
    EXPECT_TRUE(run) << run.error().message;
    const Status status = run->step();
    EXPECT_FALSE(status);
    EXPECT_EQ(run->step().error().message, status.error().message) << "it has ended";
    EXPECT_EQ(run->save().error().message, status.error().message);
    EXPECT_EQ(std::move(*run).finish().error().message, status.error().message);
    EXPECT_EQ(status.error().code, ErrorCode::kFailedPrecondition);
    EXPECT_EQ(status.error().reason, "non_finite");
    EXPECT_THAT(status.error().message, HasSubstr("step 1 of 3: "));
    return status.error();
  }
};

TEST_F(NonFinite, ALossNamesTheNodeWhereItBegan) {
  EXPECT_THAT(error_of(1e30F, 1e30F, {{"lr", 1}}).message,
              testing::AllOf(HasSubstr("the loss is inf"),
                             HasSubstr("the first node that is not finite is fc")));
}

TEST_F(NonFinite, AGradientNamesTheParameter) {
  for (const double clip : {0.0, 1.0}) {
    for (const char* type : {"sgd", "adam", "adamw", "adagrad", "rmsprop"}) {
      EXPECT_THAT(error_of(1e20F, 1e5F, {{"type", type}, {"lr", 1e-9}}, clip).message,
                  HasSubstr("the gradient of fc.weight is inf at element 0"));
    }
  }
}

TEST_F(NonFinite, AStepThatIsTooLongNamesTheWeight) {
  EXPECT_THAT(error_of(1e12F, 1e10F, {{"lr", 1e6}}).message,
              testing::AllOf(HasSubstr("the step leaves"), HasSubstr("fc.")));
}

TEST_F(NonFinite, AMomentThatOverflowsIsNamed) {
  EXPECT_THAT(error_of(1e12F, 1e10F, {{"type", "adam"}}).message,
              HasSubstr("the optimizer's exp_avg_sq overflows"));
}

}  // namespace
}  // namespace muster
