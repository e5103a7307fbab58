#include <gmock/gmock.h>

#include <atomic>

#include "core/strategy/executors/model_parallel.h"
#include "tests/core/strategy/partition_support.h"

namespace muster {
namespace {

using strategies::model_parallel;
using strategies::must_fit;
using strategies::Problem;
using strategies::relative_distance;
using ::testing::AllOf;
using ::testing::HasSubstr;

using How = decltype(ModelParallel::communication);

constexpr PipelineExchange kGPipe{.micro_batch_size = 3, .schedule = PipelineSchedule::kGPipe};
constexpr PipelineExchange kOneByOne{.micro_batch_size = 3,
                                     .schedule = PipelineSchedule::kOneForwardOneBackward};

std::string refusal(const Problem& problem, const ModelParallel& strategy) {
  const auto context = strategies::workers(2);
  const auto result = fit(*context, strategy, problem.task);
  EXPECT_FALSE(result);
  return result ? "" : result.error().message;
}

TEST(ModelParallelFit, RefusesPartitionsThatDoNotFitTheModelOrTheWorkers) {
  const Problem problem(Json::object(), strategies::residual_model());
  EXPECT_THAT(refusal(problem, model_parallel({{"fc1"}, {"fc1"}})),
              HasSubstr("the node \"fc1\" is claimed already, by partitions[0]"));
  EXPECT_THAT(refusal(problem, model_parallel({{"fc7"}})), HasSubstr("no node \"fc7\""));
  EXPECT_THAT(refusal(problem, {.partitions = {{{"fc1"}, "tpu"}}}),
              AllOf(HasSubstr("\"tpu\""), HasSubstr("worker-0, worker-1")));
}

TEST(ModelParallelFit, RefusesMicroBatchesThatDoNotFitTheBatch) {
  const Problem problem(Json::object(), strategies::residual_model());
  EXPECT_THAT(refusal(problem, model_parallel(strategies::kTwoPieces,
                                              PipelineExchange{.micro_batch_size = 11})),
              AllOf(HasSubstr("batch of 10"), HasSubstr("micro-batch of 11")));
  const Problem few(Json::object(), strategies::residual_model(), 4);
  EXPECT_THAT(
      refusal(few, model_parallel(strategies::kTwoPieces, PipelineExchange{.micro_batch_size = 5})),
      AllOf(HasSubstr("batch of 4"), HasSubstr("micro-batch of 5")));
  const Problem accumulating(Json{{"accumulate", 2}}, strategies::residual_model());
  EXPECT_THAT(refusal(accumulating, model_parallel(strategies::kTwoPieces, kGPipe)),
              AllOf(HasSubstr("local.accumulate is 2"), HasSubstr("micro_batch_size")));
}

TEST(ModelParallelFit, RefusesATaskThatDoesNotFitTheModel) {
  Problem problem(Json::object(), strategies::residual_model());
  const Problem other;
  const ModelParallel strategy = model_parallel(strategies::kTwoPieces);
  problem.task.start = &other.start;
  EXPECT_THAT(refusal(problem, strategy), HasSubstr("tensor \"fc2.bias\" has shape [2]"));
  problem.task.start = &problem.start;
  problem.task.data.train = {};
  EXPECT_THAT(refusal(problem, strategy), HasSubstr("no training rows"));
}

TEST(ModelParallelFit, ARunThatDivergesSaysWhere) {
  const Problem problem(Json{{"optimizer", {{"lr", 1e6}}}},
                        training::model_with({{{"id", "fc1"}, {"op", "dense"}, {"units", 8}},
                                              {{"id", "fc2"}, {"op", "dense"}, {"units", 1}}},
                                             {{"type", "mse"}}));
  for (const How& how : {How(DirectExchange{}), How(kGPipe), How(kOneByOne)}) {
    const auto context = strategies::workers(2);
    const auto result = fit(*context, model_parallel({{"fc1"}, {"fc2"}}, how), problem.task);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().reason, "non_finite");
    EXPECT_THAT(result.error().message, AllOf(HasSubstr("step "), HasSubstr(" of 15: ")));
  }
}

class LosesAWorker : public ::testing::TestWithParam<How> {};

TEST_P(LosesAWorker, EndsNamingItAndCanBeResumedFromTheLastEpoch) {
  for (const WorkerOperation operation :
       {WorkerOperation::kForward, WorkerOperation::kBackward, WorkerOperation::kApply}) {
    const Problem problem(Json::object(), strategies::residual_model());
    std::atomic<int> steps = 0;
    const auto lose = [&](std::int64_t worker, WorkerOperation what) {
      if (worker == 0 && what == WorkerOperation::kApply) ++steps;
      return worker == 1 && what == operation && steps >= 8;
    };
    const auto context = strategies::workers(2, {.lose = lose});
    std::optional<StrategyResult> last;
    const auto result = fit(*context, model_parallel(strategies::kTwoPieces, GetParam()),
                            problem.task, {.interrupted = [&](const StrategyResult& so_far) {
                              last = StrategyResult{.state = so_far.state.clone(),
                                                    .metrics = so_far.metrics,
                                                    .steps = so_far.steps,
                                                    .complete = so_far.complete};
                            }});
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().reason, "worker_lost");
    EXPECT_THAT(result.error().message, HasSubstr("worker worker-1: it is lost"));
    ASSERT_TRUE(last);
    EXPECT_EQ(last->steps, 5) << "an epoch";
    EXPECT_FALSE(last->complete);
    StrategyTask rest = problem.task;
    rest.start = &last->state;
    rest.steps_done = last->steps;
    const auto others = strategies::workers(2);
    const StrategyResult resumed =
        must_fit(*others, model_parallel(strategies::kTwoPieces, GetParam()), rest);
    EXPECT_EQ(resumed.steps, 15);
    EXPECT_LT(relative_distance(resumed.state, problem.trained().state), 1e-5);
  }
}

TEST_P(LosesAWorker, AtTheBeginningItHandsBackTheStart) {
  const Problem problem(Json::object(), strategies::residual_model());
  const auto context =
      strategies::workers(2, {.lose = [](std::int64_t worker, WorkerOperation operation) {
                            return worker == 0 && operation == WorkerOperation::kForward;
                          }});
  int told = 0;
  const auto result = fit(*context, model_parallel(strategies::kTwoPieces, GetParam()),
                          problem.task, {.interrupted = [&](const StrategyResult& so_far) {
                            ++told;
                            EXPECT_EQ(so_far.steps, 0);
                            EXPECT_TRUE(so_far.state == problem.start);
                          }});
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().message, HasSubstr("worker-0"));
  EXPECT_EQ(told, 1);
}

INSTANTIATE_TEST_SUITE_P(EveryWay, LosesAWorker,
                         ::testing::Values(How(DirectExchange{}), How(DataStoreExchange{}),
                                           How(kGPipe), How(kOneByOne)));

}  // namespace
}  // namespace muster
