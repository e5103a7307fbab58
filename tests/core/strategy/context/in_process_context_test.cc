#include "core/strategy/context/in_process_context.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <barrier>
#include <latch>
#include <limits>
#include <numeric>

#include "core/strategy/context/fan_out.h"
#include "core/train/batch.h"
#include "tests/core/strategy/strategy_support.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class InProcess : public testing::Test {
 protected:
  TrainingPlan plan() const {
    return {.model = problem_.task.model,
            .settings = problem_.task.settings,
            .seed = problem_.task.seed,
            .data = problem_.task.data};
  }

  std::unique_ptr<InProcessContext> prepared(std::int64_t count, InProcessOptions options = {}) {
    auto context = strategies::workers(count, std::move(options));
    for (std::int64_t worker = 0; worker < count; ++worker) {
      const Status done = context->prepare(worker, plan(), problem_.start);
      EXPECT_TRUE(done) << done.error().message;
    }
    return context;
  }

  static BatchShare share_of(std::vector<std::int64_t> positions, double normaliser) {
    return {.positions = std::move(positions), .normaliser = normaliser, .at = {0, 10}};
  }

  strategies::Problem problem_;
};

TEST_F(InProcess, FindsWorkersByIdThenByTagAndElseListsThoseThereAre) {
  const auto context = *InProcessContext::create(
      {{.id = "alpha", .tags = {"gpu"}}, {.id = "beta", .tags = {"gpu", "big"}}});
  EXPECT_EQ(context->num_workers(), 2);
  EXPECT_EQ(*context->worker_for("beta"), 1);
  EXPECT_EQ(*context->worker_for("gpu"), 0);
  EXPECT_EQ(*context->worker_for("big"), 1);
  const auto none = context->worker_for("tpu");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(none.error().message, AllOf(HasSubstr("\"tpu\""), HasSubstr("alpha"),
                                          HasSubstr("beta"), HasSubstr("gpu"), HasSubstr("big")));
}

TEST_F(InProcess, RefusesNoWorkersIdsGivenTwiceAndNumbersThatThereAreNot) {
  EXPECT_FALSE(InProcessContext::create(std::vector<WorkerInfo>{}));
  const auto twice =
      InProcessContext::create({{.id = "alpha", .tags = {}}, {.id = "alpha", .tags = {}}});
  ASSERT_FALSE(twice);
  EXPECT_THAT(twice.error().message, HasSubstr("alpha"));
  EXPECT_FALSE(InProcessContext::create({{.id = "al pha\n", .tags = {}}}));
  const auto context = strategies::workers(2);
  for (const std::int64_t worker : {-1, 2}) {
    EXPECT_EQ(context->get_state(worker).error().code, ErrorCode::kInvalidArgument);
  }
}

TEST_F(InProcess, AWorkerThatWasNotPreparedSaysSoWithItsName) {
  const auto context = strategies::workers(2);
  const auto share = context->compute_gradient(1, share_of({0}, 1));
  ASSERT_FALSE(share);
  EXPECT_EQ(share.error().code, ErrorCode::kFailedPrecondition);
  EXPECT_THAT(share.error().message, HasSubstr("worker worker-1: "));
  EXPECT_FALSE(context->execute_on_worker(0));
  EXPECT_FALSE(context->get_state(0));
  EXPECT_FALSE(context->read_back_state(0));
  EXPECT_FALSE(context->set_state(0, problem_.start));
  EXPECT_FALSE(context->evaluate(0));
  EXPECT_FALSE(context->apply_gradients(0, StepNumber{}));
  EXPECT_FALSE(context->execute_partition(0, 0, 1, {}, 0));
}

TEST_F(InProcess, ExecutingGivesTheBitsOfATrainingRun) {
  const auto context = prepared(1);
  std::vector<std::int64_t> steps;
  const auto result = context->execute_on_worker(
      0, [&](const FitProgress& progress) { steps.push_back(progress.steps_done); });
  ASSERT_TRUE(result) << result.error().message;
  const FitResult wanted = problem_.trained();
  EXPECT_TRUE(result->state == wanted.state);
  EXPECT_EQ(result->metrics, wanted.metrics);
  EXPECT_EQ(result->epochs, wanted.epochs);
  ASSERT_FALSE(steps.empty());
  EXPECT_EQ(steps.back(), wanted.steps);
  EXPECT_TRUE(*context->get_state(0) == wanted.state);
  EXPECT_TRUE(*context->read_back_state(0) == wanted.state);
}

