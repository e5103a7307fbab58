#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>

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

using How = decltype(DataParallel::aggregation);

// Loses a worker at the nth time that it is to do an operation.
class LoseAt {
 public:
  LoseAt(std::int64_t worker, WorkerOperation operation, std::int64_t nth)
      : worker_(worker), operation_(operation), left_(nth) {}
  bool operator()(std::int64_t worker, WorkerOperation operation) {
    return worker == worker_ && operation == operation_ && --left_ == 0;
  }

 private:
  std::int64_t worker_;
  WorkerOperation operation_;
  std::atomic<std::int64_t> left_;
};

struct Loss {
  std::string name;
  How how;
  WorkerOperation operation;
  std::int64_t nth;
};

class LostInTheMiddle : public testing::TestWithParam<Loss> {};

TEST_P(LostInTheMiddle, TheOthersGoOnWithTheWholeBatch) {
  const Problem problem;
  LoseAt lose(1, GetParam().operation, GetParam().nth);
  const auto context = strategies::workers(3, {.lose = std::ref(lose)});
  DataParallel strategy = data_parallel(3, GetParam().how);
  strategy.min_replicas = 2;
  const StrategyResult result = must_fit(*context, strategy, problem.task);
  EXPECT_TRUE(context->is_lost(1));
  EXPECT_EQ(result.steps, 15);
  EXPECT_EQ(result.epochs.back().examples, 43);
  EXPECT_THAT(result.report.at("lost"), ElementsAre("worker-1"));
  EXPECT_THAT(result.report.at("replicas"), ElementsAre("worker-0", "worker-2"));
  if (std::holds_alternative<Decentralized>(GetParam().how)) return;
  EXPECT_LT(relative_distance(result.state, problem.trained().state), 1e-5)
      << "no row is lost and none counts twice";
}

// The state that a run is interrupted with, and how far it is.
struct Interrupted {
  std::optional<StateDict> state;
  std::int64_t steps = 0;
};

TEST_P(LostInTheMiddle, UnderTheMinimumItEndsNamingTheWorkerAndCanBeResumed) {
  const Problem problem;
  LoseAt lose(1, GetParam().operation, GetParam().nth);
  const auto context = strategies::workers(3, {.lose = std::ref(lose)});
  Interrupted last;
  const auto result = fit(*context, data_parallel(3, GetParam().how), problem.task,
                          {.interrupted = [&](const StrategyResult& so_far) {
                            last = {.state = so_far.state.clone(), .steps = so_far.steps};
                          }});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().reason, "worker_lost");
  EXPECT_THAT(result.error().message,
              AllOf(HasSubstr("worker worker-1"), HasSubstr("2 of 3"), HasSubstr("at least 3")));
  ASSERT_TRUE(last.state);

  if (std::holds_alternative<Decentralized>(GetParam().how)) return;
  StrategyTask rest = problem.task;
  rest.start = &*last.state;
  rest.steps_done = last.steps;
  const auto others = strategies::workers(2);
  const StrategyResult resumed = must_fit(*others, data_parallel(2, GetParam().how), rest);
  EXPECT_EQ(resumed.steps, 15);
  EXPECT_LT(relative_distance(resumed.state, problem.trained().state), 1e-5);
}

const std::vector<Loss> kLosses{
    {"PreparingAllReduce", AllReduce{}, WorkerOperation::kPrepare, 1},
    {"ComputingAllReduce", AllReduce{}, WorkerOperation::kComputeGradient, 4},
    {"ReducingAllReduce", AllReduce{}, WorkerOperation::kReduce, 4},
    {"ApplyingAllReduce", AllReduce{}, WorkerOperation::kApply, 4},
    {"FirstComputingServer", ParameterServer{}, WorkerOperation::kComputeGradient, 1},
    {"ComputingServer", ParameterServer{}, WorkerOperation::kComputeGradient, 9},
    {"FetchingServer", ParameterServer{}, WorkerOperation::kSetState, 5},
    {"ComputingGossip", Decentralized{}, WorkerOperation::kComputeGradient, 4},
    {"MixingGossip", Decentralized{}, WorkerOperation::kMix, 4},
    {"ApplyingGossip", Decentralized{}, WorkerOperation::kApply, 4},
};
INSTANTIATE_TEST_SUITE_P(Losses, LostInTheMiddle, testing::ValuesIn(kLosses),
                         [](const auto& test) { return test.param.name; });

TEST(WorkerLost, WithBoundedStalenessEveryShareStillCountsOnce) {
  const Problem problem;
  LoseAt lose(1, WorkerOperation::kComputeGradient, 9);
  const auto context = strategies::workers(3, {.lose = std::ref(lose)});
  DataParallel strategy = data_parallel(3, ParameterServer{.max_staleness = 2});
  strategy.min_replicas = 1;
  const StrategyResult result = must_fit(*context, strategy, problem.task);
  EXPECT_EQ(result.steps, 15);
  for (const EpochMetrics& epoch : result.epochs) EXPECT_EQ(epoch.examples, 43);
}

TEST(WorkerLost, WhenAllAreLostTheStateKeptLastIsTheOneToResumeFrom) {
  const Problem problem;
  std::array<std::atomic<std::int64_t>, 2> computed{};
  // Both in the third step of the second epoch.
  const auto context =
      strategies::workers(2, {.lose = [&](std::int64_t worker, WorkerOperation operation) {
                            return operation == WorkerOperation::kComputeGradient &&
                                   ++computed[static_cast<std::size_t>(worker)] > 7;
                          }});
  Interrupted last;
  DataParallel strategy = data_parallel(2);
  strategy.min_replicas = 1;
  const auto result =
      fit(*context, strategy, problem.task, {.interrupted = [&](const StrategyResult& so_far) {
        last = {.state = so_far.state.clone(), .steps = so_far.steps};
      }});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().reason, "worker_lost");
  ASSERT_TRUE(last.state);
  EXPECT_EQ(last.steps, 5) << "the end of the first epoch";
  StrategyTask rest = problem.task;
  rest.start = &*last.state;
  rest.steps_done = last.steps;
  const auto others = strategies::workers(1);
  EXPECT_LT(relative_distance(must_fit(*others, Local{}, rest).state, problem.trained().state),
            1e-5);
}

TEST(WorkerLost, LocalEndsNamingTheWorker) {
  const Problem problem;
  LoseAt lose(0, WorkerOperation::kStep, 7);
  const auto context = strategies::workers(1, {.lose = std::ref(lose)});
  bool told = false;
  const auto result =
      fit(*context, Local{}, problem.task,
          {.interrupted = [&](const StrategyResult& last) { told = last.state == problem.start; }});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().reason, "worker_lost");
  EXPECT_THAT(result.error().message, HasSubstr("worker worker-0"));
  EXPECT_TRUE(told);
}

TEST(WorkerLost, AStopIsNoLossAndEndsTheRun) {
  const Problem problem(Json{{"epochs", 1'000'000}});
  for (const How& how : {How{AllReduce{}}, How{ParameterServer{}}, How{Decentralized{}}}) {
    std::stop_source stop;
    const auto context = strategies::workers(2, {.stop = stop.get_token()});
    const auto result = fit(*context, data_parallel(2, how), problem.task,
                            {.progress = [&](const FitProgress&) { stop.request_stop(); }});
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, ErrorCode::kCancelled);
  }
}

}  // namespace
}  // namespace muster
