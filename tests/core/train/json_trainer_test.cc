#include "core/train/json_trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/graph/statistics.h"
#include "core/train/data_statistics.h"
#include "core/train/stock_trainer.h"
#include "tests/core/train/training_support.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

// A task of a model that is JSON, with the state it begins from.
struct Work {
  explicit Work(const Json& model)
      : task{.job = "j", .round = 1, .model = *resolve_model(model), .local = {}},
        made(*json_from_model(task.model)),
        global(*made.pack(made.json())) {}

  FitTask task;
  JsonTemplate made;
  StateDict global;
};

TEST(JsonTrainer, GivesAFunctionTheGlobalStateAndPacksWhatItMakesOfIt) {
  Work work(Json{{"json", {{"count", 4}, {"scale", 0.5}}}});
  JsonTrainer trainer(
      7, [](const Json& global, const FitTask& task, std::stop_token) -> Result<JsonFit> {
        EXPECT_EQ(task.job, "j");
        return JsonFit{.state = {{"count", global.at("count").get<int>() + 1}, {"scale", 0.25}},
                       .examples = 7,
                       .metrics = {{"loss", 2.0}}};
      });
  EXPECT_EQ(trainer.num_examples(), 7);
  const auto fitted = trainer.fit(work.global, work.task, {}, {});
  ASSERT_TRUE(fitted.has_value()) << fitted.error().message;
  EXPECT_EQ(work.made.unpack(fitted->state)->dump(), R"({"count":5,"scale":0.25})");
  EXPECT_EQ(fitted->examples, 7);
  EXPECT_EQ(fitted->metrics.at("loss"), 2.0);
  EXPECT_EQ(trainer.evaluate(work.global, work.task, {})->examples, 0);
}

TEST(JsonTrainer, EvaluatesByAFunctionWhereThereIsOne) {
  Work work(Json{{"json", {{"scale", 0.5}}}});
  JsonTrainer trainer(
      7, [](const Json&, const FitTask&, std::stop_token) { return JsonFit{}; },
      [](const Json& global, const FitTask&, std::stop_token) {
        return EvaluateResult{3, {{"loss", global.at("scale").get<double>()}}};
      });
  const auto result = trainer.evaluate(work.global, work.task, {});
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->examples, 3);
  EXPECT_EQ(result->metrics.at("loss"), 0.5);
}

TEST(JsonTrainer, RefusesAnotherStructureAGraphAndAnotherGlobalState) {
  Work work(Json{{"json", {{"scale", {0.5}}}}});
  const auto error_of = [&](const Json& state) {
    JsonTrainer trainer(1, [&](const Json&, const FitTask&, std::stop_token) -> Result<JsonFit> {
      return JsonFit{.state = state, .examples = 1};
    });
    return trainer.fit(work.global, work.task, {}, {}).error();
  };
  EXPECT_EQ(error_of({{"scale", {1.0, 2.0}}}).reason, "length_mismatch");
  EXPECT_THAT(error_of({{"scale", {1.0, 2.0}}}).message, HasSubstr("\"/scale\""));
  EXPECT_EQ(error_of({{"scale", {std::nan("")}}}).reason, "non_finite");
  EXPECT_EQ(error_of(Json::object()).reason, "missing_key");

  JsonTrainer trainer(1, [](const Json&, const FitTask&, std::stop_token) { return JsonFit{}; });
  FitTask of_graph = work.task;
  of_graph.model = training::small_model();
  EXPECT_THAT(trainer.fit(work.global, of_graph, {}, {}).error().message, HasSubstr("graph"));
  const Work other(Json{{"json", {{"scale", {0.5, 0.5}}}}});
  EXPECT_EQ(trainer.fit(other.global, work.task, {}, {}).error().reason, "shape_mismatch");
}

Dataset four_examples() {
  DatasetRows rows;
  rows.shape = {2};
  rows.floats = {1, 10, 2, 10, 4, 10, 5, 10};
  rows.labels = {0, 2, 2, 2};
  return *Dataset::create(std::move(rows));
}

TEST(DataStatistics, AreMeansMeanSquaresAndLabelShares) {
  const Json state = *statistics_state({{"statistics", {{"features", 2}, {"classes", 3}}}}, "m");
  const auto statistics = data_statistics(state, four_examples());
  ASSERT_TRUE(statistics.has_value()) << statistics.error().message;
  EXPECT_EQ(*statistics, (Json{{"mean", {3.0, 10.0}},
                               {"mean_square", {11.5, 100.0}},
                               {"label_share", {0.25, 0.0, 0.75}}}));
}