TEST_F(InProcess, GetStateIsTheLastFitsAndReadBackStateWhatApplyingMadeOfIt) {
  const auto context = prepared(1);
  ASSERT_TRUE(context->execute_on_worker(0));
  const StateDict fitted = *context->get_state(0);
  ASSERT_TRUE(context->compute_gradient(0, share_of({0, 1, 2}, 3)));
  EXPECT_TRUE(*context->read_back_state(0) == fitted) << "computing moves nothing";
  ASSERT_TRUE(context->apply_gradients(0, StepNumber{0, 10}));
  EXPECT_TRUE(*context->get_state(0) == fitted);
  EXPECT_FALSE(*context->read_back_state(0) == fitted);
}

TEST_F(InProcess, AfterSetStateBothGiveThatState) {
  const auto context = prepared(1);
  ASSERT_TRUE(context->compute_gradient(0, share_of({0, 1, 2}, 3)));
  ASSERT_TRUE(context->apply_gradients(0, StepNumber{0, 10}));
  const StateDict other = problem_.graph.initial_state(99);
  ASSERT_TRUE(context->set_state(0, other));
  EXPECT_TRUE(*context->get_state(0) == other);
  EXPECT_TRUE(*context->read_back_state(0) == other);

  StateDict bad = other.clone();
  bad.values()[0] = std::numeric_limits<float>::quiet_NaN();
  const Status refused = context->set_state(0, bad);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("worker worker-0"));
  EXPECT_FALSE(context->set_state(0, StateDict(*StateLayout::create({{"x", {1}}}))));
  EXPECT_TRUE(*context->read_back_state(0) == other) << "a refused state changes nothing";
}

TEST_F(InProcess, GivesTheParametersOfSomeNodesOnly) {
  const auto context = prepared(1);
  const std::vector<std::string> nodes{"fc2", "act"};
  const StateDict some = *context->read_back_state(0, nodes);
  ASSERT_EQ(some.layout().tensors().size(), 2U);
  for (const TensorSpec& spec : some.layout().tensors()) {
    EXPECT_TRUE(std::ranges::equal(some.tensor(spec), problem_.start.tensor(spec.name)));
  }
  const std::vector<std::string> unknown{"fc9"};
  EXPECT_THAT(context->get_state(0, unknown).error().message, HasSubstr("fc9"));
}

TEST_F(InProcess, SharesOfAnySizeAddUpToTheBatchsGradient) {
  const auto context = prepared(3);
  std::vector<std::int64_t> all(10);
  std::iota(all.begin(), all.end(), 5);
  StateDict whole(problem_.start.layout_ptr());
  const auto figures = context->get_gradients(0, share_of(all, 10), whole);
  ASSERT_TRUE(figures) << figures.error().message;
  StateDict sum(problem_.start.layout_ptr());
  double loss = 0;
  std::int64_t worker = 0;
  for (const auto& [begin, end] : {std::pair{0, 1}, std::pair{1, 8}, std::pair{8, 10}}) {
    StateDict part(problem_.start.layout_ptr());
    const auto share = context->get_gradients(
        worker++, share_of({all.begin() + begin, all.begin() + end}, 10), part);
    ASSERT_TRUE(share);
    EXPECT_EQ(share->examples, end - begin);
    loss += share->loss;
    for (std::size_t i = 0; i < sum.values().size(); ++i) sum.values()[i] += part.values()[i];
  }
  EXPECT_LT(strategies::relative_distance(sum, whole), 1e-6);
  EXPECT_NEAR(loss, figures->loss, 1e-6);
}

