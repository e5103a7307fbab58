#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>

#include "core/base/file.h"
#include "tests/integration/reference_run.h"
#include "tests/support/federation.h"

// Every aggregation and every encoding in the server, with devices over TLS: the same states, bit
// for bit, as in this process.
namespace muster {
namespace {

using muster::testing::Federation;
using muster::testing::Gate;
using muster::testing::GatedTrainer;
using muster::testing::graph_trainer;
using muster::testing::ReferenceRun;
using muster::testing::RunningDevice;
using muster::testing::small_job;
using muster::testing::write_csv;
using ::testing::HasSubstr;

constexpr int kDevices = 7;  // Bulyan with f = 1 wants 4 f + 3

// A federation whose devices take part in one job after another.
class Fleet {
 public:
  explicit Fleet(int count, std::shared_ptr<Gate> gate = nullptr) : gate_(std::move(gate)) {
    const auto file = write_csv(federation.folder(""), 60 * count, 3);
    for (int i = 0; i < count; ++i) {
      const std::string name = fmt::format("device-{}", i);
      specs[name] = fmt::format("csv:{};target=label;shard={}/{};seed=1", file.string(), i, count);
      take(federation.enroll_device(name), name);
      start(name);
    }
  }

  void start(const std::string& name) {
    running_[name] = std::make_unique<RunningDevice>(
        muster::testing::take(DeviceIdentity::read(federation.folder(name))),
        federation.folder(name), std::make_unique<GatedTrainer>(graph_trainer(specs[name]), gate_));
  }
  void stop(const std::string& name) { running_.erase(name); }

  // The digests of the states of all rounds.
  std::vector<std::string> states_of(const std::string& id) {
    std::vector<std::string> states;
    const Json rounds = federation.get_json("/v1/jobs/" + id + "/rounds").at("rounds");
    for (const Json& round : rounds) states.push_back(round.at("state"));
    return states;
  }

  Federation federation;
  ReferenceRun::Devices specs;

 private:
  static void take(const DeviceIdentity& identity, const std::string& name) {
    EXPECT_EQ(identity.name, name);
  }
  std::shared_ptr<Gate> gate_;
  std::map<std::string, std::unique_ptr<RunningDevice>> running_;
};

Json job_for(const Json& aggregation, int rounds, int devices = kDevices) {
  Json job = small_job(devices, rounds, aggregation);
  job["evaluation"] = {{"federated", false}};
  return job;
}

std::vector<std::string> reference_states(const Json& job, const ReferenceRun::Devices& devices,
                                          int rounds) {
  ReferenceRun reference(job, devices);
  reference.rounds(rounds);
  std::vector<std::string> states;
  for (int round = 1; round <= rounds; ++round) {
    states.push_back(reference.digest(static_cast<std::size_t>(round)));
  }
  return states;
}

// One federation for all of a suite's jobs.
class AggregationInTheServer : public ::testing::TestWithParam<const char*> {
 protected:
  static void SetUpTestSuite() { fleet_ = std::make_unique<Fleet>(kDevices); }
  static void TearDownTestSuite() { fleet_.reset(); }

  void expect_as_in_process(const Json& job, int rounds) {
    const std::string id = fleet_->federation.submit(job);
    const Json ended = fleet_->federation.wait_for_end(id);
    ASSERT_EQ(ended.at("status"), "finished") << ended.dump(2);
    EXPECT_EQ(fleet_->states_of(id), reference_states(job, fleet_->specs, rounds));
  }

