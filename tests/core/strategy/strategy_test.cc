#include "core/strategy/strategy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster {
namespace {

using ::testing::HasSubstr;

Result<TrainingStrategy> read(const std::string& text) {
  return strategy_from_json(Json::parse(text), "job.strategy");
}

std::string refusal(const std::string& text) {
  const auto strategy = read(text);
  EXPECT_FALSE(strategy.has_value()) << text;
  return strategy ? "" : strategy.error().message;
}

TEST(Strategy, ReadsBackWhatItWrites) {
  for (const char* text : {R"({"type": "Federated", "num_clients": 10, "rounds": 20,
            "aggregation": {"method": "FedProx", "mu": 0.01},
            "client_selection": {"method": "Random", "fraction": 0.5}})",
                           R"({"type": "Federated", "num_clients": 1000000, "rounds": 1000000,
            "aggregation": {"method": "FedAvg"},
            "client_selection": {"method": "ByCapability", "required_tags": ["gpu"]}})"}) {
    const auto strategy = read(text);
    ASSERT_TRUE(strategy.has_value()) << strategy.error().message;
    EXPECT_EQ(to_json(*strategy), Json::parse(text));
  }
}

TEST(Strategy, EveryTypeReadsBackWhatItWrites) {
  for (const char* text :
       {R"({"type": "Local"})",
        R"({"type": "DataParallel", "num_replicas": 3, "min_replicas": 2, "shares": [1, 2, 3],
            "aggregation": {"method": "AllReduce"}})",
        R"({"type": "DataParallel", "num_replicas": 3, "min_replicas": 3,
            "aggregation": {"method": "ParameterServer", "max_staleness": 4}})",
        R"({"type": "DataParallel", "num_replicas": 3, "min_replicas": 1,
            "aggregation": {"method": "Decentralized", "topology": "star"}})",
        R"({"type": "ModelParallel", "communication": {"method": "DataStore"},
            "partitions": [{"node_ids": ["a", "b"], "target": "gpu"}]})",
        R"({"type": "ModelParallel", "communication": {"method": "Direct"},
            "partitions": [{"node_ids": ["a"], "target": "x"}, {"node_ids": ["b"], "target": "y"}]})",
        R"({"type": "ModelParallel", "partitions": [{"node_ids": ["a"], "target": "x"}],
            "communication": {"method": "Pipeline", "micro_batch_size": 4, "schedule": "1F1B"}})",
        R"({"type": "PopulationBased", "population_size": 8, "generations": 10, "steps": 100,
            "min_workers": 2, "search_space": {"optimizer.lr": {"type": "uniform", "low": 0.0,
            "high": 1.0}},
            "exploit": {"method": "Truncation", "fraction": 0.25, "copy_hyperparameters": true},
            "explore": {"method": "Perturbation", "factor": 1.5}})",
        R"({"type": "Custom", "coordinator": "swarm", "config": {"any": ["thing", 1, null]}})"}) {
    const auto strategy = read(text);
    ASSERT_TRUE(strategy.has_value()) << strategy.error().message;
    EXPECT_EQ(to_json(*strategy), Json::parse(text));
    EXPECT_EQ(type_of(*strategy), Json::parse(text)["type"].get<std::string>());
  }
}

TEST(Strategy, FieldsThatATypeDoesNotHaveAreRefused) {
  EXPECT_THAT(refusal(R"({"type": "Local", "num_replicas": 2})"), HasSubstr("num_replicas"));
  EXPECT_THAT(refusal(R"({"type": "Custom", "coordinator": "swarm", "rounds": 2})"),
              HasSubstr("rounds"));
  EXPECT_THAT(refusal(R"({"type": "Custom", "coordinator": ""})"), HasSubstr("coordinator"));
  EXPECT_THAT(refusal(R"({"type": "Custom"})"), HasSubstr("coordinator"));
}

TEST(Strategy, DefaultsAreFedAvgOverAllClients) {
  const auto strategy = read(R"({"type": "Federated", "num_clients": 3, "rounds": 2})");
  ASSERT_TRUE(strategy.has_value()) << strategy.error().message;
  EXPECT_EQ(to_json(*strategy), Json::parse(R"({"type": "Federated", "num_clients": 3, "rounds": 2,
                            "aggregation": {"method": "FedAvg"},
                            "client_selection": {"method": "All"}})"));
}

TEST(Strategy, TypesThatThisBuildDoesNotHaveAreRefusedListingTheKnownOnes) {
  for (const char* type : {"AllReduce", "Population", "local", "federated", ""}) {
    const std::string message =
        refusal(std::string(R"({"type": ")") + type + R"(", "num_replicas": 4})");
    EXPECT_THAT(message,
                AllOf(HasSubstr("job.strategy.type"), HasSubstr("Local"), HasSubstr("DataParallel"),
                      HasSubstr("ModelParallel"), HasSubstr("Federated"),
                      HasSubstr("PopulationBased"), HasSubstr("Custom")));
    EXPECT_THAT(message, HasSubstr(type));
    EXPECT_THAT(message, Not(HasSubstr("num_replicas"))) << "the type is the point, not its fields";
  }
  EXPECT_THAT(refusal(R"({"num_clients": 3, "rounds": 2})"), HasSubstr("type"));
}

TEST(Strategy, UnknownAggregationsAndFieldsAreRefused) {
  const auto with = [](const std::string& aggregation) {
    return refusal(R"({"type": "Federated", "num_clients": 3, "rounds": 2, "aggregation": )" +
                   aggregation + "}");
  };
  EXPECT_THAT(with(R"({"method": "FedYogurt"})"),
              AllOf(HasSubstr("aggregation.method"), HasSubstr("FedAvg"), HasSubstr("FedProx")));
  EXPECT_THAT(with(R"({"method": "FedAvg", "mu": 0.1})"), HasSubstr("mu"));
  EXPECT_THAT(with(R"({"method": "FedProx"})"), HasSubstr("aggregation.mu"));
  EXPECT_THAT(with(R"({"method": "FedProx", "mu": -0.001})"), HasSubstr("aggregation.mu"));
  EXPECT_THAT(with(R"({"method": "FedProx", "mu": 1000001})"), HasSubstr("aggregation.mu"));
  EXPECT_THAT(with(R"({"method": "FedProx", "mu": "0.1"})"), HasSubstr("aggregation.mu"));
  EXPECT_THAT(with(R"("FedAvg")"), HasSubstr("aggregation"));
  EXPECT_THAT(refusal(R"({"type": "Federated", "num_clients": 3, "rounds": 2, "fraction": 1})"),
              HasSubstr("fraction"));
}

TEST(Strategy, CountsOutOfRangeAreRefused) {
  for (const char* value : {"0", "-1", "1000001", "1.5", "\"3\"", "null"}) {
    EXPECT_THAT(
        refusal(std::string(R"({"type": "Federated", "rounds": 2, "num_clients": )") + value + "}"),
        HasSubstr("num_clients"));
    EXPECT_THAT(
        refusal(std::string(R"({"type": "Federated", "num_clients": 2, "rounds": )") + value + "}"),
        HasSubstr("rounds"));
  }
}

TEST(Strategy, DescribesAggregationsForTables) {
  EXPECT_EQ(describe(AggregationSettings{FedAvg{}}), "FedAvg");
  EXPECT_EQ(describe(AggregationSettings{FedProx{0.01}}), "FedProx(mu=0.01)");
  EXPECT_EQ(describe(AggregationSettings{FedProx{1}}), "FedProx(mu=1)");
}

}  // namespace
}  // namespace muster
