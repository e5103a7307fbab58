#include "core/strategy/job_checks.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "core/strategy/job.h"

// What an aggregation asks of the rest of its job: hostile-cases P-28 and A-09.
namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// A job over ten devices with this aggregation.
Json with(const std::string& aggregation, const std::string& more = "{}") {
  Json job =
      Json::parse(R"({"name": "a", "model": {"preset": "logistic", "input": [4], "classes": 3},
                             "strategy": {"type": "Federated", "num_clients": 10, "rounds": 2}})");
  job["strategy"]["aggregation"] = Json::parse(aggregation);
  job.merge_patch(Json::parse(more));
  return job;
}

std::string refusal(const Json& json) {
  const auto job = job_from_json(json);
  EXPECT_FALSE(job.has_value()) << json;
  if (job) return "";
  EXPECT_EQ(job.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(job.error().reason, "bad_job");
  return job.error().message;
}

JobDescription taken(const Json& json) {
  auto job = job_from_json(json);
  if (!job) throw std::runtime_error(job.error().message);
  // What is written with every default is the same job.
  const auto again = job_from_json(to_json(*job));
  EXPECT_TRUE(again.has_value()) << again.error().message;
  if (again) {
    EXPECT_EQ(to_json(*again), to_json(*job));
    EXPECT_EQ(again->local.mu, job->local.mu);
  }
  return *std::move(job);
}

TEST(JobChecks, EveryMethodIsTakenAndReadsBackTheSame) {
  for (const char* aggregation : {R"({"method": "FedAvg"})",
                                  R"({"method": "UniformMean"})",
                                  R"({"method": "FedProx", "mu": 0.01})",
                                  R"({"method": "FedNova"})",
                                  R"({"method": "FedNova", "tau_eff": "steps"})",
                                  R"({"method": "q-FedAvg", "q": 2})",
                                  R"({"method": "FedAvgM"})",
                                  R"({"method": "FedAdagrad"})",
                                  R"({"method": "FedAdam"})",
                                  R"({"method": "FedYogi", "tau": 0.1})",
                                  R"({"method": "SCAFFOLD"})",
                                  R"({"method": "FedDyn", "alpha": 0.1})",
                                  R"({"method": "Median"})",
                                  R"({"method": "TrimmedMean", "beta": 0.4})",
                                  R"({"method": "Krum", "f": 3})",
                                  R"({"method": "MultiKrum", "f": 2, "m": 10})",
                                  R"({"method": "Bulyan", "f": 1})",
                                  R"({"method": "GeometricMedian"})",
                                  R"({"method": "NormClipping", "max_norm": 1})",
                                  R"({"method": "NormFiltering", "max_norm": 1})",
                                  R"({"method": "FedBuff", "buffer_size": 4})"}) {
    const JobDescription job = taken(with(aggregation));
    EXPECT_EQ(job.round.asynchronous, std::string(aggregation).find("FedBuff") != std::string::npos)
        << aggregation;
  }
}

TEST(JobChecks, A09_ParametersThatSwitchTheRuleOffAreRefused) {
  for (const auto& [aggregation, field] : std::vector<std::pair<const char*, const char*>>{
           {R"({"method": "NormClipping", "max_norm": 0})", "max_norm"},
           {R"({"method": "NormClipping", "max_norm": -1})", "max_norm"},
           {R"({"method": "NormFiltering", "max_norm": 0})", "max_norm"},
           {R"({"method": "TrimmedMean", "beta": 0.5})", "beta"},
           {R"({"method": "TrimmedMean", "beta": -0.1})", "beta"},
           {R"({"method": "FedDyn", "alpha": 0})", "alpha"},
           {R"({"method": "MultiKrum", "f": 1, "m": 0})", "m"},
           {R"({"method": "Krum", "f": -1})", "f"},
           {R"({"method": "Krum"})", "f"},
           {R"({"method": "FedAdam", "beta1": 1})", "beta1"},
           {R"({"method": "FedAvgM", "server_lr": 0})", "server_lr"}}) {
    EXPECT_THAT(refusal(with(aggregation)),
                HasSubstr(std::string("job.strategy.aggregation.") + field));
  }
  EXPECT_THAT(refusal(with(R"({"method": "FedAvg"})", R"({"checks": {"max_examples": 0}})")),
              HasSubstr("job.checks.max_examples"));
  EXPECT_THAT(refusal(with(R"({"method": "FedAvg"})", R"({"checks": {"max_change_norm": -1}})")),
              HasSubstr("job.checks.max_change_norm"));
}

// A batch_norm's running variance that a server optimiser moves on may end below 0.
TEST(JobChecks, RulesThatGoFurtherThanTheUpdatesWantModelsWithoutStatistics) {
  const std::string with_statistics =
      R"({"model": {"preset": null, "input": null, "classes": null, "graph": {
      "input": {"shape": [4]}, "output": "out", "loss": {"type": "softmax_cross_entropy"},
      "nodes": [{"id": "fc", "op": "dense", "inputs": ["input"], "units": 3},
                {"id": "bn", "op": "batch_norm", "inputs": ["fc"]},
                {"id": "out", "op": "dense", "inputs": ["bn"], "units": 2}]}}})";
  for (const char* aggregation :
       {R"({"method": "FedAvgM"})", R"({"method": "FedAdam"})", R"({"method": "SCAFFOLD"})",
        R"({"method": "FedDyn", "alpha": 0.1})", R"({"method": "FedNova"})",
        R"({"method": "FedBuff", "buffer_size": 4})"}) {
    EXPECT_THAT(refusal(with(aggregation, with_statistics.c_str())),
                AllOf(HasSubstr("job.strategy.aggregation.method"), HasSubstr("6 values")));
  }
  for (const char* aggregation :
       {R"({"method": "FedAvg"})", R"({"method": "Median"})", R"({"method": "q-FedAvg"})",
        R"({"method": "NormClipping", "max_norm": 1})"}) {
    taken(with(aggregation, with_statistics.c_str()));
  }
}

