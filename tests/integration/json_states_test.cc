#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <mutex>

#include "core/base/file.h"
#include "core/graph/model.h"
#include "core/tensor/json_state.h"
#include "core/tensor/safetensors.h"
#include "core/train/data/data_spec.h"
#include "core/train/data_statistics.h"
#include "core/train/json_trainer.h"
#include "core/train/stock_trainer.h"
#include "server/aggregation.h"
#include "storage/state_files.h"
#include "tests/integration/raw_client.h"
#include "tests/integration/reference_run.h"
#include "tests/support/federation.h"
#include "tests/support/process.h"

// Jobs whose model is a JSON state, with devices over TLS: the same states, bit for bit, as
// JsonMean makes in this process.
namespace muster::testing {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

Json json_job(const Json& model, int devices, int rounds) {
  Json job = small_job(devices, rounds, {{"method", "JsonMean"}});
  job["model"] = model;
  return job;
}

// Two centres that move towards this device's points, which are its name's.
JsonFit moved(const std::string& device, const Json& global) {
  Random random(derive_seed(7, {device}));
  const auto examples = static_cast<std::int64_t>(1 + random.below(1000));
  Json centres = Json::array();
  for (const Json& centre : global.at("centres")) {
    Json values = Json::array();
    for (const Json& value : centre) {
      values.push_back(0.75 * value.get<double>() + random.normal() / 3);
    }
    centres.push_back(std::move(values));
  }
  const auto seen = global.at("seen").get<double>();
  return {.state = {{"centres", centres}, {"kind", "k-means"}, {"seen", seen + 1}},
          .examples = examples};
}

Json two_centres() {
  return {
      {"json", {{"centres", {{0.1, -1e300}, {1e-300, 2.0}}}, {"kind", "k-means"}, {"seen", 0}}}};
}

const std::vector<std::string> kNames = {"a", "b", "c"};

// The states after each round of the same job in this process.
std::vector<std::string> digests_in_process(const Json& model, int rounds) {
  const JsonTemplate made = take(json_from_model(take(resolve_model(model))));
  StateDict global = take(made.pack(made.json()));
  std::vector<std::string> digests;
  for (int round = 0; round < rounds; ++round) {
    const auto aggregator = take(make_aggregator(JsonMean{}, {.global = &global}));
    for (const std::string& name : kNames) {
      const JsonFit fit = moved(name, take(made.unpack(global)));
      take(aggregator->accumulate({.contributor = name,
                                   .values = values_of(take(made.pack(fit.state))),
                                   .examples = fit.examples}));
    }
    muster::Outcome outcome = take(aggregator->finish());
    global = std::move(outcome.global);
    digests.push_back(state_digest(global).hex());
  }
  return digests;
}

class JsonStates : public ::testing::Test {
 protected:
  void start(const std::string& name, std::shared_ptr<Gate> gate = nullptr) {
    const bool enrolled = std::filesystem::exists(federation.folder(name) / "device.pem");
    DeviceIdentity identity = enrolled ? take(DeviceIdentity::read(federation.folder(name)))
                                       : federation.enroll_device(name);
    auto trainer = std::make_unique<JsonTrainer>(
        10, [name](const Json& global, const FitTask&, std::stop_token) -> Result<JsonFit> {
          return moved(name, global);
        });
    devices[name] = std::make_unique<RunningDevice>(
        std::move(identity), federation.folder(name),
        std::make_unique<GatedTrainer>(std::move(trainer), std::move(gate)));
  }
  std::vector<std::string> states_of(const std::string& id) {
    std::vector<std::string> states;
    const Json rounds = federation.get_json("/v1/jobs/" + id + "/rounds").at("rounds");
    for (const Json& round : rounds) states.push_back(round.at("state"));
    return states;
  }

