#include "core/strategy/population/search_space.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

constexpr int kSamples = 20'000;

std::vector<double> sorted_samples(const Distribution& distribution, int count = kSamples) {
  Random random(5);
  std::vector<double> values;
  for (int i = 0; i < count; ++i) values.push_back(sample(distribution, random));
  std::sort(values.begin(), values.end());
  return values;
}

double quantile(const std::vector<double>& sorted, double share) {
  return sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size()))];
}

std::string refusal(const std::string& text) {
  const auto space = search_space_from_json(*parse_json(text), "job.strategy.search_space");
  if (space) return "taken";
  EXPECT_EQ(space.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(space.error().message, HasSubstr("job.strategy.search_space"));
  return space.error().message;
}

// What a value becomes, over many seeds.
std::set<double> perturbed(const Distribution& distribution, double value, double factor) {
  std::set<double> results;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Random random(seed);
    results.insert(perturb(distribution, value, factor, random));
  }
  return results;
}

TEST(Sampling, UniformSpreadsEvenlyOverItsRange) {
  const auto values = sorted_samples(Uniform{.low = -2, .high = 6});
  EXPECT_GE(values.front(), -2);
  EXPECT_LE(values.back(), 6);
  for (const double share : {0.1, 0.25, 0.5, 0.75, 0.9}) {
    EXPECT_NEAR(quantile(values, share), -2 + 8 * share, 0.12);
  }
}

TEST(Sampling, LogUniformHasTheGeometricMeanAsMedianAndEqualDecades) {
  const auto values = sorted_samples(LogUniform{.low = 1e-5, .high = 10});
  EXPECT_GE(values.front(), 1e-5);
  EXPECT_LE(values.back(), 10);
  EXPECT_NEAR(std::log10(quantile(values, 0.5)), -2, 0.08);
  for (int decade = -5; decade < 1; ++decade) {
    const auto count = std::ranges::count_if(values, [&](double value) {
      return std::floor(std::log10(value)) == static_cast<double>(decade);
    });
    EXPECT_NEAR(static_cast<double>(count) / kSamples, 1.0 / 6, 0.012) << "10^" << decade;
  }
}

TEST(Sampling, IntegersIncludeBothEndsEquallyOften) {
  const auto values = sorted_samples(IntegerRange{.low = -1, .high = 3});
  for (const double value : {-1.0, 0.0, 1.0, 2.0, 3.0}) {
    EXPECT_NEAR(static_cast<double>(std::ranges::count(values, value)) / kSamples, 0.2, 0.015);
  }
}

TEST(Sampling, ChoicesAreEquallyOften) {
  const auto values = sorted_samples(Choice{{0.5, -3, 8}});
  for (const double value : {0.5, -3.0, 8.0}) {
    EXPECT_NEAR(static_cast<double>(std::ranges::count(values, value)) / kSamples, 1.0 / 3, 0.015);
  }
}

TEST(Sampling, RangesOfOneValueGiveIt) {
  EXPECT_EQ(sorted_samples(Uniform{.low = 0.3, .high = 0.3}, 10).back(), 0.3);
  EXPECT_EQ(sorted_samples(LogUniform{.low = 0.3, .high = 0.3}, 10).front(), 0.3);
  EXPECT_EQ(sorted_samples(IntegerRange{.low = 7, .high = 7}, 10).front(), 7);
  EXPECT_EQ(sorted_samples(Choice{{4}}, 10).front(), 4);
}

TEST(Sampling, StaysInTheWidestRanges) {
  const auto integers =
      sorted_samples(IntegerRange{.low = -(std::int64_t{1} << 53), .high = std::int64_t{1} << 53});
  EXPECT_LT(integers.front(), -0x1p52);
  EXPECT_GT(integers.back(), 0x1p52);
  const auto rates = sorted_samples(LogUniform{.low = 1e-300, .high = 1e30});
  EXPECT_GE(rates.front(), 1e-300);
  EXPECT_LE(rates.back(), 1e30);
}

TEST(Sampling, DrawsEveryEntryOfTheSpaceFixedByTheSeed) {
  const SearchSpace space = {{"lr", LogUniform{.low = 1e-3, .high = 1}},
                             {"momentum", Uniform{}},
                             {"batch_size", IntegerRange{.low = 1, .high = 1'000'000}}};
  Random random(3);
  Random same(3);
  Random other(4);
  const Hyperparameters first = sample(space, random);
  EXPECT_EQ(first.size(), 3U);
  EXPECT_EQ(first, sample(space, same));
  EXPECT_NE(first, sample(space, other));
}