TEST_F(InProcess, AShareOfNothingIsAGradientOfZeroAndAScaleMultipliesIt) {
  const auto context = prepared(1);
  StateDict gradient = problem_.start.clone();
  ASSERT_TRUE(context->get_gradients(0, share_of({}, 10), gradient));
  EXPECT_TRUE(gradient == StateDict(problem_.start.layout_ptr()));
  StateDict once(problem_.start.layout_ptr());
  StateDict thrice(problem_.start.layout_ptr());
  BatchShare share = share_of({1, 2}, 2);
  ASSERT_TRUE(context->get_gradients(0, share, once));
  share.scale = 3;
  ASSERT_TRUE(context->get_gradients(0, share, thrice));
  for (float& value : once.values()) value *= 3;
  EXPECT_TRUE(thrice == once);
}

TEST_F(InProcess, RefusesPositionsThatTheDataDoesNotHaveAndSharesOverABatch) {
  const auto context = prepared(1);
  for (const std::int64_t position : {std::int64_t{-1}, std::int64_t{43}}) {
    const auto refused = context->compute_gradient(0, share_of({0, position}, 2));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(refused.error().message, HasSubstr(std::to_string(position)));
  }
  EXPECT_FALSE(context->compute_gradient(0, share_of(std::vector<std::int64_t>(11, 0), 11)));
}

TEST_F(InProcess, AllReduceLeavesTheSumEverywhereAndMovesTwoTimesNMinusOneOverN) {
  const auto context = prepared(4);
  StateDict sum(problem_.start.layout_ptr());
  for (std::int64_t worker = 0; worker < 4; ++worker) {
    StateDict part(problem_.start.layout_ptr());
    ASSERT_TRUE(context->get_gradients(worker, share_of({worker, worker + 9}, 8), part));
    for (std::size_t i = 0; i < sum.values().size(); ++i) sum.values()[i] += part.values()[i];
  }
  const std::vector<std::int64_t> all{0, 1, 2, 3};
  const std::uint64_t before = context->bytes_moved();
  ASSERT_TRUE(context->all_reduce_gradients(all));
  EXPECT_EQ(context->bytes_moved() - before, 4 * 2 * 3 * strategies::model_bytes(sum) / 4);

  std::vector<StateDict> states;
  for (const std::int64_t worker : all) {
    ASSERT_TRUE(context->apply_gradients(worker, StepNumber{0, 10}));
    states.push_back(*context->read_back_state(worker));
    EXPECT_TRUE(states.back() == states.front());
  }
  ASSERT_TRUE(context->prepare(0, plan(), problem_.start));
  ASSERT_TRUE(context->apply_gradients(0, sum, StepNumber{0, 10}));
  EXPECT_LT(strategies::relative_distance(*context->read_back_state(0), states.front()), 1e-6);
}

TEST_F(InProcess, MixingMakesStatesTheirWeightedMeans) {
  const auto context = prepared(3);
  std::vector<StateDict> states;
  for (std::int64_t worker = 0; worker < 3; ++worker) {
    states.push_back(problem_.graph.initial_state(static_cast<std::uint64_t>(worker) + 10));
    ASSERT_TRUE(context->set_state(worker, states.back()));
  }
  const Neighbours neighbours = neighbours_of(Topology::kStar, 3);
  const std::vector<std::int64_t> all{0, 1, 2};
  ASSERT_TRUE(context->mix_states(all, neighbours, metropolis_weights(neighbours)));
  // Metropolis on a star of three: 1/3 on each edge, 1/3 and 2/3 of one's own.
  const StateDict hub = *context->read_back_state(0);
  const StateDict leaf = *context->read_back_state(2);
  for (std::size_t i = 0; i < hub.values().size(); ++i) {
    const double x[] = {states[0].values()[i], states[1].values()[i], states[2].values()[i]};
    EXPECT_NEAR(hub.values()[i], (x[0] + x[1] + x[2]) / 3, 1e-6);
    EXPECT_NEAR(leaf.values()[i], (x[0] + 2 * x[2]) / 3, 1e-6);
  }
  EXPECT_TRUE(*context->get_state(2) == states[2]) << "mixing is no fit";
}