// One device could else end every round: 1e22 squared is no float32.
TEST(JobChecks, RulesThatGoFurtherThanTheUpdatesLimitAChangeByDefault) {
  EXPECT_EQ(taken(with(R"({"method": "FedAdam"})")).checks.max_change_norm, 1e15);
  EXPECT_EQ(taken(with(R"({"method": "FedAvg"})")).checks.max_change_norm, 0);
  EXPECT_EQ(taken(with(R"({"method": "FedAdam"})", R"({"checks": {"max_change_norm": 0}})"))
                .checks.max_change_norm,
            0);
}

TEST(JobChecks, RulesOfPairsTakeAtMost2000Updates) {
  const char* more = R"({"strategy": {"num_clients": 2001}, "round": {"min_updates": 9}})";
  EXPECT_THAT(refusal(with(R"({"method": "Bulyan", "f": 1})", more)),
              AllOf(HasSubstr("job.round.target_updates: 2001"), HasSubstr("2000")));
  taken(with(R"({"method": "Bulyan", "f": 1})", R"({"strategy": {"num_clients": 2000}})"));
  taken(with(R"({"method": "Median"})", more));
}

TEST(JobChecks, P28_TheDefaultOfMinUpdatesIsWhatTheRuleNeeds) {
  EXPECT_EQ(taken(with(R"({"method": "FedAvg"})")).round.min_updates, 5);
  EXPECT_EQ(taken(with(R"({"method": "Krum", "f": 3})")).round.min_updates, 9);
  EXPECT_EQ(taken(with(R"({"method": "Bulyan", "f": 1})")).round.min_updates, 7);
  EXPECT_EQ(taken(with(R"({"method": "MultiKrum", "f": 1, "m": 8})")).round.min_updates, 8);
  EXPECT_EQ(taken(with(R"({"method": "Krum", "f": 0})")).round.min_updates, 5);
}

