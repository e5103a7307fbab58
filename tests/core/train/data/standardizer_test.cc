#include "core/train/data/standardizer.h"

#include <gmock/gmock.h>

#include <cmath>

#include "core/base/random.h"
#include "core/graph/graph.h"
#include "tests/core/train/data/data_support.h"

namespace muster {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

Dataset data_of(Shape shape, std::vector<float> floats) {
  DatasetRows rows;
  rows.shape = std::move(shape);
  rows.floats = std::move(floats);
  std::int64_t size = 1;
  for (const std::int64_t dimension : rows.shape) size *= dimension;
  rows.labels.assign(rows.floats.size() / static_cast<std::size_t>(size), 0);
  return *Dataset::create(std::move(rows));
}

// Features with means far from 0 and different spreads.
Dataset random_data(std::int64_t examples, std::int64_t width, std::uint64_t seed) {
  Random random(seed);
  std::vector<float> floats;
  for (std::int64_t i = 0; i < examples * width; ++i) {
    const double spread = std::pow(10.0, static_cast<double>(i % width) - 2);
    floats.push_back(
        static_cast<float>(1000.0 * static_cast<double>(i % width) + spread * random.normal()));
  }
  return data_of({width}, std::move(floats));
}

TEST(Standardizer, FitsMeansAndVariancesOfEachFeature) {
  const auto fitted = Standardizer::fit(data_of({2}, {1, 10, 2, 20, 6, 30}));
  ASSERT_TRUE(fitted) << fitted.error().message;
  EXPECT_EQ(fitted->state().count, 3);
  EXPECT_THAT(fitted->state().mean, ElementsAre(3, 20));
  EXPECT_NEAR(fitted->state().variance[0], 14.0 / 3, 1e-14);
  EXPECT_NEAR(fitted->state().variance[1], 200.0 / 3, 1e-13);
}

TEST(Standardizer, EqualsTwoPassesOverAllTheData) {
  const Dataset data = random_data(1777, 6, 1);
  const std::vector<float> x = features_of(data);
  const auto fitted = Standardizer::fit(data);
  ASSERT_TRUE(fitted) << fitted.error().message;
  for (std::size_t i = 0; i < 6; ++i) {
    long double mean = 0;
    for (std::size_t at = i; at < x.size(); at += 6) mean += static_cast<long double>(x[at]);
    mean /= 1777;
    long double variance = 0;
    for (std::size_t at = i; at < x.size(); at += 6) {
      variance +=
          (static_cast<long double>(x[at]) - mean) * (static_cast<long double>(x[at]) - mean);
    }
    variance /= 1777;
    EXPECT_NEAR(fitted->state().mean[i], static_cast<double>(mean),
                std::fabs(static_cast<double>(mean)) * 1e-15 + 1e-15);
    EXPECT_NEAR(fitted->state().variance[i] / static_cast<double>(variance), 1, 1e-12);
  }
}

TEST(Standardizer, MergedDevicesEqualAllTheDataInOnePlace) {
  const Dataset all = random_data(1000, 5, 2);
  std::vector<Standardizer> parts;
  std::int64_t begin = 0;
  for (const std::int64_t size : {1, 2, 300, 17, 680}) {
    std::vector<std::int64_t> positions;
    for (std::int64_t i = begin; i < begin + size; ++i) positions.push_back(i);
    begin += size;
    // By way of JSON, as it travels.
    const auto part = Standardizer::from_json(
        *parse_json(Standardizer::fit(all.subset(positions))->to_json().dump()));
    ASSERT_TRUE(part) << part.error().message;
    parts.push_back(*part);
  }
  const auto merged = Standardizer::merge(parts);
  ASSERT_TRUE(merged) << merged.error().message;
  const auto whole = Standardizer::fit(all);
  EXPECT_EQ(merged->state().count, 1000);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_NEAR(merged->state().mean[i], whole->state().mean[i],
                std::fabs(whole->state().mean[i]) * 1e-15 + 1e-15);
    EXPECT_NEAR(merged->state().variance[i] / whole->state().variance[i], 1, 1e-12);
  }
}

TEST(Standardizer, OnePartMergedIsItself) {
  const auto one = Standardizer::fit(random_data(33, 3, 4));
  const auto merged = Standardizer::merge({&*one, 1});
  ASSERT_TRUE(merged);
  EXPECT_EQ(merged->state().mean, one->state().mean);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(merged->state().variance[i] / one->state().variance[i], 1, 1e-15);
  }
}