  Federation federation;
  std::map<std::string, std::unique_ptr<RunningDevice>> devices;
};

TEST_F(JsonStates, AreThoseOfTheSameRoundsInThisProcessWithRestartsInBetween) {
  constexpr int kRounds = 4;
  const auto gate = std::make_shared<Gate>();
  for (const std::string& name : kNames) start(name, gate);
  const std::string id = federation.submit(json_job(two_centres(), 3, kRounds));
  for (std::int64_t round = 1; round < kRounds; ++round) {
    gate->let_through(round);
    federation.wait_until(id, [&](const Json& now) { return now.at("rounds_committed") == round; });
    // Once with the devices in the middle of their training, once with new ones too.
    federation.stop_server();
    if (round == 2) devices.clear();
    federation.start_server();
    if (round == 2) {
      for (const std::string& name : kNames) start(name, gate);
    }
  }
  gate->let_through(kRounds);
  ASSERT_EQ(federation.wait_for_end(id).at("status"), "finished");
  EXPECT_EQ(states_of(id), digests_in_process(two_centres(), kRounds));
}

TEST_F(JsonStates, TravelCompressedTooAndAreExportedAsJson) {
  for (const std::string& name : kNames) start(name);
  Json job = json_job(two_centres(), 3, 2);
  job["encoding"] = {{"format", "float32"}, {"compression", "zstd"}};
  const std::string id = federation.submit(job);
  ASSERT_EQ(federation.wait_for_end(id).at("status"), "finished");
  EXPECT_EQ(states_of(id), digests_in_process(two_centres(), 2));

  take(write_file_durably(federation.root() / "operator" / "operator.json",
                          as_bytes(Json{{"server", federation.api_url().text()}}.dump())));
  const auto exported = [&](std::vector<std::string> more) {
    std::vector<std::string> words{MUSTER_BINARY, "model", "export", id};
    words.insert(words.end(), more.begin(), more.end());
    return run(words, federation.folder(""), {{"MUSTER_DIR", federation.root().string()}});
  };
  const auto printed = exported({});
  ASSERT_EQ(printed.exit_code, 0) << printed.errors;
  const Json state = take(parse_json(printed.output));
  EXPECT_EQ(state.at("kind"), "k-means");
  EXPECT_EQ(state.at("seen").dump(), "2") << "an integer as the model has it";
  const JsonTemplate made = take(json_from_model(two_centres()));
  EXPECT_EQ(state_digest(take(made.pack(state))).hex(), states_of(id)[1]);

  const auto file = (federation.folder("") / "state.json").string();
  ASSERT_EQ(exported({"--round", "1", "-o", file}).exit_code, 0);
  const Json first = take(parse_json(take(read_file(file, 1 << 20))));
  EXPECT_EQ(state_digest(take(made.pack(first))).hex(), states_of(id)[0]);
  const Json described = take(parse_json(exported({"--json"}).output));
  EXPECT_EQ(described.at("json"), state);
  EXPECT_EQ(described.at("state"), states_of(id)[1]);
  const auto stored = (federation.folder("") / "state.safetensors").string();
  ASSERT_EQ(exported({"-o", stored}).exit_code, 0);
  EXPECT_EQ(sha256(as_bytes(take(read_file(stored, 1 << 20)))).hex(), states_of(id)[1]);
}

TEST_F(JsonStates, OfStatisticsAreThoseOfAllDevicesDataTogether) {
  const auto file = write_csv(federation.folder(""), 200, 3);
  const auto spec = [&](int shard) {
    return fmt::format("csv:{};target=label;shard={}/2;split=shards;seed=1", file.string(), shard);
  };
  std::vector<std::unique_ptr<RunningDevice>> stock;
  for (int i = 0; i < 2; ++i) {
    const std::string name = fmt::format("stock-{}", i);
    stock.push_back(
        std::make_unique<RunningDevice>(federation.enroll_device(name), federation.folder(name),
                                        std::make_unique<StockTrainer>(take(load_data(spec(i))))));
  }
  const Json model = {{"statistics", {{"features", 4}, {"classes", 3}}}};
  const std::string id = federation.submit(json_job(model, 2, 1));
  ASSERT_EQ(federation.wait_for_end(id).at("status"), "finished");

  const JsonTemplate made = take(json_from_model(take(resolve_model(model))));
  const auto states = take(StateFiles::open(federation.root() / "states"));
  const StateDict state = take(states.read(take(Digest::from_hex(states_of(id)[0]))));
  const Json got = take(made.unpack(state));
  // In plain doubles, over all rows.
  double sum = 0;
  double square = 0;
  double ones = 0;
  double count = 0;
  for (int i = 0; i < 2; ++i) {
    const Dataset data = take(load_data(spec(i))).train;
    for (std::int64_t row = 0; row < data.size(); ++row) {
      std::vector<float> features(4);
      data.copy_features(std::vector<std::int64_t>{row}, features);
      sum += features[2];
      square += double{features[2]} * features[2];
    }
    for (const std::int32_t label : data.labels()) ones += label == 1 ? 1 : 0;
    count += static_cast<double>(data.size());
  }
  EXPECT_NEAR(got.at("mean")[2].get<double>(), sum / count, 1e-14);
  EXPECT_NEAR(got.at("mean_square")[2].get<double>(), square / count, 1e-14);
  EXPECT_NEAR(got.at("label_share")[1].get<double>(), ones / count, 1e-15);
  const Json round = federation.get_json("/v1/jobs/" + id + "/rounds/1");
  EXPECT_EQ(round.at("metrics").at("examples"), count);
  EXPECT_EQ(round.at("evaluations").size(), 0U);
}

TEST_F(JsonStates, ADeviceWhoseDataDoNotFitDeclinesSayingWhy) {
  const auto file = write_csv(federation.folder(""), 60, 3);
  const DeviceIdentity identity = federation.enroll_device("misfit");
  StockTrainer trainer(take(load_data("csv:" + file.string() + ";target=label")));
  AgentOptions options;
  options.folder = federation.folder("misfit");
  std::mutex mutex;
  std::vector<std::string> declined;
  std::stop_source stop;
  std::jthread agent([&] {
    EXPECT_TRUE(
        run_agent(identity, trainer, options, stop.get_token(), [&](const AgentEvent& event) {
          if (event.kind != AgentEvent::Kind::kDeclined) return;
          const std::lock_guard lock(mutex);
          declined.push_back(event.text);
          stop.request_stop();
        }));
  });
  federation.submit(json_job({{"statistics", {{"features", 5}, {"classes", 3}}}}, 1, 1));
  agent.join();
  EXPECT_THAT(declined, Contains(HasSubstr("5 features, the examples here have 4")));
}

// Mallory sends words that no JSON state has.
class HostileJsonState : public ::testing::Test {
 protected:
  HostileJsonState() {
    job = federation.submit(json_job(Json{{"json", {{"scale", {1.0, 2.0}}, {"n", 3}}}}, 2, 1));
    const auto tasks = tasks_of({&mallory, &honest});
    task = tasks[0];
    honest_task = tasks[1];
  }