TEST(Perturbing, MultipliesOrDividesWithEqualChance) {
  EXPECT_THAT(perturbed(Uniform{.low = 0, .high = 10}, 3, 2), UnorderedElementsAre(1.5, 6));
  EXPECT_THAT(perturbed(LogUniform{.low = 1e-3, .high = 10}, 1, 4), UnorderedElementsAre(0.25, 4));
  Random random(9);
  int ups = 0;
  for (int i = 0; i < kSamples; ++i) {
    ups += perturb(Uniform{.low = 0, .high = 10}, 3, 2, random) == 6 ? 1 : 0;
  }
  EXPECT_NEAR(static_cast<double>(ups) / kSamples, 0.5, 0.015);
}

TEST(Perturbing, KeepsWithinTheRange) {
  EXPECT_THAT(perturbed(Uniform{.low = 2, .high = 4}, 3, 2), UnorderedElementsAre(2, 4));
  EXPECT_THAT(perturbed(LogUniform{.low = 0.5, .high = 2}, 1, 100), UnorderedElementsAre(0.5, 2));
  EXPECT_THAT(perturbed(IntegerRange{.low = 8, .high = 12}, 10, 2), UnorderedElementsAre(8, 12));
}

TEST(Perturbing, RoundsIntegersAndMovesThemByAtLeastOne) {
  const IntegerRange range{.low = -50, .high = 200};
  EXPECT_THAT(perturbed(range, 10, 1.2), UnorderedElementsAre(8, 12));
  EXPECT_THAT(perturbed(range, 100, 1.1), UnorderedElementsAre(91, 110));
  EXPECT_THAT(perturbed(range, 2, 1.2), UnorderedElementsAre(1, 3));
  EXPECT_THAT(perturbed(range, 0, 1.2), UnorderedElementsAre(-1, 1));
  EXPECT_THAT(perturbed(range, -2, 1.2), UnorderedElementsAre(-3, -1));
  EXPECT_THAT(perturbed(IntegerRange{.low = 1, .high = 9}, 1, 1.2), UnorderedElementsAre(1, 2));
}

TEST(Perturbing, MovesAChoiceToANeighbourInTheList) {
  const Choice choice{{8, 1, 64, 2}};
  EXPECT_THAT(perturbed(choice, 1, 1.2), UnorderedElementsAre(8, 64));
  EXPECT_THAT(perturbed(choice, 8, 1.2), UnorderedElementsAre(8, 1));
  EXPECT_THAT(perturbed(choice, 2, 1.2), UnorderedElementsAre(64, 2));
  EXPECT_THAT(perturbed(Choice{{5}}, 5, 1.2), UnorderedElementsAre(5));
}

TEST(SearchSpaceJson, ReadsBackWhatItWrites) {
  const Json json = *parse_json(R"({
      "optimizer.lr": {"type": "log_uniform", "low": 0.001, "high": 1.0},
      "optimizer.momentum": {"type": "uniform", "low": 0.0, "high": 0.99},
      "batch_size": {"type": "integer", "low": 8, "high": 128},
      "optimizer.weight_decay": {"type": "choice", "values": [0.0, 0.0001, 0.001]}})");
  const auto space = search_space_from_json(json, "x");
  ASSERT_TRUE(space) << space.error().message;
  EXPECT_EQ(space->size(), 4U);
  EXPECT_EQ(std::get<LogUniform>(space->at("optimizer.lr")).low, 0.001);
  EXPECT_EQ(std::get<Uniform>(space->at("optimizer.momentum")).high, 0.99);
  EXPECT_EQ(std::get<IntegerRange>(space->at("batch_size")).high, 128);
  EXPECT_EQ(std::get<Choice>(space->at("optimizer.weight_decay")).values.size(), 3U);
  EXPECT_EQ(to_json(*space), json);
}