TEST_F(InProcess, EvaluatesTheStateNowOnTheHeldOutExamples) {
  const auto context = prepared(1);
  const EvaluateResult before = *context->evaluate(0);
  EXPECT_EQ(before.examples, 12);
  ASSERT_TRUE(context->execute_on_worker(0));
  EXPECT_LT(context->evaluate(0)->metrics.at("loss"), before.metrics.at("loss"));
}

TEST_F(InProcess, OperationsOnDifferentWorkersOverlapInTime) {
  // Each waits in the middle of its operation until both are there.
  std::barrier both(2);
  bool meet = false;
  const auto context = prepared(2, {.lose = [&](std::int64_t, WorkerOperation) {
                                  if (meet) both.arrive_and_wait();
                                  return false;
                                }});
  meet = true;
  FanOut fan_out = *FanOut::create(2);
  const std::vector<std::int64_t> all{0, 1};
  const auto results = fan_out.run(all, [&](std::size_t, std::int64_t worker) -> Status {
    MUSTER_TRY([[maybe_unused]] const auto figures,
               context->compute_gradient(worker, share_of({0}, 1)));
    return {};
  });
  EXPECT_TRUE(first_error(results));
}

TEST_F(InProcess, ANaNNamesTheWorkerAndWhereItBegan) {
  const auto context = prepared(2);
  StateDict huge = problem_.start.clone();
  std::ranges::fill(huge.values(), std::numeric_limits<float>::max());
  ASSERT_TRUE(context->set_state(1, huge));
  FanOut fan_out = *FanOut::create(2);
  const std::vector<std::int64_t> all{0, 1};
  const auto results = fan_out.run(all, [&](std::size_t, std::int64_t worker) -> Status {
    MUSTER_TRY([[maybe_unused]] const auto figures,
               context->compute_gradient(worker, share_of({0, 1}, 2)));
    return {};
  });
  const Status failed = first_error(results);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().reason, "non_finite");
  EXPECT_THAT(failed.error().message, AllOf(HasSubstr("worker worker-1: "), HasSubstr("step 1")));
  EXPECT_FALSE(context->is_lost(1)) << "it can be given another state";
  ASSERT_TRUE(context->set_state(1, problem_.start));
  EXPECT_TRUE(context->compute_gradient(1, share_of({0, 1}, 2)));
}

TEST_F(InProcess, ALostWorkerIsLostForGoodAndTheOthersAreNot) {
  const auto context = prepared(2, {.lose = [](std::int64_t worker, WorkerOperation operation) {
                                  return worker == 1 && operation == WorkerOperation::kApply;
                                }});
  ASSERT_TRUE(context->compute_gradient(1, share_of({0}, 1)));
  const Status lost = context->apply_gradients(1, StepNumber{0, 10});
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(lost.error().reason, "worker_lost");
  EXPECT_THAT(lost.error().message, HasSubstr("worker worker-1"));
  EXPECT_TRUE(context->is_lost(1));
  EXPECT_EQ(context->read_back_state(1).error().reason, "worker_lost");
  EXPECT_EQ(context->prepare(1, plan(), problem_.start).error().reason, "worker_lost");
  const std::vector<std::int64_t> all{0, 1};
  EXPECT_EQ(context->all_reduce_gradients(all).error().reason, "worker_lost");
  EXPECT_FALSE(context->is_lost(0));
  EXPECT_TRUE(context->compute_gradient(0, share_of({0}, 1)));
}

TEST_F(InProcess, AWorkerThatGivesNoSignOfLifeInTimeIsLost) {
  std::latch released(1);
  bool hang = false;
  const auto context = prepared(1, {.operation_time = std::chrono::milliseconds(50),
                                    .lose = [&](std::int64_t, WorkerOperation) {
                                      if (hang) released.wait();
                                      return false;
                                    }});
  hang = true;
  const auto late = context->compute_gradient(0, share_of({0}, 1));
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().reason, "worker_lost");
  EXPECT_THAT(late.error().message, AllOf(HasSubstr("worker-0"), HasSubstr("50 ms")));
  EXPECT_EQ(context->get_state(0).error().reason, "worker_lost");
  released.count_down();
}

