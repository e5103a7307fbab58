#include "core/aggregate/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Every method with all its fields, as to_json writes it.
std::vector<Json> every_method() {
  return {
      {{"method", "FedAvg"}},
      {{"method", "UniformMean"}},
      {{"method", "FedProx"}, {"mu", 0.25}},
      {{"method", "FedNova"}, {"tau_eff", "steps"}},
      {{"method", "q-FedAvg"}, {"q", 0.5}},
      {{"method", "FedAvgM"}, {"server_lr", 0.5}, {"momentum", 0.25}, {"nesterov", true}},
      {{"method", "FedAdagrad"}, {"server_lr", 0.5}, {"beta1", 0.25}, {"tau", 0.125}},
      {{"method", "FedAdam"}, {"server_lr", 0.5}, {"beta1", 0.25}, {"beta2", 0.75}, {"tau", 0.125}},
      {{"method", "FedYogi"}, {"server_lr", 0.5}, {"beta1", 0.25}, {"beta2", 0.75}, {"tau", 0.125}},
      {{"method", "SCAFFOLD"}, {"server_lr", 0.5}},
      {{"method", "FedDyn"}, {"alpha", 0.5}},
      {{"method", "Median"}},
      {{"method", "TrimmedMean"}, {"beta", 0.25}},
      {{"method", "Krum"}, {"f", 3}},
      {{"method", "MultiKrum"}, {"f", 3}, {"m", 4}},
      {{"method", "Bulyan"}, {"f", 3}},
      {{"method", "GeometricMedian"}, {"nu", 0.5}, {"max_iterations", 7}, {"tolerance", 0.5}},
      {{"method", "NormClipping"}, {"max_norm", 2.5}},
      {{"method", "NormFiltering"}, {"max_norm", 2.5}},
      {{"method", "FedBuff"},
       {"buffer_size", 3},
       {"server_lr", 0.5},
       {"staleness_exponent", 0.25},
       {"max_staleness", 7}},
      {{"method", "JsonMean"}}};
}

Result<AggregationSettings> read(const Json& json) {
  return aggregation_from_json(json, "strategy.aggregation");
}

TEST(AggregationSettings, RoundTripForEveryMethod) {
  EXPECT_EQ(every_method().size(), 21U);
  for (const Json& json : every_method()) {
    const auto settings = read(json);
    ASSERT_TRUE(settings.has_value()) << settings.error().message;
    EXPECT_EQ(to_json(*settings), json);
    EXPECT_EQ(method_name(*settings), json.at("method").get<std::string>());
  }
}

TEST(AggregationSettings, HaveTheDefaultsOfTheDocumentation) {
  const auto with_defaults = [](const Json& json) { return to_json(*read(json)); };
  EXPECT_EQ(with_defaults({{"method", "FedNova"}}),
            (Json{{"method", "FedNova"}, {"tau_eff", "a_norm"}}));
  EXPECT_EQ(
      with_defaults({{"method", "FedAvgM"}}),
      (Json{{"method", "FedAvgM"}, {"server_lr", 1.0}, {"momentum", 0.9}, {"nesterov", false}}));
  EXPECT_EQ(with_defaults({{"method", "FedAdagrad"}}),
            (Json{{"method", "FedAdagrad"}, {"server_lr", 0.1}, {"beta1", 0.0}, {"tau", 1e-3}}));
  for (const char* method : {"FedAdam", "FedYogi"}) {
    EXPECT_EQ(with_defaults({{"method", method}}), (Json{{"method", method},
                                                         {"server_lr", 0.1},
                                                         {"beta1", 0.9},
                                                         {"beta2", 0.99},
                                                         {"tau", 1e-3}}));
  }
  EXPECT_EQ(with_defaults({{"method", "FedBuff"}, {"buffer_size", 10}}),
            (Json{{"method", "FedBuff"},
                  {"buffer_size", 10},
                  {"server_lr", 1.0},
                  {"staleness_exponent", 0.5},
                  {"max_staleness", 10}}));
}