// More examples than are taken at once, and sums that a double rounds.
TEST(DataStatistics, OfPartsWeightedByExamplesAreThoseOfTheWhole) {
  Random random(3);
  DatasetRows rows;
  rows.shape = {1};
  std::vector<std::int64_t> first;
  std::vector<std::int64_t> second;
  for (std::int64_t i = 0; i < 1000; ++i) {
    rows.floats.push_back(static_cast<float>(1e7 * random.normal() + 1e9));
    rows.labels.push_back(static_cast<std::int32_t>(random.below(3)));
    (i % 3 == 0 ? first : second).push_back(i);
  }
  const Dataset all = *Dataset::create(std::move(rows));
  const Json state = *statistics_state({{"statistics", {{"features", 1}, {"classes", 3}}}}, "m");
  const Json whole = *data_statistics(state, all);
  const Json a = *data_statistics(state, all.subset(first));
  const Json b = *data_statistics(state, all.subset(second));
  for (const char* pointer : {"/mean/0", "/mean_square/0", "/label_share/1"}) {
    const auto at = [&](const Json& json) {
      return json.at(Json::json_pointer(pointer)).get<double>();
    };
    const auto n = static_cast<double>(first.size());
    const double together = (at(a) * n + at(b) * (1000 - n)) / 1000;
    EXPECT_NEAR(together, at(whole), 4e-16 * std::abs(at(whole))) << pointer;
  }
}

TEST(DataStatistics, OfDataThatDoNotFitAreRefusedSayingWhy) {
  const auto error_of = [](const Json& sizes, const Dataset& data) {
    return data_statistics(*statistics_state({{"statistics", sizes}}, "m"), data).error();
  };
  EXPECT_THAT(error_of({{"features", 3}, {"classes", 3}}, four_examples()).message,
              HasSubstr("3 features, the examples here have 2"));
  EXPECT_THAT(error_of({{"features", 2}, {"classes", 2}}, four_examples()).message,
              HasSubstr("2 classes, example 1 here has the label 2"));
  EXPECT_THAT(error_of({{"features", 2}}, Dataset()).message, HasSubstr("no examples"));
  DatasetRows rows;
  rows.shape = {1};
  rows.floats = {1, 2};
  rows.values = {0.5, 1.5};
  const Dataset values = *Dataset::create(std::move(rows));
  EXPECT_THAT(error_of({{"features", 1}, {"classes", 2}}, values).message, HasSubstr("label"));
  // Without classes the targets are not looked at.
  const Json state = *statistics_state({{"statistics", {{"features", 1}}}}, "m");
  EXPECT_EQ(data_statistics(state, values)->at("label_share"), Json::array());
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(data_statistics(state, values, stop.get_token()).error().code, ErrorCode::kCancelled);
}

TEST(DataStatistics, OfAnotherJsonStateAreRefused) {
  for (const Json& state :
       {Json{{"mean", {0.0}}},
        Json{{"mean", {0.0}}, {"mean_square", {0.0, 0.0}}, {"label_share", Json::array()}},
        Json{{"mean", {"a"}}, {"mean_square", {0.0}}, {"label_share", Json::array()}}, Json(1.0)}) {
    EXPECT_EQ(data_statistics(state, four_examples()).error().reason, "bad_model") << state;
  }
}

TEST(StatisticsModel, RefusesSizesOutOfRangeAndUnknownFields) {
  for (const Json& sizes :
       {Json{{"features", 0}}, Json{{"features", 50'001}}, Json{{"features", 1}, {"classes", -1}},
        Json{{"features", 1}, {"more", 1}}, Json(1)}) {
    EXPECT_FALSE(resolve_model({{"statistics", sizes}}).has_value()) << sizes;
  }
  EXPECT_FALSE(resolve_model({{"statistics", {{"features", 1}}}, {"input", {1}}}).has_value());
  EXPECT_FALSE(resolve_model({{"json", {1.0}}, {"graph", Json::object()}}).has_value());
}

TEST(StockTrainer, TrainsGraphsAndComputesStatistics) {
  StockTrainer trainer({.train = training::make_data(100), .holdout = training::make_data(40, 2)});
  EXPECT_EQ(trainer.num_examples(), 100);
  EXPECT_TRUE(trainer.takes_gradient_offset());
  const FitTask graph = training::make_task();
  const StateDict start = training::start_of(graph);
  GraphTrainer alone({.train = training::make_data(100), .holdout = {}});
  EXPECT_TRUE(trainer.fit(start, graph, {}, {})->state == alone.fit(start, graph, {}, {})->state);
  EXPECT_EQ(trainer.evaluate(start, graph, {})->examples, 40);

  Work work(Json{{"statistics", {{"features", 4}, {"classes", 2}}}});
  const auto fitted = trainer.fit(work.global, work.task, {}, {});
  ASSERT_TRUE(fitted.has_value()) << fitted.error().message;
  EXPECT_EQ(fitted->examples, 100);
  EXPECT_EQ(*work.made.unpack(fitted->state),
            *data_statistics(work.made.json(), training::make_data(100)));
  EXPECT_EQ(trainer.evaluate(work.global, work.task, {})->examples, 0);

  StockTrainer few({.train = training::make_data(9), .holdout = {}});
  EXPECT_EQ(few.fit(work.global, work.task, {}, {}).error().reason, "too_few_examples");
  StockTrainer enough({.train = training::make_data(10), .holdout = {}});
  EXPECT_TRUE(enough.fit(work.global, work.task, {}, {}).has_value());

  const Work other(Json{{"json", {{"centres", {0.0}}}}});
  EXPECT_EQ(trainer.fit(other.global, other.task, {}, {}).error().reason, "bad_model");
}

}  // namespace
}  // namespace muster