TEST(Standardizer, AConstantFeatureHasAVarianceOfExactlyZeroAlsoWhenMerged) {
  const Dataset data = data_of({1}, std::vector<float>(1000, 0.1F));
  const auto fitted = Standardizer::fit(data);
  EXPECT_EQ(fitted->state().mean[0], static_cast<double>(0.1F));
  EXPECT_EQ(fitted->state().variance[0], 0);
  const auto part = Standardizer::fit(data.subset(std::vector<std::int64_t>{1, 2, 3}));
  const auto merged = Standardizer::merge(std::vector<Standardizer>{*fitted, *part});
  EXPECT_EQ(merged->state().mean[0], static_cast<double>(0.1F));
  EXPECT_EQ(merged->state().variance[0], 0);
}

TEST(Standardizer, ChannelsAndAllShareTheirFigures) {
  const Dataset data = data_of({2, 1, 2}, {1, 3, 10, 10, 5, 7, 20, 20});
  const auto channels = Standardizer::fit(data, Standardizer::Per::kChannel);
  EXPECT_THAT(channels->state().mean, ElementsAre(4, 15));
  EXPECT_THAT(channels->state().variance, ElementsAre(5, 25));
  const auto all = Standardizer::fit(data, Standardizer::Per::kAll);
  EXPECT_THAT(all->state().mean, ElementsAre(9.5));
  EXPECT_THAT(all->state().variance, ElementsAre(45.25));
  EXPECT_EQ(all->state().count, 2);
}

TEST(Standardizer, RefusesNoDataAndNumbersThatAreNotFinite) {
  EXPECT_THAT(error_text(Standardizer::fit(Dataset())), HasSubstr("no examples"));
  EXPECT_THAT(error_text(Standardizer::fit(data_of({2}, {1, 2, 3, std::nanf("")}))),
              AllOf(HasSubstr("feature 1"), HasSubstr("not finite")));
}

TEST(Standardizer, MergeRefusesNoneAndLengthsThatDiffer) {
  EXPECT_FALSE(Standardizer::merge({}));
  const std::vector<Standardizer> parts{*Standardizer::fit(random_data(3, 2, 1)),
                                        *Standardizer::fit(random_data(3, 3, 1))};
  EXPECT_THAT(error_text(Standardizer::merge(parts)),
              AllOf(HasSubstr("state 1"), HasSubstr("3"), HasSubstr("2")));
  const Json most{{"type", "standardize"}, {"count", 1LL << 53}, {"mean", {1}}, {"variance", {1}}};
  const auto full = Standardizer::from_json(most);
  ASSERT_TRUE(full) << full.error().message;
  EXPECT_THAT(error_text(Standardizer::merge(std::vector<Standardizer>{*full, *full})),
              HasSubstr("2^53"));
}

TEST(Standardizer, RefusesHostileStates) {
  const Json good{{"type", "standardize"}, {"count", 3}, {"mean", {1, 2}}, {"variance", {0, 1}}};
  ASSERT_TRUE(Standardizer::from_json(good));
  EXPECT_EQ(Standardizer::from_json(good)->to_json(), good);
  const std::vector<std::pair<std::string, Json>> changes{
      {"type", "scale"},
      {"count", 0},
      {"count", -1},
      {"count", 1.5},
      {"count", (1LL << 53) + 1},

      {"mean", Json::array()},
      {"mean", 3},
      {"mean", {1, "2"}},
      {"mean", {1, nullptr}},
      {"mean", {1, 1e39}},
      {"mean", {1, {2}}},
      {"variance", {0, -1e-9}},
      {"variance", {0, 1e78}},
      {"variance", {0, 1, 2}},
      {"variance", {0, std::numeric_limits<double>::quiet_NaN()}},
      {"more", 1}};
  for (const auto& [key, value] : changes) {
    Json bad = good;
    bad[key] = value;
    const auto state = Standardizer::from_json(bad, "device");
    ASSERT_FALSE(state) << bad.dump();
    EXPECT_THAT(state.error().message, HasSubstr("device." + key)) << bad.dump();
  }
  for (const char* key : {"type", "count", "mean", "variance"}) {
    Json bad = good;
    bad.erase(key);
    EXPECT_THAT(error_text(Standardizer::from_json(bad)), HasSubstr(key));
  }
  EXPECT_FALSE(Standardizer::from_json(Json::array()));
}

Json graph_with(Json first, const Shape& shape = {2}) {
  return {{"input", {{"shape", shape}}},
          {"nodes", {std::move(first), {{"id", "fc"}, {"op", "dense"}, {"units", 2}}}},
          {"loss", {{"type", "softmax_cross_entropy"}}}};
}

const Json kUnfitted{{"id", "scale"}, {"op", "standardize"}};