  Upload upload(const protocol::Task& of, const StateDict& state, std::int64_t examples) const {
    Upload upload = upload_for(of, state.layout(), 0, examples);
    const Bytes file = write_state(state);
    upload.set_body(std::string(as_text(file)));
    return upload;
  }
  StateDict packed(const Json& state) const { return take(made.pack(state)); }
  void expect_refused(const StateDict& state, const std::string& wanted,
                      const std::string& detail) {
    const Reply reply = mallory.send(upload(task, state, 30));
    EXPECT_EQ(outcome(reply), wanted);
    EXPECT_THAT(json_of(reply.body).at("detail").get<std::string>(), HasSubstr(detail));
  }

  Federation federation;
  HandDevice mallory{federation, "mallory"};
  HandDevice honest{federation, "honest"};
  std::string job;
  protocol::Task task, honest_task;
  const JsonTemplate made = take(JsonTemplate::create(Json{{"scale", {1.0, 2.0}}, {"n", 3}}));
};

TEST_F(HostileJsonState, N01_WordsOfNoFiniteDoubleAreRefusedAndTheRoundGoesOn) {
  const Json good = {{"scale", {5.0, 0.5}}, {"n", 7}};
  // "n" comes first: number 0; the scales are 1 and 2.
  const auto with = [&](std::size_t number, const NumberWords& words) {
    StateDict state = packed(good);
    std::ranges::copy(words, state.values().begin() + static_cast<std::ptrdiff_t>(3 * number));
    return state;
  };
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  expect_refused(with(1, words_of(std::nan(""))), "422 non_finite", "number 1");
  expect_refused(with(2, words_of(kInfinity)), "422 non_finite", "number 2");
  expect_refused(with(0, words_of(-kInfinity)), "422 non_finite", "number 0");
  expect_refused(with(0, {0.5F, 0, 0}), "422 bad_number", "number 0");
  expect_refused(with(1, {0, -1, 0}), "422 bad_number", "number 1");
  expect_refused(with(2, {0, 0, 2097152}), "422 bad_number", "number 2");
  expect_refused(with(2, {-0.0F, 0, 0}), "422 bad_number", "number 2");
  expect_refused(with(2, {0, std::nanf(""), 0}), "422 non_finite", "numbers");

  const JsonTemplate longer = take(JsonTemplate::create(Json{1.0, 2.0, 3.0, 4.0}));
  expect_refused(take(longer.pack(longer.json())), "422 shape_mismatch", "numbers");
  expect_refused(StateDict(*StateLayout::create({{"number", {3, 3}}})), "422 missing_tensor",
                 "numbers");
  EXPECT_EQ(federation.get_json("/v1/jobs/" + job).at("rounds_committed"), 0);

  EXPECT_EQ(outcome(mallory.send(upload(task, packed(good), 30))), "200");
  const Json other = {{"scale", {1.0, 0.5}}, {"n", 3}};
  EXPECT_EQ(outcome(honest.send(upload(honest_task, packed(other), 10))), "200");
  ASSERT_EQ(federation.wait_for_end(job).at("status"), "finished");
  const Json round = federation.get_json("/v1/jobs/" + job + "/rounds/1");
  EXPECT_EQ(round.at("state"), state_digest(packed({{"scale", {4.0, 0.5}}, {"n", 6}})).hex());
  EXPECT_EQ(refused_reasons(federation, job, 1, "mallory").size(), 10U);
}

TEST(JsonJob, P28_ThatContradictsItselfIsRefusedAndNothingIsStored) {
  Federation federation;
  const auto refusal = [&](const Json& job) {
    const HttpReply reply = federation.operator_post("/v1/jobs", job);
    EXPECT_EQ(reply.status, 422) << reply.body;
    EXPECT_EQ(reply.error().reason, "bad_job");
    return reply.error().message;
  };
  const Json model = {{"json", {{"n", 3}}}};
  Json job = json_job(model, 2, 1);
  job["strategy"]["aggregation"] = {{"method", "FedAvg"}};
  EXPECT_THAT(refusal(job), AllOf(HasSubstr("aggregation.method"), HasSubstr("job.model")));
  EXPECT_THAT(refusal(small_job(2, 1, {{"method", "JsonMean"}})), HasSubstr("job.model"));
  job = json_job(model, 2, 1);
  job["encoding"] = {{"format", "int8"}};
  EXPECT_THAT(refusal(job), HasSubstr("job.encoding.format"));
  job = json_job(model, 2, 1);
  job["checks"] = {{"max_change_norm", 1}};
  EXPECT_THAT(refusal(job), HasSubstr("job.checks.max_change_norm"));
  EXPECT_EQ(federation.get_json("/v1/jobs").at("jobs").size(), 0U);
}

}  // namespace
}  // namespace muster::testing