TEST(JobChecks, P28_FewerUpdatesThanTheRuleNeedsAreRefusedNamingBothNumbers) {
  EXPECT_THAT(
      refusal(with(R"({"method": "Krum", "f": 2})", R"({"round": {"min_updates": 6}})")),
      AllOf(HasSubstr("job.round.min_updates"), HasSubstr("6"), HasSubstr("7"), HasSubstr("Krum")));
  EXPECT_THAT(refusal(with(R"({"method": "MultiKrum", "f": 1, "m": 9})",
                           R"({"round": {"min_updates": 8}})")),
              AllOf(HasSubstr("job.round.min_updates"), HasSubstr("9")));
  EXPECT_THAT(refusal(with(R"({"method": "Bulyan", "f": 2})")),
              AllOf(HasSubstr("job.round.target_updates"), HasSubstr("11")));
  EXPECT_THAT(refusal(with(R"({"method": "Krum", "f": 2})", R"({"round": {"target_updates": 6}})")),
              AllOf(HasSubstr("job.round.target_updates"), HasSubstr("7")));
}

// What SCAFFOLD, FedNova and q-FedAvg do not take in "local", with the path of the field.
TEST(JobChecks, P28_RulesThatUndoLocalStepsWantPlainSgd) {
  const std::vector<std::pair<const char*, const char*>> refused = {
      {R"({"local": {"optimizer": {"type": "adam"}}})", "job.local.optimizer.type: adam"},
      {R"({"local": {"optimizer": {"type": "sgd", "lr": 0}}})", "job.local.optimizer.lr"},
      {R"({"local": {"optimizer": {"type": "sgd", "lr": 1e-31}}})", "job.local.optimizer.lr"},
      {R"({"local": {"schedule": {"type": "cosine"}}})", "job.local.schedule.type: cosine"},
      {R"({"local": {"schedule": {"type": "step", "step_size": 5}}})",
       "job.local.schedule.type: step"},
      {R"({"local": {"schedule": {"warmup_steps": 3}}})", "job.local.schedule.warmup_steps"},
      {R"({"local": {"clip_norm": 1}})", "job.local.clip_norm"}};
  for (const char* aggregation :
       {R"({"method": "SCAFFOLD"})", R"({"method": "FedNova"})", R"({"method": "q-FedAvg"})"}) {
    for (const auto& [local, path] : refused) {
      EXPECT_THAT(refusal(with(aggregation, local)), HasSubstr(path)) << aggregation;
    }
    taken(with(aggregation, R"({"local": {"optimizer": {"type": "sgd", "weight_decay": 0.1}}})"));
  }
  for (const auto& [local, path] : refused) taken(with(R"({"method": "FedAdam"})", local));
}

TEST(JobChecks, P28_MomentumOnlyWhereTheFormulaHasIt) {
  const std::string momentum = R"({"local": {"optimizer": {"type": "sgd", "momentum": 0.9}}})";
  EXPECT_THAT(refusal(with(R"({"method": "SCAFFOLD"})", momentum)),
              HasSubstr("job.local.optimizer.momentum"));
  taken(with(R"({"method": "FedNova"})", momentum));
  taken(with(R"({"method": "q-FedAvg"})", momentum));
  EXPECT_THAT(
      refusal(
          with(R"({"method": "FedNova"})",
               R"({"local": {"optimizer": {"type": "sgd", "momentum": 0.9, "nesterov": true}}})")),
      HasSubstr("job.local.optimizer.nesterov"));
  EXPECT_THAT(
      refusal(
          with(R"({"method": "FedNova"})",
               R"({"local": {"optimizer": {"type": "sgd", "momentum": 0.9, "dampening": 0.1}}})")),
      HasSubstr("job.local.optimizer.dampening"));
}