TEST(SearchSpaceJson, RefusesEachBadEntryByName) {
  const auto entry = [](const std::string& description) {
    return refusal(R"({"optimizer.lr": )" + description + "}");
  };
  const std::string name = "optimizer.lr";
  EXPECT_THAT(entry(R"({"type": "uniform", "low": 2, "high": 1})"),
              AllOf(HasSubstr(name), HasSubstr("low"), HasSubstr("2"), HasSubstr("1")));
  EXPECT_THAT(entry(R"({"type": "log_uniform", "low": 2, "high": 1})"), HasSubstr("low"));
  EXPECT_THAT(entry(R"({"type": "integer", "low": 2, "high": 1})"), HasSubstr("low"));
  EXPECT_THAT(entry(R"({"type": "log_uniform", "low": 0, "high": 1})"), HasSubstr("low"));
  EXPECT_THAT(entry(R"({"type": "log_uniform", "low": -1, "high": 1})"), HasSubstr("low"));
  EXPECT_THAT(entry(R"({"type": "integer", "low": 0.5, "high": 1})"), HasSubstr("low"));
  EXPECT_THAT(entry(R"({"type": "integer", "low": 0, "high": 9007199254740993})"),
              HasSubstr("high"));
  EXPECT_THAT(entry(R"({"type": "uniform", "low": 0, "high": 1e31})"), HasSubstr("high"));
  EXPECT_THAT(entry(R"({"type": "uniform", "low": 0})"), HasSubstr("high"));
  EXPECT_THAT(entry(R"({"type": "uniform", "low": 0, "high": 1, "step": 1})"), HasSubstr("step"));
  EXPECT_THAT(entry(R"({"type": "normal", "low": 0, "high": 1})"),
              AllOf(HasSubstr("normal"), HasSubstr("uniform"), HasSubstr("log_uniform"),
                    HasSubstr("integer"), HasSubstr("choice")));
  EXPECT_THAT(entry(R"({"low": 0, "high": 1})"), HasSubstr("type"));
  EXPECT_THAT(entry("0.1"), HasSubstr(name));
  for (const char* values : {"[]", "0.1", R"(["a"])", "[null]", "[1, 1]", "[1e31]", "[[1]]"}) {
    EXPECT_THAT(entry(std::string(R"({"type": "choice", "values": )") + values + "}"),
                AllOf(HasSubstr(name), HasSubstr("values")));
  }
  Json many = Json::array();
  for (int i = 0; i < 1001; ++i) many.push_back(i);
  EXPECT_THAT(entry(Json{{"type", "choice"}, {"values", many}}.dump()), HasSubstr("1000"));
  many.erase(many.begin());
  EXPECT_EQ(entry(Json{{"type", "choice"}, {"values", many}}.dump()), "taken");
}

TEST(SearchSpaceJson, RefusesPathsThatAreNoneAndSpacesOfNoneOrTooMany) {
  const std::string any = R"({"type": "uniform", "low": 0, "high": 1})";
  for (const char* path : {"", ".", "a.", ".a", "a..b", "a b", "a/b", "$"}) {
    EXPECT_THAT(refusal("{\"" + std::string(path) + "\": " + any + "}"), HasSubstr("path"));
  }
  EXPECT_THAT(refusal("{}"), HasSubstr("0 hyperparameters"));
  EXPECT_THAT(refusal("[]"), HasSubstr("object"));
  Json space = Json::object();
  for (int i = 0; i < 64; ++i) space["h" + std::to_string(i)] = *parse_json(any);
  EXPECT_EQ(refusal(space.dump()), "taken");
  space["one_more"] = *parse_json(any);
  EXPECT_THAT(refusal(space.dump()), HasSubstr("65 hyperparameters"));
}

TEST(WithHyperparameters, PutsValuesWhereThePathsLead) {
  const Json local = *parse_json(
      R"({"epochs": 1, "batch_size": 10, "optimizer": {"type": "sgd", "lr": 0.05, "momentum": 0}})");
  const auto result = with_hyperparameters(
      local, {{"optimizer.lr", 0.25}, {"batch_size", 32}, {"optimizer.momentum", 0.9}});
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(*result, *parse_json(R"({"epochs": 1, "batch_size": 32,
      "optimizer": {"type": "sgd", "lr": 0.25, "momentum": 0.9}})"));
  EXPECT_TRUE(result->at("batch_size").is_number_integer());  // what reads it wants an integer
  EXPECT_TRUE(with_hyperparameters(local, {{"optimizer.lr", 1}})
                  ->at("optimizer")
                  .at("lr")
                  .is_number_float());
}

TEST(WithHyperparameters, RefusesAPathToNothingOrToWhatIsNoNumber) {
  const Json local =
      *parse_json(R"({"batch_size": 10, "optimizer": {"type": "sgd"}, "shuffle": true})");
  for (const char* path : {"lr", "optimizer.lr", "batch_size.of", "optimizer.type.x", "optimizer",
                           "optimizer.type", "shuffle"}) {
    const auto result = with_hyperparameters(local, {{path, 1}});
    ASSERT_FALSE(result) << path;
    EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(result.error().message, HasSubstr(path));
  }
}

}  // namespace
}  // namespace muster