// One field at a time of a sound object.
void expect_refused(const std::string& method, const std::string& field, const Json& value) {
  for (Json json : every_method()) {
    if (json.at("method") != method) continue;
    json[field] = value;
    const auto settings = read(json);
    ASSERT_FALSE(settings.has_value()) << json;
    EXPECT_EQ(settings.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(settings.error().reason, "bad_field");
    EXPECT_THAT(settings.error().message, HasSubstr("strategy.aggregation." + field));
    return;
  }
  FAIL() << "no method " << method;
}

TEST(AggregationSettings, RefuseNumbersThatAreNotOverZero) {
  for (const auto& [method, field] :
       std::vector<std::pair<std::string, std::string>>{{"FedAvgM", "server_lr"},
                                                        {"FedAdagrad", "server_lr"},
                                                        {"FedAdam", "server_lr"},
                                                        {"FedYogi", "server_lr"},
                                                        {"FedAdagrad", "tau"},
                                                        {"FedAdam", "tau"},
                                                        {"FedYogi", "tau"},
                                                        {"SCAFFOLD", "server_lr"},
                                                        {"FedDyn", "alpha"},
                                                        {"GeometricMedian", "nu"},
                                                        {"NormClipping", "max_norm"},
                                                        {"NormFiltering", "max_norm"},
                                                        {"FedBuff", "server_lr"}}) {
    SCOPED_TRACE(method + "." + field);
    for (const double value : {0.0, -0.0, -1.0, 2e30}) expect_refused(method, field, value);
    expect_refused(method, field, "1");
    expect_refused(method, field, nullptr);
  }
}

TEST(AggregationSettings, RefuseNumbersOutsideOfTheirRange) {
  const auto refuse = [](const std::string& method, const std::string& field,
                         std::initializer_list<double> values) {
    SCOPED_TRACE(method + "." + field);
    for (const double value : values) expect_refused(method, field, value);
  };
  refuse("FedProx", "mu", {-0.01, 1.1e6});
  refuse("q-FedAvg", "q", {-1.0, 100.5});
  refuse("FedAvgM", "momentum", {-0.1, 1.0, 1.5});
  for (const char* method : {"FedAdagrad", "FedAdam", "FedYogi"}) {
    refuse(method, "beta1", {-0.1, 1.0, 1.5});
  }
  for (const char* method : {"FedAdam", "FedYogi"}) refuse(method, "beta2", {-0.1, 1.0, 1.5});
  refuse("TrimmedMean", "beta", {-0.1, 0.5, 0.75});
  refuse("GeometricMedian", "tolerance", {-0.1, 1.1});
  refuse("FedBuff", "staleness_exponent", {-0.1, 10.1});
}

TEST(AggregationSettings, RefuseCountsOutsideOfTheirRange) {
  const auto refuse = [](const std::string& method, const std::string& field,
                         std::initializer_list<std::int64_t> values) {
    SCOPED_TRACE(method + "." + field);
    for (const std::int64_t value : values) expect_refused(method, field, value);
    expect_refused(method, field, 2.5);
  };
  for (const char* method : {"Krum", "MultiKrum", "Bulyan"}) refuse(method, "f", {-1, 1'000'001});
  refuse("MultiKrum", "m", {-1, 0, 1'000'001});
  refuse("GeometricMedian", "max_iterations", {-1, 0, 10'001});
  refuse("FedBuff", "buffer_size", {-1, 0, 1'000'001});
  refuse("FedBuff", "max_staleness", {-1, 1'001});
}

TEST(AggregationSettings, RefuseInfinityThatATextSpells) {
  const auto json = parse_json(R"({"method": "FedProx", "mu": 1e400})");
  EXPECT_FALSE(json.has_value());  // no number of JSON is infinite or NaN
  Json made{{"method", "FedProx"}, {"mu", std::numeric_limits<double>::infinity()}};
  EXPECT_FALSE(read(made).has_value());
  made["mu"] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(read(made).has_value());
}

TEST(AggregationSettings, RefuseOtherChoicesAndTypes) {
  expect_refused("FedNova", "tau_eff", "norm");
  expect_refused("FedNova", "tau_eff", 1);
  expect_refused("FedAvgM", "nesterov", 1);
  EXPECT_FALSE(read(Json::array()).has_value());
  EXPECT_FALSE(read(Json::object()).has_value());
}

TEST(AggregationSettings, RefuseMissingFields) {
  for (const auto& [method, field] :
       std::vector<std::pair<std::string, std::string>>{{"FedProx", "mu"},
                                                        {"FedDyn", "alpha"},
                                                        {"TrimmedMean", "beta"},
                                                        {"Krum", "f"},
                                                        {"Bulyan", "f"},
                                                        {"NormClipping", "max_norm"},
                                                        {"NormFiltering", "max_norm"},
                                                        {"FedBuff", "buffer_size"}}) {
    const auto settings = read({{"method", method}});
    ASSERT_FALSE(settings.has_value()) << method;
    EXPECT_THAT(settings.error().message, AllOf(HasSubstr(field), HasSubstr("missing")));
  }
  const auto krum = read({{"method", "MultiKrum"}, {"f", 1}});
  EXPECT_THAT(krum.error().message, AllOf(HasSubstr(".m"), HasSubstr("missing")));
}

TEST(AggregationSettings, RefuseUnknownFieldsListingTheKnownOnes) {
  for (const Json& method : every_method()) {
    Json json = method;
    json["extra"] = 1;
    const auto settings = read(json);
    ASSERT_FALSE(settings.has_value()) << json;
    EXPECT_THAT(settings.error().message, AllOf(HasSubstr("extra"), HasSubstr("method")));
    for (const auto& [key, unused] : method.items()) {
      EXPECT_THAT(settings.error().message, HasSubstr(key));
    }
  }
  // FedAdagrad has no second decay.
  expect_refused("FedAdagrad", "beta2", 0.5);
}

TEST(AggregationSettings, RefuseUnknownMethodsListingTheKnownOnes) {
  const auto settings = read({{"method", "FedAvgg"}, {"mu", 1}});
  ASSERT_FALSE(settings.has_value());
  EXPECT_THAT(settings.error().message, HasSubstr("did you mean \"FedAvg"));
  for (const Json& method : every_method()) {
    EXPECT_THAT(settings.error().message, HasSubstr(method.at("method").get<std::string>()));
  }
  EXPECT_FALSE(read({{"method", "fedavg"}}).has_value());
}

TEST(AggregationSettings, AreDescribedInOneLine) {
  EXPECT_EQ(describe(FedAvg{}), "FedAvg");
  EXPECT_EQ(describe(FedProx{0.01}), "FedProx(mu=0.01)");
  EXPECT_EQ(describe(MultiKrum{2, 5}), "MultiKrum(f=2, m=5)");
  EXPECT_EQ(describe(FedNova{}), "FedNova(tau_eff=a_norm)");
  EXPECT_EQ(describe(FedAvgM{}), "FedAvgM(momentum=0.9, nesterov=false, server_lr=1)");
}

TEST(CheckContributors, NamesNumberParametersAndBound) {
  const auto expect_bound = [](const AggregationSettings& settings, std::int64_t fewest,
                               const std::string& words) {
    EXPECT_EQ(fewest_contributors(settings), fewest);
    EXPECT_TRUE(check_contributors(settings, fewest).has_value());
    EXPECT_TRUE(check_contributors(settings, fewest + 1000).has_value());
    const auto status = check_contributors(settings, fewest - 1);
    ASSERT_FALSE(status.has_value());
    EXPECT_EQ(status.error().code, ErrorCode::kFailedPrecondition);
    EXPECT_EQ(status.error().reason, "insufficient_for_rule");
    EXPECT_THAT(status.error().message,
                AllOf(HasSubstr(std::to_string(fewest - 1) + " contributors"), HasSubstr(words)));
  };
  expect_bound(Krum{0}, 3, "2f + 3 = 3 with f = 0");
  expect_bound(Krum{2}, 7, "2f + 3 = 7 with f = 2");
  expect_bound(MultiKrum{2, 5}, 7, "2f + 3 = 7 with f = 2");
  expect_bound(MultiKrum{1, 9}, 9, "m = 9");
  expect_bound(Bulyan{1}, 7, "4f + 3 = 7 with f = 1");
  expect_bound(Bulyan{1'000'000}, 4'000'003, "f = 1000000");
  expect_bound(Median{}, 1, "1");
  expect_bound(TrimmedMean{0.49}, 1, "1");
  expect_bound(FedAvg{}, 1, "1");
}

}  // namespace
}  // namespace muster