  static std::unique_ptr<Fleet> fleet_;
};
std::unique_ptr<Fleet> AggregationInTheServer::fleet_;

TEST_P(AggregationInTheServer, GivesTheStatesOfTheSameRoundsInThisProcess) {
  expect_as_in_process(job_for(Json::parse(GetParam()), 3), 3);
}

INSTANTIATE_TEST_SUITE_P(
    EveryMethod, AggregationInTheServer,
    ::testing::Values(R"({"method": "FedAvg"})", R"({"method": "UniformMean"})",
                      R"({"method": "FedProx", "mu": 0.1})", R"({"method": "FedNova"})",
                      R"({"method": "FedNova", "tau_eff": "steps"})",
                      R"({"method": "q-FedAvg", "q": 2})",
                      R"({"method": "FedAvgM", "nesterov": true})", R"({"method": "FedAdagrad"})",
                      R"({"method": "FedAdam"})", R"({"method": "FedYogi"})",
                      R"({"method": "SCAFFOLD"})", R"({"method": "FedDyn", "alpha": 0.1})",
                      R"({"method": "Median"})", R"({"method": "TrimmedMean", "beta": 0.2})",
                      R"({"method": "Krum", "f": 2})", R"({"method": "MultiKrum", "f": 2, "m": 3})",
                      R"({"method": "Bulyan", "f": 1})", R"({"method": "GeometricMedian"})",
                      R"({"method": "NormClipping", "max_norm": 0.05})",
                      R"({"method": "NormFiltering", "max_norm": 1})",
                      R"({"method": "FedBuff", "buffer_size": 7})"));

class EncodingsInTheServer : public AggregationInTheServer {};

TEST_P(EncodingsInTheServer, GivesTheSameStatesAndCountsTheBytesOnTheWire) {
  Json job = job_for({{"method", "FedAvg"}}, 3);
  job["model"] = {{"preset", "mlp"}, {"input", {4}}, {"classes", 3}, {"hidden", {48, 48}}};
  job["encoding"] = Json::parse(GetParam());
  expect_as_in_process(job, 3);

  const auto described = job_from_json(job);
  ASSERT_TRUE(described.has_value());
  const ReferenceRun reference(job, fleet_->specs);
  const StateLayout& layout = reference.layout();
  const auto canonical = static_cast<std::int64_t>(encoded_bytes(described->encoding, layout));
  const auto float32 = static_cast<std::int64_t>(encoded_bytes(UpdateEncoding{}, layout));
  const Json jobs = fleet_->federation.get_json("/v1/jobs").at("jobs");
  const std::string id = jobs.back().at("job");
  for (const Json& round : fleet_->federation.get_json("/v1/jobs/" + id + "/rounds").at("rounds")) {
    const auto up = round.at("bytes_up").get<std::int64_t>();
    if (described->encoding.compressed) {
      EXPECT_LT(up, kDevices * canonical);
      EXPECT_GT(up, kDevices);
    } else {
      EXPECT_EQ(up, kDevices * canonical);
    }
    if (described->encoding.format != UpdateEncoding::Format::kFloat32) {
      EXPECT_LT(up, kDevices * float32 * 6 / 10);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    EveryEncoding, EncodingsInTheServer,
    ::testing::Values(R"({"format": "float32", "content": "delta"})",
                      R"({"format": "float32", "compression": "zstd"})",
                      R"({"format": "float16", "content": "delta"})", R"({"format": "bfloat16"})",
                      R"({"format": "int8"})", R"({"format": "int8", "compression": "zstd"})",
                      R"({"format": "top_k", "fraction": 0.05})",
                      R"({"format": "top_k", "fraction": 0.05, "compression": "zstd"})"));

TEST(Aggregation, ScaffoldsControlStateIsDownloadedAndCounted) {
  Fleet fleet(2);
  const std::string id = fleet.federation.submit(job_for({{"method", "SCAFFOLD"}}, 2, 2));
  ASSERT_EQ(fleet.federation.wait_for_end(id).at("status"), "finished");
  const Json rounds = fleet.federation.get_json("/v1/jobs/" + id + "/rounds").at("rounds");
  const auto bytes_of = [&](const Json& digest) {
    return static_cast<std::int64_t>(std::filesystem::file_size(
        fleet.federation.root() / "states" / (digest.get<std::string>() + ".safetensors")));
  };
  EXPECT_EQ(rounds[0].at("bytes_down"), 2 * bytes_of(rounds[0].at("base")));
  EXPECT_EQ(rounds[1].at("bytes_down"),
            2 * (bytes_of(rounds[1].at("base")) + bytes_of(rounds[0].at("rule_state"))));
  const Json events = fleet.federation.get_json("/v1/jobs/" + id + "/events").at("events");
  const auto committed = std::ranges::find(events, Json("round_committed"),
                                           [](const Json& event) { return event.at("kind"); });
  EXPECT_EQ(committed->at("details").at("rule_state"), rounds[0].at("rule_state"));
}

TEST(Aggregation, WhatARobustRuleDidIsInTheHistory) {
  Fleet fleet(5);
  const std::string id =
      fleet.federation.submit(job_for({{"method", "MultiKrum"}, {"f", 1}, {"m", 2}}, 1, 5));
  ASSERT_EQ(fleet.federation.wait_for_end(id).at("status"), "finished");
  const Json round = fleet.federation.get_json("/v1/jobs/" + id + "/rounds/1");
  EXPECT_EQ(round.at("metrics").at("selected"), 2);
  const Json events = fleet.federation.get_json("/v1/jobs/" + id + "/events").at("events");
  const auto committed = std::ranges::find(events, Json("round_committed"),
                                           [](const Json& event) { return event.at("kind"); });
  const Json selected = committed->at("details").at("report").at("selected");
  ASSERT_EQ(selected.size(), 2U);
  EXPECT_TRUE(fleet.specs.contains(selected[0].get<std::string>()));
}

// The server goes away between two rounds and while devices train, and every device anew.
class AggregationAfterARestart : public ::testing::TestWithParam<const char*> {};

TEST_P(AggregationAfterARestart, GivesTheStatesOfAnUndisturbedRun) {
  const auto gate = std::make_shared<Gate>();
  Fleet fleet(3, gate);
  const Json job = job_for(Json::parse(GetParam()), 5, 3);
  const std::string id = fleet.federation.submit(job);
  for (std::int64_t round = 2; round <= 4; ++round) {
    gate->let_through(round);
    fleet.federation.wait_until(
        id, [&](const Json& now) { return now.at("rounds_committed") == round; });
    fleet.federation.stop_server();
    if (round == 3) {
      for (const auto& [name, spec] : fleet.specs) fleet.stop(name);
    }
    fleet.federation.start_server();
    if (round == 3) {
      for (const auto& [name, spec] : fleet.specs) fleet.start(name);
    }
  }
  gate->let_through(5);
  ASSERT_EQ(fleet.federation.wait_for_end(id).at("status"), "finished");
  EXPECT_EQ(fleet.states_of(id), reference_states(job, fleet.specs, 5));
}

INSTANTIATE_TEST_SUITE_P(WithMemory, AggregationAfterARestart,
                         ::testing::Values(R"({"method": "FedAdam"})", R"({"method": "FedAvgM"})",
                                           R"({"method": "SCAFFOLD"})",
                                           R"({"method": "FedDyn", "alpha": 0.1})"));

TEST(Aggregation, AnUpdateOverTheNormIsRefusedAndTheRoundGoesOn) {
  Federation federation;
  const auto file = write_csv(federation.folder(""), 120, 3);
  const auto gate = std::make_shared<Gate>();
  const auto device = [&](const std::string& name, int shard, std::shared_ptr<Gate> at,
                          GatedTrainer::Spoil spoil) {
    return std::make_unique<RunningDevice>(
        federation.enroll_device(name), federation.folder(name),
        std::make_unique<GatedTrainer>(
            graph_trainer(
                fmt::format("csv:{};target=label;shard={}/3;seed=1", file.string(), shard)),
            std::move(at), std::move(spoil)));
  };
  const auto a = device("a", 0, gate, {});
  const auto b = device("b", 1, gate, {});
  const auto wild =
      device("wild", 2, nullptr, [](FitResult& result) { result.state.values()[0] += 1000; });
  Json job = job_for({{"method", "FedAvg"}}, 1, 3);
  job["checks"] = {{"max_change_norm", 100}};
  job["strategy"]["client_selection"] = {{"method", "Random"}, {"fraction", 0.67}};
  job["round"]["over_selection"] = 1.5;
  const std::string id = federation.submit(job);
  const auto refused = [&] {
    return federation.get_json("/v1/jobs/" + id + "/rounds/1").at("refused");
  };
  federation.wait_until(id, [&](const Json&) { return !refused().empty(); });
  gate->let_through(1);
  ASSERT_EQ(federation.wait_for_end(id).at("status"), "finished");
  EXPECT_EQ(refused()[0].at("device"), "wild");
  EXPECT_EQ(refused()[0].at("reason"), "norm_too_large");
  EXPECT_THAT(refused()[0].at("detail").get<std::string>(), HasSubstr("100"));
  EXPECT_EQ(federation.get_json("/v1/jobs/" + id + "/rounds/1").at("metrics").at("updates"), 2);
}

TEST(Aggregation, AnUpdateThatLacksWhatTheRuleNeedsIsRefusedAtTheDoor) {
  Federation federation;
  const auto file = write_csv(federation.folder(""), 60, 3);
  RunningDevice idle(
      federation.enroll_device("idle"), federation.folder("idle"),
      std::make_unique<GatedTrainer>(graph_trainer("csv:" + file.string() + ";target=label"),
                                     nullptr, [](FitResult& result) { result.steps = 0; }));
  const std::string id = federation.submit(job_for({{"method", "FedNova"}}, 1, 1));
  const auto refused = [&] {
    return federation.get_json("/v1/jobs/" + id + "/rounds/1").at("refused");
  };
  federation.wait_until(id, [&](const Json&) { return !refused().empty(); });
  EXPECT_EQ(refused()[0].at("reason"), "bad_steps");
}

TEST(Aggregation, P28_JobsThatContradictThemselvesAreRefusedWithTheFieldsPath) {
  Federation federation;
  const auto refusal = [&](const Json& aggregation, const char* pointer, const Json& value) {
    Json job = job_for(aggregation, 2);
    if (*pointer != '\0') job[Json::json_pointer(pointer)] = value;
    const HttpReply reply = federation.operator_post("/v1/jobs", job);
    EXPECT_EQ(reply.status, 422) << reply.body;
    EXPECT_EQ(reply.error().reason, "bad_job");
    return reply.error().message;
  };
  EXPECT_THAT(refusal({{"method", "Krum"}, {"f", 2}}, "/round/min_updates", 6),
              HasSubstr("job.round.min_updates"));
  EXPECT_THAT(refusal({{"method", "Bulyan"}, {"f", 2}}, "", {}),
              HasSubstr("job.round.target_updates"));
  EXPECT_THAT(refusal({{"method", "TrimmedMean"}, {"beta", 0.5}}, "", {}),
              HasSubstr("job.strategy.aggregation.beta"));
  EXPECT_THAT(refusal({{"method", "NormClipping"}, {"max_norm", 0}}, "", {}),
              HasSubstr("job.strategy.aggregation.max_norm"));
  EXPECT_THAT(refusal({{"method", "SCAFFOLD"}}, "/local/optimizer", {{"type", "adam"}}),
              HasSubstr("job.local.optimizer.type"));
  EXPECT_THAT(refusal({{"method", "FedBuff"}, {"buffer_size", 3}}, "/encoding",
                      {{"format", "float32"}, {"content", "state"}}),
              HasSubstr("job.encoding.content"));
  EXPECT_THAT(refusal({{"method", "FedAvg"}}, "/checks", {{"max_examples", 0}}),
              HasSubstr("job.checks.max_examples"));
  EXPECT_EQ(federation.get_json("/v1/jobs").at("jobs").size(), 0U) << "nothing is stored";
}

}  // namespace
}  // namespace muster