TEST(JobChecks, FedDynTrainsWithItsProximalTermAndFedProxWithItsOwn) {
  EXPECT_EQ(taken(with(R"({"method": "FedDyn", "alpha": 0.25})")).local.mu, 0.25);
  EXPECT_EQ(taken(with(R"({"method": "FedProx", "mu": 0.5})")).local.mu, 0.5);
  EXPECT_EQ(taken(with(R"({"method": "FedAvg"})")).local.mu, 0);
}

TEST(JobChecks, FedBuffMakesRoundsOfItsBufferAndSendsChanges) {
  const JobDescription job = taken(with(R"({"method": "FedBuff", "buffer_size": 4})"));
  EXPECT_TRUE(job.round.asynchronous);
  EXPECT_EQ(job.round.target_updates, 4);
  EXPECT_EQ(job.round.min_updates, 2);
  EXPECT_EQ(job.encoding.content, UpdateContent::kDelta);
  EXPECT_EQ(taken(with(R"({"method": "FedBuff", "buffer_size": 4})",
                       R"({"encoding": {"format": "float16"}})"))
                .encoding.content,
            UpdateContent::kDelta);
  taken(with(R"({"method": "FedBuff", "buffer_size": 4})",
             R"({"round": {"target_updates": 4, "over_selection": 1},
                 "encoding": {"format": "int8", "content": "delta"}})"));
  EXPECT_FALSE(taken(with(R"({"method": "FedAvg"})")).round.asynchronous);
}

TEST(JobChecks, P28_WhatABufferCannotHaveIsRefused) {
  const auto fedbuff = [](const std::string& more, int size = 4) {
    return refusal(with(fmt::format(R"({{"method": "FedBuff", "buffer_size": {}}})", size), more));
  };
  EXPECT_THAT(fedbuff(R"({"encoding": {"format": "float32", "content": "state"}})"),
              AllOf(HasSubstr("job.encoding.content"), HasSubstr("delta")));
  EXPECT_THAT(fedbuff(R"({"round": {"target_updates": 5}})"),
              AllOf(HasSubstr("job.round.target_updates"), HasSubstr("5"), HasSubstr("4")));
  EXPECT_THAT(fedbuff(R"({"round": {"over_selection": 1.5}})"),
              HasSubstr("job.round.over_selection"));
  EXPECT_THAT(fedbuff("{}", 11), AllOf(HasSubstr("job.round.target_updates"), HasSubstr("11"),
                                       HasSubstr("num_clients")));
  EXPECT_THAT(
      fedbuff(R"({"strategy": {"client_selection": {"method": "Random", "fraction": 0.5}}})"),
      HasSubstr("job.strategy.client_selection.method"));
  taken(with(R"({"method": "FedBuff", "buffer_size": 4})",
             R"({"strategy": {"client_selection": {"method": "ByCapability",
                                                   "required_tags": ["gpu"]}}})"));
}

TEST(JobChecks, EveryEncodingGoesWithEveryRule) {
  for (const char* aggregation :
       {R"({"method": "FedAvg"})", R"({"method": "SCAFFOLD"})", R"({"method": "Krum", "f": 1})",
        R"({"method": "FedBuff", "buffer_size": 2})"}) {
    for (const char* encoding :
         {R"({"format": "int8"})", R"({"format": "top_k", "fraction": 0.01})",
          R"({"format": "bfloat16", "compression": "zstd", "level": 5})"}) {
      taken(with(aggregation, fmt::format(R"({{"encoding": {}}})", encoding)));
    }
  }
  EXPECT_THAT(refusal(with(R"({"method": "FedAvg"})", R"({"encoding": {"format": "top_k"}})")),
              HasSubstr("job.encoding.fraction"));
  EXPECT_THAT(refusal(with(R"({"method": "FedAvg"})", R"({"encoding": {"format": "int4"}})")),
              HasSubstr("job.encoding.format"));
}

