#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "core/strategy/executors/split_rows.h"
#include "tests/core/strategy/strategy_support.h"

namespace muster {
namespace {

using strategies::data_parallel;
using strategies::must_fit;
using strategies::Problem;
using strategies::relative_distance;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string refusal(std::int64_t workers, const TrainingStrategy& strategy,
                    const StrategyTask& task) {
  const auto context = strategies::workers(workers);
  const auto result = fit(*context, strategy, task);
  EXPECT_FALSE(result);
  return result ? "" : result.error().message;
}

TEST(SplitRows, SizesDifferByOneAtMostOrFollowTheShares) {
  const std::vector<std::int64_t> equal(3, 1);
  EXPECT_THAT(split_rows(10, equal), ElementsAre(3, 3, 4));
  EXPECT_THAT(split_rows(2, equal), ElementsAre(0, 1, 1));
  EXPECT_THAT(split_rows(0, equal), ElementsAre(0, 0, 0));
  EXPECT_THAT(split_rows(12, std::vector<std::int64_t>{1, 2, 3}), ElementsAre(2, 4, 6));
  EXPECT_THAT(split_rows(1'000'000, std::vector<std::int64_t>(3, 1'000'000)),
              ElementsAre(333'333, 333'333, 333'334));
}

TEST(Local, GivesTheBitsOfATrainingRun) {
  const Problem problem(Json{{"optimizer", {{"type", "adam"}}}});
  const auto context = strategies::workers(2);
  std::int64_t seen = 0;
  const StrategyResult result =
      must_fit(*context, Local{}, problem.task,
               {.progress = [&](const FitProgress& progress) { seen = progress.steps_done; }});
  const FitResult wanted = problem.trained();
  EXPECT_TRUE(result.state == wanted.state);
  EXPECT_EQ(result.metrics, wanted.metrics);
  EXPECT_EQ(result.epochs, wanted.epochs);
  EXPECT_EQ(result.steps, wanted.steps);
  EXPECT_TRUE(result.complete);
  EXPECT_EQ(seen, wanted.steps);
}

TEST(DataParallelFit, OneReplicaHasTheBitsOfLocal) {
  for (const Json& model :
       {strategies::plain_model(), strategies::batch_norm_model(), training::small_model()}) {
    const Problem problem(Json{{"accumulate", 2}, {"clip_norm", 0.5}}, model);
    const FitResult wanted = problem.trained();
    const auto context = strategies::workers(1);
    const StrategyResult reduced = must_fit(*context, data_parallel(1), problem.task);
    EXPECT_TRUE(reduced.state == wanted.state);
    EXPECT_EQ(reduced.epochs, wanted.epochs);
    EXPECT_EQ(reduced.metrics, wanted.metrics);
    EXPECT_TRUE(must_fit(*context, data_parallel(1, ParameterServer{}), problem.task).state ==
                wanted.state);
  }
}

struct Case {
  std::string name;
  Json local;
  Json loss = {{"type", "softmax_cross_entropy"}};
};

class AnyNumberOfReplicas : public testing::TestWithParam<std::tuple<Case, std::int64_t>> {};

// Batches of 10 and a last one of 3, over 1 to 5 replicas: shares of unequal size, some of nothing.
TEST_P(AnyNumberOfReplicas, GivesTheStateOfOneWorkerWithTheWholeBatch) {
  const auto& [test, replicas] = GetParam();
  const Problem problem(test.local, strategies::plain_model(test.loss));
  const FitResult wanted = problem.trained();
  EXPECT_GT(relative_distance(wanted.state, problem.start), 1e-2) << "it has to move";
  const auto context = strategies::workers(replicas);
  for (const auto& how : {decltype(DataParallel::aggregation){AllReduce{}},
                          decltype(DataParallel::aggregation){ParameterServer{}}}) {
    const StrategyResult result = must_fit(*context, data_parallel(replicas, how), problem.task);
    EXPECT_LT(relative_distance(result.state, wanted.state), 1e-5);
    EXPECT_EQ(result.steps, wanted.steps);
    ASSERT_EQ(result.epochs.size(), wanted.epochs.size());
    for (std::size_t i = 0; i < wanted.epochs.size(); ++i) {
      EXPECT_EQ(result.epochs[i].examples, wanted.epochs[i].examples);
      EXPECT_NEAR(result.epochs[i].loss, wanted.epochs[i].loss, 1e-5);
      EXPECT_EQ(result.epochs[i].accuracy, wanted.epochs[i].accuracy);
    }
  }
}

const std::vector<Case> kCases{
    {"sgd", Json::object()},
    {"momentum",
     {{"optimizer", {{"lr", 0.1}, {"momentum", 0.9}, {"weight_decay", 0.01}, {"nesterov", true}}}}},
    {"adam_schedule",
     {{"optimizer", {{"type", "adamw"}, {"lr", 0.01}}},
      {"schedule", {{"type", "cosine"}, {"warmup_steps", 3}}}}},
    {"clipped", {{"clip_norm", 0.2}}},
    {"in_parts", {{"accumulate", 4}}},
    {"class_weights",
     Json::object(),
     {{"type", "softmax_cross_entropy"}, {"class_weights", {3.0, 0.5}}}},
    {"summed",
     {{"optimizer", {{"lr", 0.01}}}},
     {{"type", "softmax_cross_entropy"}, {"reduction", "sum"}}},
};
INSTANTIATE_TEST_SUITE_P(Replicas, AnyNumberOfReplicas,
                         testing::Combine(testing::ValuesIn(kCases),
                                          testing::Values(1, 2, 3, 4, 5)),
                         [](const auto& test) {
                           return std::get<0>(test.param).name + "_" +
                                  std::to_string(std::get<1>(test.param));
                         });

TEST(DataParallelFit, SharesDecideHowManyRowsEachComputes) {
  const Problem problem;
  const FitResult wanted = problem.trained();
  DataParallel strategy = data_parallel(3);
  strategy.shares = {7, 2, 1};
  const auto context = strategies::workers(3);
  const StrategyResult result = must_fit(*context, strategy, problem.task);
  EXPECT_LT(relative_distance(result.state, wanted.state), 1e-5);
  // The order of additions is another one.
  EXPECT_FALSE(result.state == must_fit(*context, data_parallel(3), problem.task).state);
}

TEST(DataParallelFit, AllReduceMovesTwoTimesNMinusOneOverNOfTheModelAStep) {
  const Problem problem;
  const auto context = strategies::workers(4);
  const StrategyResult result = must_fit(*context, data_parallel(4), problem.task);
  const std::uint64_t model = strategies::model_bytes(problem.start);
  // The start to each, a state kept after each epoch but the last, and the state at the end.
  EXPECT_EQ(result.bytes_moved, 15 * (2 * 3 * model) + 4 * model + 2 * model + model);
}

TEST(DataParallelFit, ReplicasAgreeOnRunningStatistics) {
  const Problem problem(Json::object(), strategies::batch_norm_model());
  const auto context = strategies::workers(3);
  const StrategyResult result = must_fit(*context, data_parallel(3), problem.task);
  for (std::int64_t worker = 0; worker < 3; ++worker) {
    EXPECT_TRUE(*context->read_back_state(worker) == result.state);
  }
  EXPECT_FALSE(std::ranges::equal(result.state.tensor("norm.running_mean"),
                                  problem.start.tensor("norm.running_mean")));
}

TEST(DataParallelFit, EndsOnWhatTheReplicasHaveNowNotOnTheirLastFit) {
  const Problem problem;
  const auto context = strategies::workers(2);
  const StrategyResult result = must_fit(*context, data_parallel(2), problem.task);
  EXPECT_TRUE(*context->read_back_state(1) == result.state);
  EXPECT_TRUE(*context->get_state(1) == problem.start);
}

TEST(DataParallelFit, WhatDoesNotFitIsRefusedSayingWhat) {
  const Problem problem;
  EXPECT_THAT(refusal(2, data_parallel(3), problem.task),
              AllOf(HasSubstr("3 replicas"), HasSubstr("2 workers")));
  const Problem few(Json::object(), strategies::plain_model(), 3);
  EXPECT_THAT(refusal(4, data_parallel(4), few.task),
              AllOf(HasSubstr("3 training rows"), HasSubstr("4 replicas")));
  const Problem small(Json{{"batch_size", 2}});
  EXPECT_THAT(refusal(3, data_parallel(3), small.task),
              AllOf(HasSubstr("batch_size of 2"), HasSubstr("3 replicas")));
  Problem none;
  none.task.data.train = {};
  EXPECT_THAT(refusal(2, data_parallel(2), none.task), HasSubstr("no training rows"));
}

TEST(DataParallelFit, StepsThatBlowUpNameTheWorkerAndTheStep) {
  Problem problem;
  std::ranges::fill(problem.start.values(), std::numeric_limits<float>::max());
  for (const auto& how : {decltype(DataParallel::aggregation){AllReduce{}},
                          decltype(DataParallel::aggregation){ParameterServer{}},
                          decltype(DataParallel::aggregation){Decentralized{}}}) {
    const auto context = strategies::workers(2);
    const auto result = fit(*context, data_parallel(2, how), problem.task);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().reason, "non_finite");
    EXPECT_THAT(result.error().message, AllOf(HasSubstr("worker worker-"), HasSubstr("step ")));
  }
}

TEST(DataParallelFit, MaxSecondsEndsItWithThePartialWork) {
  for (const auto& how : {decltype(DataParallel::aggregation){AllReduce{}},
                          decltype(DataParallel::aggregation){ParameterServer{}},
                          decltype(DataParallel::aggregation){Decentralized{}}}) {
    Problem problem(Json{{"max_seconds", 5}});
    std::int64_t looks = 0;
    problem.task.clock = [&] {
      return std::chrono::steady_clock::time_point(std::chrono::seconds(looks++));
    };
    const auto context = strategies::workers(2);
    const StrategyResult result = must_fit(*context, data_parallel(2, how), problem.task);
    EXPECT_FALSE(result.complete);
    EXPECT_GT(result.steps, 0);
    EXPECT_LT(result.steps, 15);
  }
}

TEST(DataParallelFit, MaxStepsEndsItWithinAnEpoch) {
  const Problem problem(Json{{"max_steps", 7}});
  const FitResult wanted = problem.trained();
  for (const auto& how : {decltype(DataParallel::aggregation){AllReduce{}},
                          decltype(DataParallel::aggregation){ParameterServer{}}}) {
    const auto context = strategies::workers(2);
    const StrategyResult result = must_fit(*context, data_parallel(2, how), problem.task);
    EXPECT_EQ(result.steps, 7);
    EXPECT_TRUE(result.complete);
    EXPECT_LT(relative_distance(result.state, wanted.state), 1e-5);
  }
}

TEST(Fit, StrategiesThatRunElsewhereSayWhere) {
  const Problem problem;
  const auto context = strategies::workers(1);
  const auto result = fit(*context, Federated{}, problem.task);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().reason, "runs_elsewhere");
  EXPECT_THAT(result.error().message, AllOf(HasSubstr("Federated"), HasSubstr("server")));
}

}  // namespace
}  // namespace muster