TEST_F(InProcess, AStopEndsAFitInTheMiddle) {
  std::stop_source stop;
  problem_.task.settings.epochs = 1'000'000;
  const auto context = prepared(1, {.stop = stop.get_token()});
  const auto result =
      context->execute_on_worker(0, [&](const FitProgress&) { stop.request_stop(); });
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kCancelled);
  EXPECT_THAT(result.error().message, HasSubstr("worker-0"));
}

TEST_F(InProcess, PartitionsOfAModelGiveTheGradientOfTheWhole) {
  const auto context = strategies::workers(3);
  PartitionPlan first{.model = problem_.task.model,
                      .settings = problem_.task.settings,
                      .nodes = {"fc1"},
                      .max_micro_batch = 5,
                      .max_in_flight = 2};
  PartitionPlan second = first;
  second.nodes = {"fc2", "act"};
  const PartitionEnds ends = *context->prepare_partition(0, first, problem_.start);
  EXPECT_THAT(ends.inputs, testing::ElementsAre("input"));
  EXPECT_THAT(ends.outputs, testing::ElementsAre("fc1"));
  ASSERT_TRUE(context->prepare_partition(1, second, problem_.start));
  ASSERT_TRUE(context->prepare(2, plan(), problem_.start));

  // The batch in two micro-batches, both forward before the first is backward.
  const Dataset& data = problem_.task.data.train;
  Batch batch(problem_.graph, 5);
  std::vector<std::int64_t> all(10);
  std::iota(all.begin(), all.end(), 0);
  std::vector<std::vector<float>> doutputs;
  for (std::int64_t id = 0; id < 2; ++id) {
    batch.load(data, std::span(all).subspan(static_cast<std::size_t>(5 * id), 5));
    const auto x = batch.features();
    const Tensors middle = *context->execute_partition(0, id, 5, {{x.begin(), x.end()}}, 1);
    const Tensors out = *context->execute_partition(1, id, 5, middle, 1);
    doutputs.emplace_back(out[0].size());
    problem_.graph.loss().compute_part(out[0], batch.target(), 10, doutputs.back());
  }
  const auto over = context->execute_partition(0, 2, 5, {std::vector<float>(20)}, 1);
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().reason, "in_flight");
  EXPECT_FALSE(context->apply_partition(0, {0, 10})) << "micro-batches are in flight";
  for (std::int64_t id = 0; id < 2; ++id) {
    const Tensors dmiddle =
        *context->backward_partition(1, id, {doutputs[static_cast<std::size_t>(id)]});
    const Tensors dinput = *context->backward_partition(0, id, dmiddle);
    EXPECT_TRUE(dinput[0].empty()) << "nobody needs the derivative by the input";
  }
  StateDict gradient(problem_.start.layout_ptr());
  ASSERT_TRUE(context->get_gradients(2, share_of(all, 10), gradient));
  EXPECT_NEAR(
      std::hypot(*context->partition_gradient_norm(0), *context->partition_gradient_norm(1)),
      std::sqrt(std::inner_product(gradient.values().begin(), gradient.values().end(),
                                   gradient.values().begin(), 0.0)),
      1e-6);
  ASSERT_TRUE(context->apply_gradients(2, StepNumber{0, 10}));
  const StateDict wanted = *context->read_back_state(2);
  for (const std::int64_t worker : {0, 1}) {
    ASSERT_TRUE(context->apply_partition(worker, {0, 10}));
    const StateDict part = *context->read_back_state(worker);
    for (const TensorSpec& spec : part.layout().tensors()) {
      for (std::int64_t i = 0; i < spec.size; ++i) {
        const auto at = static_cast<std::size_t>(i);
        EXPECT_NEAR(part.tensor(spec)[at], wanted.tensor(spec.name)[at], 1e-6) << spec.name;
      }
    }
    EXPECT_FALSE(*context->get_state(worker) == part) << "applying is no fit";
  }
}

}  // namespace
}  // namespace muster