// A job over ten devices whose model is JSON.
Json json_job(const std::string& more = "{}") {
  Json job = Json::parse(
      R"({"name": "a", "model": {"json": {"centres": [[0.5, 1], [2.5, 3]], "kind": "k-means"}},
          "strategy": {"type": "Federated", "num_clients": 10, "rounds": 2,
                       "aggregation": {"method": "JsonMean"}}})");
  job.merge_patch(Json::parse(more));
  return job;
}

TEST(JobChecks, AJsonStateGoesWithJsonMeanAndIsNotEvaluatedUnlessAsked) {
  const JobDescription job = taken(json_job());
  EXPECT_FALSE(job.evaluation.federated);
  EXPECT_TRUE(taken(json_job(R"({"evaluation": {"federated": true}})")).evaluation.federated);
  taken(json_job(R"({"encoding": {"format": "float32", "compression": "zstd"}})"));
  Json statistics = json_job();
  statistics["model"] = {{"statistics", {{"features", 4}, {"classes", 3}}}};
  taken(statistics);
  EXPECT_TRUE(taken(with(R"({"method": "FedAvg"})")).evaluation.federated);
}

TEST(JobChecks, P28_AJsonStateUnderAnotherRuleAndAGraphUnderJsonMeanAreRefusedNamingBoth) {
  for (const char* method : {"FedAvg", "Median", "SCAFFOLD"}) {
    Json job = json_job();
    job["strategy"]["aggregation"] = {{"method", method}};
    EXPECT_THAT(refusal(job),
                AllOf(HasSubstr("job.strategy.aggregation.method: " + std::string(method)),
                      HasSubstr("job.model"), HasSubstr("JsonMean")));
  }
  EXPECT_THAT(refusal(with(R"({"method": "JsonMean"})")),
              AllOf(HasSubstr("job.strategy.aggregation.method: JsonMean"), HasSubstr("job.model"),
                    HasSubstr("\"json\"")));
}

TEST(JobChecks, P28_WhatAJsonStateCannotHaveIsRefusedWithItsPath) {
  for (const auto& [more, path] : std::vector<std::pair<const char*, const char*>>{
           {R"({"encoding": {"format": "float16"}})", "job.encoding.format: float16"},
           {R"({"encoding": {"format": "int8"}})", "job.encoding.format"},
           {R"({"encoding": {"format": "top_k", "fraction": 0.5}})", "job.encoding.format"},
           {R"({"encoding": {"format": "float32", "content": "delta"}})", "job.encoding.content"},
           {R"({"checks": {"max_change_norm": 5}})", "job.checks.max_change_norm: 5"},
           {R"({"evaluation": {"test_data": "csv:a.csv;target=b"}})", "job.evaluation.test_data"},
           {R"({"model": {"json": {"centres": null, "kind": 2}, "more": 1}})", "job.model"},
           {R"({"model": {"json": {"centres": null}}})", "job.model"}}) {
    EXPECT_THAT(refusal(json_job(more)), HasSubstr(path)) << more;
  }
  // No number in it, one that no double holds, nested too deep, too long.
  Json job = json_job();
  job["model"]["json"] = {{"kind", "k-means"}};
  EXPECT_THAT(refusal(job), HasSubstr("job.model: 0 parameters"));
  job["model"]["json"] = {{"n", {9007199254740993}}};
  EXPECT_THAT(refusal(job), AllOf(HasSubstr("job.model.json"), HasSubstr("\"/n/0\"")));
  Json deep = 1;
  for (int i = 0; i < 13; ++i) deep = Json::array({deep});
  job["model"]["json"] = deep;
  EXPECT_THAT(refusal(job), AllOf(HasSubstr("job.model.json"), HasSubstr("12 levels")));
  job["model"]["json"] = std::vector<double>(kMaxModelBytes / 4 + 1, 0.0);
  EXPECT_THAT(refusal(job), AllOf(HasSubstr("job.model"), HasSubstr("524288")));
  job["model"] = {{"statistics", {{"features", 50'001}}}};
  EXPECT_THAT(refusal(job), HasSubstr("job.model.statistics.features"));
}

}  // namespace
}  // namespace muster
