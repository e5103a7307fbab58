#include "core/train/graph_trainer.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "core/train/evaluate.h"
#include "tests/core/train/training_support.h"

namespace muster {
namespace {

using testing::AllOf;
using testing::HasSubstr;

using training::make_data;
using training::make_task;
using training::model_with;
using training::start_of;

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

TEST(GraphTrainer, ReportsTheLossOfTheGlobalStateOverItsTrainingExamplesWhenAsked) {
  GraphTrainer trainer = make_trainer();
  FitTask task = make_task();
  const StateDict start = start_of(task);
  const auto plain = trainer.fit(start, task, {}, {});
  task.report_initial_loss = true;
  const auto asked = trainer.fit(start, task, {}, {});
  ASSERT_TRUE(plain && asked);
  EXPECT_FALSE(plain->metrics.contains("initial_loss"));
  EXPECT_TRUE(plain->state == asked->state) << "it changes nothing else";
  const auto evaluated = evaluate(*graph_from_model(task.model), start, make_data(100));
  EXPECT_EQ(asked->metrics.at("initial_loss"), evaluated->metrics.at("loss"));
  EXPECT_GT(asked->metrics.at("initial_loss"), asked->metrics.at("loss"));
}

TEST(GraphTrainer, TakesAGradientOffset) {
  GraphTrainer trainer = make_trainer();
  EXPECT_TRUE(trainer.takes_gradient_offset());
  FitTask task = make_task();
  const StateDict start = start_of(task);
  const auto plain = trainer.fit(start, task, {}, {});
  StateDict offset(start.layout_ptr());
  task.gradient_offset = &offset;
  const auto zero = trainer.fit(start, task, {}, {});
  for (float& value : offset.values()) value = 0.5F;
  const auto shifted = trainer.fit(start, task, {}, {});
  ASSERT_TRUE(plain && zero && shifted);
  EXPECT_TRUE(plain->state == zero->state);
  EXPECT_FALSE(plain->state == shifted->state);
  const StateDict other(*StateLayout::create({{"w", {1}}}));
  task.gradient_offset = &other;
  EXPECT_FALSE(trainer.fit(start, task, {}, {}));
}

TEST(GraphTrainer, EqualTasksGiveEqualBitsAndAnotherSeedOther) {
  FitTask task = make_task();
  task.local.mu = 0.1;
  task.local.optimizer.rule = SgdSettings{.momentum = 0.9};
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

TEST(GraphTrainer, ProgressTellsTheEpochAndTheRate) {
  FitTask task = make_task();
  std::chrono::steady_clock::time_point now;
  GraphTrainer trainer({.train = make_data(100), .holdout = {}}, {.clock = [&] {
                         now += std::chrono::seconds(1);
                         return now;
                       }});
  std::vector<FitProgress> reports;
  ASSERT_TRUE(trainer.fit(start_of(task), task, {},
                          [&](const FitProgress& progress) { reports.push_back(progress); }));
  ASSERT_EQ(reports.size(), 39U);
  EXPECT_EQ(reports[0].epoch, 1);
  EXPECT_EQ(reports[12].epoch, 1);
  EXPECT_EQ(reports[13].epoch, 2);
  EXPECT_EQ(reports[38].epoch, 3);
  // The clock is asked once a report.
  EXPECT_EQ(reports[0].examples_per_second, 8.0);
  EXPECT_EQ(reports[12].examples_per_second, 100.0 / 13);
  EXPECT_EQ(reports[38].examples_per_second, 300.0 / 39);
}

TEST(GraphTrainer, GivesTheMetricsOfEveryEpochWithTheHoldoutWhenAskedTo) {
  FitTask task = make_task();
  task.local.max_steps = 28;  // two epochs and two steps
  const StateDict start = start_of(task);
  GraphTrainer plain({.train = make_data(100), .holdout = make_data(40, 2)});
  GraphTrainer asked({.train = make_data(100), .holdout = make_data(40, 2)},
                     {.holdout_each_epoch = true});
  const auto without = plain.fit(start, task, {}, {});
  const auto with = asked.fit(start, task, {}, {});
  ASSERT_TRUE(without && with);
  EXPECT_TRUE(without->state == with->state);
  ASSERT_EQ(with->epochs.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(with->epochs[i].epoch, static_cast<std::int64_t>(i + 1));
    EXPECT_EQ(with->epochs[i].examples, i < 2 ? 100 : 16);
    EXPECT_EQ(with->epochs[i].loss, without->epochs[i].loss);
    EXPECT_TRUE(with->epochs[i].accuracy.has_value());
    EXPECT_TRUE(without->epochs[i].holdout.empty());
  }
  EXPECT_LT(with->epochs[1].loss, with->epochs[0].loss);
  EXPECT_EQ(with->metrics.at("loss"), with->epochs[2].loss);
  EXPECT_EQ(with->metrics.at("accuracy"), *with->epochs[2].accuracy);
  EXPECT_EQ(with->epochs[2].holdout, asked.evaluate(with->state, task, {})->metrics);
  task.local.max_steps = 13;
  EXPECT_EQ(with->epochs[0].holdout,
            asked.evaluate(asked.fit(start, task, {}, {})->state, task, {})->metrics);
}

class TimeBudget : public testing::Test {
 protected:
  // A step takes a second.
  Result<FitResult> fit(const FitTask& task) {
    now_ = {};
    return trainer_.fit(start_of(task), task, {},
                        [&](const FitProgress&) { now_ += std::chrono::seconds(1); });
  }

  std::chrono::steady_clock::time_point now_;
  GraphTrainer trainer_{{.train = make_data(100), .holdout = {}}, {.clock = [&] { return now_; }}};
};

TEST_F(TimeBudget, GivesThePartialWorkWithTheStepsDone) {
  FitTask task = make_task();
  task.local.max_steps = 5;
  const auto five = fit(task);
  ASSERT_TRUE(five);
  EXPECT_TRUE(five->complete);
  task.local.max_steps = 0;
  task.local.max_seconds = 3.5;
  const auto partial = fit(task);
  ASSERT_TRUE(partial) << partial.error().message;
  EXPECT_FALSE(partial->complete);
  // The time is looked at before the report that moves this clock.
  EXPECT_EQ(partial->steps, 5);
  EXPECT_TRUE(partial->state == five->state);
  EXPECT_EQ(partial->metrics, five->metrics);
  EXPECT_EQ(partial->examples, 100);
}

TEST_F(TimeBudget, TheEarlierOfTheTwoBudgetsEndsIt) {
  FitTask task = make_task();
  task.budget = std::chrono::milliseconds(1500);
  EXPECT_EQ(fit(task)->steps, 3);
  task.local.max_seconds = 100;
  EXPECT_EQ(fit(task)->steps, 3);
  task.local.max_seconds = 1;
  EXPECT_EQ(fit(task)->steps, 2);
  task.local.max_seconds = 1000;
  task.budget = std::chrono::seconds(1000);
  const auto whole = fit(task);
  EXPECT_EQ(whole->steps, 39);
  EXPECT_TRUE(whole->complete);
}

TEST_F(TimeBudget, WithoutTimeForAStepThereIsNoResult) {
  FitTask task = make_task();
  task.budget = std::chrono::milliseconds(0);
  const auto none = fit(task);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(none.error().reason, "no_time");
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
