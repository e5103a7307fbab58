#include "core/train/graph_trainer.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "core/base/random.h"
#include "core/graph/model.h"
#include "core/train/evaluate.h"

namespace muster {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Two classes that a line parts, with some noise in the features.
Dataset make_data(std::int64_t count, std::uint64_t seed = 1) {
  Random random(seed);
  DatasetRows rows;
  rows.shape = {4};
  for (std::int64_t i = 0; i < count; ++i) {
    const auto label = static_cast<std::int32_t>(random.below(2));
    rows.labels.push_back(label);
    for (int k = 0; k < 4; ++k) {
      rows.floats.push_back(static_cast<float>((label == 0 ? -1 : 1) + 0.5 * random.normal()));
    }
  }
  return *Dataset::create(std::move(rows));
}

Json model_with(Json nodes) {
  return {{"graph",
           {{"input", {{"shape", {4}}}},
            {"nodes", std::move(nodes)},
            {"loss", {{"type", "softmax_cross_entropy"}}}}}};
}

FitTask make_task() {
  FitTask task;
  task.model = model_with({{{"id", "fc1"}, {"op", "dense"}, {"units", 8}},
                           {{"id", "act"}, {"op", "relu"}},
                           {{"id", "drop"}, {"op", "dropout"}, {"p", 0.2}},
                           {{"id", "fc2"}, {"op", "dense"}, {"units", 2}}});
  task.local.epochs = 3;
  task.local.batch_size = 8;
  task.local.optimizer.lr = 0.1;
  task.seed = 5;
  return task;
}

StateDict start_of(const FitTask& task) {
  return graph_from_model(task.model)->initial_state(1);
}

GraphTrainer make_trainer(std::int64_t count = 100) {
  return GraphTrainer({.train = make_data(count), .holdout = make_data(40, 2)});
}

TEST(GraphTrainer, LearnsAndReportsTheLastEpoch) {
  GraphTrainer trainer = make_trainer();
  const FitTask task = make_task();
  const StateDict start = start_of(task);
  const auto before = trainer.evaluate(start, task, {});
  const auto fit = trainer.fit(start, task, {}, {});
  ASSERT_TRUE(fit) << fit.error().message;
  EXPECT_EQ(fit->examples, 100);
  EXPECT_EQ(fit->steps, 3 * 13);
  const auto after = trainer.evaluate(fit->state, task, {});
  ASSERT_TRUE(before && after);
  EXPECT_EQ(after->examples, 40);
  EXPECT_GT(after->metrics.at("accuracy"), 0.95);
  EXPECT_LT(after->metrics.at("loss"), before->metrics.at("loss") / 2);
  EXPECT_GT(fit->metrics.at("accuracy"), 0.9);
  EXPECT_LT(fit->metrics.at("loss"), 0.4);
}

TEST(GraphTrainer, EqualTasksGiveEqualBitsAndAnotherSeedOther) {
  FitTask task = make_task();
  task.local.mu = 0.1;
  task.local.optimizer.momentum = 0.9;
  const StateDict start = start_of(task);
  GraphTrainer trainer = make_trainer();
  GraphTrainer other = make_trainer();
  const auto first = trainer.fit(start, task, {}, {});
  const auto again = trainer.fit(start, task, {}, {});
  const auto elsewhere = other.fit(start, task, {}, {});
  ASSERT_TRUE(first && again && elsewhere);
  EXPECT_TRUE(first->state == again->state);
  EXPECT_TRUE(first->state == elsewhere->state);
  EXPECT_EQ(first->metrics, again->metrics);
  task.seed = 6;
  EXPECT_FALSE(first->state == trainer.fit(start, task, {}, {})->state);
}

TEST(GraphTrainer, ShufflesEachEpochAnew) {
  // With one example a step and no randomness in the graph, only the order tells epochs apart.
  FitTask task = make_task();
  task.model = model_with({{{"id", "fc"}, {"op", "dense"}, {"units", 2}}});
  task.local.batch_size = 1;
  task.local.epochs = 1;
  const StateDict start = start_of(task);
  GraphTrainer trainer = make_trainer(20);
  const auto shuffled = trainer.fit(start, task, {}, {});
  task.local.shuffle = false;
  const auto ordered = trainer.fit(start, task, {}, {});
  ASSERT_TRUE(shuffled && ordered);
  EXPECT_FALSE(shuffled->state == ordered->state);
  task.seed = 77;
  EXPECT_TRUE(trainer.fit(start, task, {}, {})->state == ordered->state);
}

TEST(GraphTrainer, AStrongProximalTermHoldsTheStateNearTheGlobalOne) {
  FitTask task = make_task();
  const StateDict start = start_of(task);
  GraphTrainer trainer = make_trainer();
  const auto distance = [&](double mu) {
    task.local.mu = mu;
    const auto fit = trainer.fit(start, task, {}, {});
    double sum = 0;
    for (std::size_t i = 0; i < start.values().size(); ++i) {
      sum += std::pow(fit->state.values()[i] - start.values()[i], 2);
    }
    return std::sqrt(sum);
  };
  EXPECT_LT(distance(5.0), 0.5 * distance(0.0));
}

TEST(GraphTrainer, StopsAtMaxSteps) {
  FitTask task = make_task();
  task.local.max_steps = 5;
  GraphTrainer trainer = make_trainer();
  const auto fit = trainer.fit(start_of(task), task, {}, {});
  ASSERT_TRUE(fit);
  EXPECT_EQ(fit->steps, 5);
  EXPECT_EQ(fit->examples, 100);
}

TEST(GraphTrainer, AStopEndsItAtTheNextStepAndChangesNothing) {
  FitTask task = make_task();
  GraphTrainer trainer = make_trainer();
  const StateDict start = start_of(task);
  const StateDict copy = start.clone();
  std::stop_source stop;
  std::int64_t last = 0;
  const auto fit = trainer.fit(start, task, stop.get_token(), [&](const FitProgress& progress) {
    last = progress.steps_done;
    stop.request_stop();
  });
  ASSERT_FALSE(fit);
  EXPECT_EQ(fit.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(last, 1);
  EXPECT_THAT(fit.error().message, HasSubstr("1 of 39"));
  EXPECT_TRUE(start == copy);
  const auto evaluated = trainer.evaluate(start, task, stop.get_token());
  ASSERT_FALSE(evaluated);
  EXPECT_EQ(evaluated.error().code, ErrorCode::kCancelled);
}

TEST(GraphTrainer, ReportsProgressAboutAHundredTimesAndAtTheEnd) {
  FitTask task = make_task();
  task.local.epochs = 100;
  GraphTrainer trainer = make_trainer();
  std::vector<FitProgress> reports;
  ASSERT_TRUE(trainer.fit(start_of(task), task, {},
                          [&](const FitProgress& progress) { reports.push_back(progress); }));
  EXPECT_GE(reports.size(), 90U);
  EXPECT_LE(reports.size(), 110U);
  EXPECT_EQ(reports.back().steps_done, 1300);
  EXPECT_EQ(reports.back().steps_total, 1300);
}

TEST(GraphTrainer, ALossThatBlowsUpIsAnErrorThatNamesTheStep) {
  FitTask task = make_task();
  task.local.optimizer.lr = 1e6;
  task.local.epochs = 1000;
  GraphTrainer trainer = make_trainer();
  const auto fit = trainer.fit(start_of(task), task, {}, {});
  ASSERT_FALSE(fit);
  EXPECT_EQ(fit.error().code, ErrorCode::kFailedPrecondition);
  EXPECT_EQ(fit.error().reason, "non_finite");
  EXPECT_THAT(fit.error().message, HasSubstr("step "));
}

TEST(GraphTrainer, ANanInTheDataIsAnErrorAndNoResult) {
  DatasetRows rows;
  rows.shape = {4};
  rows.floats = std::vector<float>(40, 1.0F);
  rows.floats[17] = std::numeric_limits<float>::quiet_NaN();
  rows.labels = std::vector<std::int32_t>(10, 1);
  GraphTrainer trainer({.train = *Dataset::create(std::move(rows)), .holdout = {}});
  const FitTask task = make_task();
  const auto fit = trainer.fit(start_of(task), task, {}, {});
  ASSERT_FALSE(fit);
  EXPECT_EQ(fit.error().reason, "non_finite");
  EXPECT_THAT(fit.error().message, HasSubstr("local data"));
}

TEST(GraphTrainer, AGlobalStateWithNanIsRefusedNamingTheTensor) {
  const FitTask task = make_task();
  StateDict start = start_of(task);
  start.tensor("fc2.bias")[1] = std::numeric_limits<float>::quiet_NaN();
  GraphTrainer trainer = make_trainer();
  const auto fit = trainer.fit(start, task, {}, {});
  ASSERT_FALSE(fit);
  EXPECT_EQ(fit.error().reason, "non_finite");
  EXPECT_THAT(fit.error().message, HasSubstr("fc2.bias"));
}

TEST(GraphTrainer, RefusesModelsAndStatesThatDoNotFitTheData) {
  FitTask task = make_task();
  GraphTrainer trainer = make_trainer();
  const StateDict start = start_of(task);
  FitTask wide = task;
  wide.model["graph"]["input"]["shape"] = {5};
  EXPECT_THAT(trainer.fit(start_of(wide), wide, {}, {}).error().message,
              AllOf(HasSubstr("[5]"), HasSubstr("[4]")));
  EXPECT_EQ(trainer.fit(start, wide, {}, {}).error().reason, "shape_mismatch");
  FitTask regression = task;
  regression.model["graph"]["loss"] = {{"type", "mse"}};
  EXPECT_EQ(trainer.fit(start, regression, {}, {}).error().reason, "data_mismatch");
  FitTask malformed = task;
  malformed.model = {{"graph", 3}};
  EXPECT_EQ(trainer.fit(start, malformed, {}, {}).error().code, ErrorCode::kInvalidArgument);
  // Still as before.
  EXPECT_TRUE(trainer.fit(start, task, {}, {}));
}

TEST(GraphTrainer, RefusesLabelsThatTheModelHasNoClassFor) {
  DatasetRows rows;
  rows.shape = {4};
  rows.floats = std::vector<float>(12, 1.0F);
  rows.labels = {0, 1, 2};
  GraphTrainer trainer({.train = *Dataset::create(std::move(rows)), .holdout = {}});
  const FitTask task = make_task();
  const auto fit = trainer.fit(start_of(task), task, {}, {});
  ASSERT_FALSE(fit);
  EXPECT_EQ(fit.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(fit.error().message, HasSubstr("example 2 has the target 2"));
}

TEST(GraphTrainer, WithoutExamplesItRefusesToTrainAndEvaluatesNothing) {
  GraphTrainer trainer(LocalData{});
  const FitTask task = make_task();
  EXPECT_EQ(trainer.num_examples(), 0);
  EXPECT_EQ(trainer.fit(start_of(task), task, {}, {}).error().reason, "no_data");
  const auto evaluated = trainer.evaluate(start_of(task), task, {});
  ASSERT_TRUE(evaluated) << evaluated.error().message;
  EXPECT_EQ(evaluated->examples, 0);
  EXPECT_TRUE(evaluated->metrics.empty());
}

TEST(GraphTrainer, TrainsRegressionAndBinaryClassifiers) {
  GraphTrainer trainer = make_trainer();
  FitTask task = make_task();
  task.model = model_with({{{"id", "fc"}, {"op", "dense"}, {"units", 1}}});
  task.local.optimizer.lr = 0.05;
  for (const char* type : {"mse", "bce_with_logits"}) {
    task.model["graph"]["loss"] = {{"type", type}};
    const StateDict start = start_of(task);
    const auto fit = trainer.fit(start, task, {}, {});
    ASSERT_TRUE(fit) << fit.error().message;
    EXPECT_LT(trainer.evaluate(fit->state, task, {})->metrics.at("loss"),
              trainer.evaluate(start, task, {})->metrics.at("loss"));
    EXPECT_EQ(fit->metrics.contains("accuracy"), type == std::string("bce_with_logits"));
  }
}

TEST(Evaluate, MeanLossAndAccuracyDoNotDependOnBatches) {
  // 250 examples are three batches of evaluation, the last one short.
  const FitTask task = make_task();
  const Graph graph = *graph_from_model(task.model);
  const StateDict state = graph.initial_state(3);
  const Dataset data = make_data(250);
  const auto whole = evaluate(graph, state, data);
  ASSERT_TRUE(whole) << whole.error().message;
  double loss = 0;
  double accuracy = 0;
  for (std::int64_t i = 0; i < 250; ++i) {
    const auto one = evaluate(graph, state, data.subset(std::vector<std::int64_t>{i}));
    loss += one->metrics.at("loss") / 250;
    accuracy += one->metrics.at("accuracy") / 250;
  }
  EXPECT_NEAR(whole->metrics.at("loss"), loss, 1e-9);
  EXPECT_NEAR(whole->metrics.at("accuracy"), accuracy, 1e-9);
}

}  // namespace
}  // namespace muster