TEST(FitStandardizers, FillsANodeBehindTheInputSoThatTheGraphIsBuilt) {
  const Dataset data = data_of({2}, {1, 10, 2, 20, 6, 30});
  const Json model{{"graph", graph_with(kUnfitted)}};
  EXPECT_TRUE(has_unfitted_standardizers(model));
  EXPECT_THAT(error_text(Graph::from_json(model["graph"])),
              AllOf(HasSubstr("scale"), HasSubstr("fit it on the training data")));
  const auto fitted = fit_standardizers(model, data);
  ASSERT_TRUE(fitted) << fitted.error().message;
  EXPECT_FALSE(has_unfitted_standardizers(*fitted));
  const auto graph = Graph::from_json((*fitted)["graph"]);
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_EQ(graph->to_json()["nodes"][0]["mean"], (Json{3.0, 20.0}));
  EXPECT_EQ(graph->to_json()["nodes"][0]["count"], 3);
  // A graph alone, and with its inputs written out, is filled in the same way.
  Json named = kUnfitted;
  named["inputs"] = {"input"};
  EXPECT_EQ((*fit_standardizers(graph_with(named), data))["nodes"][0]["mean"], (Json{3.0, 20.0}));
  // A second time there is nothing to do.
  EXPECT_EQ(*fit_standardizers(*fitted, Dataset()), *fitted);
}

TEST(FitStandardizers, TakesPerAndLeavesEpsAlone) {
  Json node = kUnfitted;
  node["per"] = "all";
  node["eps"] = 0.5;
  const Dataset data = data_of({2}, {1, 3, 5, 7});
  const auto fitted = fit_standardizers(graph_with(node), data);
  ASSERT_TRUE(fitted) << fitted.error().message;
  EXPECT_EQ((*fitted)["nodes"][0]["mean"], Json{4.0});
  EXPECT_FALSE((*fitted)["nodes"][0].contains("per"));
  EXPECT_EQ(Graph::from_json(*fitted)->to_json()["nodes"][0]["eps"], 0.5);
  node["per"] = "row";
  EXPECT_THAT(error_text(fit_standardizers(graph_with(node), data)),
              AllOf(HasSubstr("nodes[0]"), HasSubstr("row"), HasSubstr("channel")));
}

TEST(FitStandardizers, RefusesANodeElsewhere) {
  Json graph = graph_with({{"id", "relu"}, {"op", "relu"}});
  graph["nodes"][1] = kUnfitted;
  EXPECT_THAT(error_text(fit_standardizers(graph, data_of({2}, {1, 2}))),
              AllOf(HasSubstr("nodes[1]"), HasSubstr("directly behind")));
  graph["nodes"][1]["inputs"] = {"relu"};
  EXPECT_FALSE(fit_standardizers(graph, data_of({2}, {1, 2})));
  graph["nodes"][1]["inputs"] = {"input"};
  EXPECT_TRUE(fit_standardizers(graph, data_of({2}, {1, 2})));
}

TEST(FitStandardizers, RefusesDataOfAnotherShapeOrNone) {
  EXPECT_THAT(error_text(fit_standardizers(graph_with(kUnfitted), data_of({3}, {1, 2, 3}))),
              AllOf(HasSubstr("[2]"), HasSubstr("[3]")));
  EXPECT_THAT(error_text(fit_standardizers(graph_with(kUnfitted), Dataset())),
              HasSubstr("no examples"));
}

TEST(FitStandardizers, LeavesEverythingElseAsItIs) {
  for (const char* text :
       {R"({"preset": "2nn"})", "3", "null", "[]", R"({"graph": 3})", R"({"graph": {"nodes": 3}})",
        R"({"nodes": [3, {"op": 3}, {"op": "standardize", "mean": [1]}]})",
        R"({"graph": {"input": [1], "nodes": [{"op": "relu"}]}})"}) {
    const Json model = *parse_json(text);
    const auto same = fit_standardizers(model, data_of({2}, {1, 2}));
    ASSERT_TRUE(same) << text << same.error().message;
    EXPECT_EQ(*same, model);
  }
  EXPECT_TRUE(fit_standardizers(*parse_json(R"({"input": [1], "nodes": [{"op": "standardize"}]})"),
                                data_of({2}, {1, 2})));
}

TEST(FillStandardizers, GivesTheMergedStateOfManyDevices) {
  const auto state = Standardizer::fit(data_of({2}, {1, 10, 3, 30}));
  const auto filled = fill_standardizers(graph_with(kUnfitted), *state);
  ASSERT_TRUE(filled) << filled.error().message;
  EXPECT_EQ((*filled)["nodes"][0]["mean"], (Json{2.0, 20.0}));
  EXPECT_TRUE(Graph::from_json(*filled));
}

}  // namespace
}  // namespace muster
