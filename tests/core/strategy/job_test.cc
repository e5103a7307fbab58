#include "core/strategy/job.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/file.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

Json smallest() {
  return Json::parse(R"({"name": "fashion-mnist", "model": {"preset": "2nn"},
                         "strategy": {"type": "Federated", "num_clients": 10, "rounds": 20}})");
}

// "aaa" with its quotes, as JSON has it.
std::string quoted(std::size_t count, char letter) {
  return fmt::format("\"{}\"", std::string(count, letter));
}

// The smallest job with the value at `pointer` ("/round/deadline_s") set or replaced.
Json changed(const char* pointer, const std::string& value) {
  Json job = smallest();
  job[Json::json_pointer(pointer)] = Json::parse(value);
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

TEST(Job, StrategiesThatTheServerDoesNotRunAreRefusedSayingWhatDoes) {
  for (const char* strategy :
       {R"({"type": "Local"})", R"({"type": "DataParallel", "num_replicas": 2})",
        R"({"type": "Custom", "coordinator": "swarm"})"}) {
    const std::string message = refusal(changed("/strategy", strategy));
    EXPECT_THAT(message, AllOf(HasSubstr("job.strategy.type"), HasSubstr("InProcessContext"),
                               HasSubstr("Federated")));
    EXPECT_THAT(message, HasSubstr(Json::parse(strategy)["type"].get<std::string>()));
  }
}

TEST(Job, DefaultsAreWrittenOutAndReadBackToTheSameJob) {
  const auto job = job_from_json(smallest());
  ASSERT_TRUE(job.has_value()) << job.error().message;
  const Json written = to_json(*job);
  EXPECT_EQ(written, Json::parse(R"({
    "name": "fashion-mnist", "model": {"preset": "2nn"},
    "strategy": {"type": "Federated", "num_clients": 10, "rounds": 20,
                 "aggregation": {"method": "FedAvg"}, "client_selection": {"method": "All"}},
    "encoding": {"format": "float32", "content": "state", "compression": "none"},
    "checks": {"max_examples": 10000000, "max_change_norm": 0.0},
    "local": {"epochs": 1, "max_steps": 0, "max_seconds": 0.0, "batch_size": 32, "accumulate": 1,
              "shuffle": true, "clip_norm": 0.0,
              "schedule": {"type": "constant", "warmup_steps": 0},
              "optimizer": {"type": "sgd", "lr": 0.01, "momentum": 0.0, "dampening": 0.0,
                            "weight_decay": 0.0, "nesterov": false}},
    "round": {"target_updates": 10, "min_updates": 5, "over_selection": 1.0,
              "selection_window_s": 60.0, "deadline_s": 600.0, "max_attempts": 3},
    "evaluation": {"federated": true, "test_data": ""}, "seed": 0})"));
  const auto again = job_from_json(*parse_json(written.dump()));
  ASSERT_TRUE(again.has_value()) << again.error().message;
  EXPECT_EQ(to_json(*again), written);
}

TEST(Job, OfTheDesignIsReadFieldByField) {
  const Json json = Json::parse(R"({
    "name": "fashion-mnist", "model": {"preset": "2nn"},
    "strategy": {"type": "Federated", "num_clients": 10, "rounds": 20,
                 "aggregation": {"method": "FedProx", "mu": 0.01},
                 "client_selection": {"method": "Random", "fraction": 0.5}},
    "local": {"epochs": 1, "batch_size": 10, "optimizer": {"type": "sgd", "lr": 0.05}},
    "round": {"target_updates": 5, "min_updates": 4, "over_selection": 1.2,
              "selection_window_s": 60, "deadline_s": 120, "max_attempts": 3},
    "evaluation": {"federated": true,
                   "test_data": "idx:/data/t10k-images-idx3-ubyte.gz,/data/t10k-labels-idx1-ubyte.gz"},
    "seed": 1})");
  const auto job = job_from_json(json);
  ASSERT_TRUE(job.has_value()) << job.error().message;
  EXPECT_EQ(job->local.mu, 0.01) << "from the strategy";
  EXPECT_EQ(job->local.batch_size, 10);
  EXPECT_EQ(job->round.num_clients, 10) << "from the strategy";
  EXPECT_EQ(job->round.selection.method, ClientSelection::Method::kRandom);
  EXPECT_EQ(job->round.selection.fraction, 0.5);
  EXPECT_EQ(job->round.target_updates, 5);
  EXPECT_EQ(job->round.min_updates, 4);
  EXPECT_EQ(job->round.deadline, std::chrono::seconds(120));
  EXPECT_EQ(devices_to_invite(job->round), 6);
  EXPECT_EQ(job->seed, 1U);
  EXPECT_THAT(job->evaluation.test_data, HasSubstr("t10k"));
  const auto again = job_from_json(to_json(*job));
  ASSERT_TRUE(again.has_value()) << again.error().message;
  EXPECT_EQ(to_json(*again), to_json(*job));
  EXPECT_EQ(again->local.mu, 0.01);
}

TEST(Job, EveryExampleOfTheDocumentationIsTaken) {
  const std::string text = *read_file(MUSTER_SOURCE_DIR "/docs/jobs.md", 1 << 20);
  int examples = 0;
  for (std::size_t at = text.find("```json\n"); at != std::string::npos;
       at = text.find("```json\n", at)) {
    at += 8;
    const auto json = parse_json(text.substr(at, text.find("```", at) - at));
    ASSERT_TRUE(json.has_value()) << json.error().message;
    const auto job = job_from_json(*json);
    EXPECT_TRUE(job.has_value()) << job.error().message;
    ++examples;
  }
  EXPECT_EQ(examples, 3);
}

TEST(Job, MissingFieldsAreNamed) {
  for (const char* field : {"name", "model", "strategy"}) {
    Json job = smallest();
    job.erase(field);
    EXPECT_THAT(refusal(job), HasSubstr(std::string("job.") + field));
  }
  for (const char* text : {"null", "7", "[]", "\"job\""}) {
    EXPECT_THAT(refusal(Json::parse(text)), HasSubstr("job"));
  }
}

TEST(Job, UnknownFieldsAreRefusedAtEveryLevel) {
  for (const char* pointer : {"/sede", "/round/deadlines", "/local/epoch", "/local/optimizer",
                              "/evaluation/every", "/strategy/fraction", "/model/size"}) {
    const std::string value =
        std::string(pointer) == "/local/optimizer" ? R"({"type": "sgd", "learning_rate": 1})" : "1";
    const std::string path = pointer;
    const std::string last = path.substr(path.rfind('/') + 1);
    EXPECT_THAT(refusal(changed(pointer, value)),
                HasSubstr(last == "optimizer" ? "learning_rate" : last));
  }
}

TEST(Job, NamesThatCannotStandInAPathAreRefused) {
  for (const char* name : {R"("")", R"("../x")", R"("a b")", R"("-a")", R"("a/b")", "7", "null"}) {
    EXPECT_THAT(refusal(changed("/name", name)), HasSubstr("job.name"));
  }
  EXPECT_THAT(refusal(changed("/name", quoted(49, 'a'))), HasSubstr("job.name"));
  EXPECT_TRUE(job_from_json(changed("/name", quoted(48, 'a'))).has_value());
}

TEST(Job, SeedIsAnIntegerFromZeroTo2To53) {
  EXPECT_EQ(job_from_json(changed("/seed", "9007199254740992"))->seed, 9007199254740992U);
  for (const char* seed : {"-1", "9007199254740993", "18446744073709551615", "1.5", "\"1\""}) {
    EXPECT_THAT(refusal(changed("/seed", seed)), HasSubstr("job.seed"));
  }
}

// P-28
TEST(Job, P28_ContradictingThresholdsAreRefused) {
  EXPECT_THAT(refusal(changed("/round", R"({"min_updates": 11})")),
              HasSubstr("job.round.min_updates"));
  EXPECT_THAT(refusal(changed("/round", R"({"target_updates": 11})")),
              HasSubstr("job.round.target_updates"));
  Json job = changed("/round", R"({"target_updates": 6})");
  job["strategy"]["client_selection"] = {{"method", "Random"}, {"fraction", 0.5}};
  EXPECT_THAT(refusal(job), HasSubstr("at most 5"));
}

TEST(Job, MuInLocalIsRefusedPointingToTheStrategy) {
  EXPECT_THAT(refusal(changed("/local", R"({"mu": 0.1})")),
              AllOf(HasSubstr("job.local.mu"), HasSubstr("strategy")));
}

TEST(Job, TestDataIsOneLineOfAtMost4096Bytes) {
  const auto with = [](const std::string& text) {
    Json job = smallest();
    job["evaluation"]["test_data"] = text;
    return job;
  };
  EXPECT_TRUE(job_from_json(with(std::string(4096, 'x'))).has_value());
  EXPECT_THAT(refusal(with(std::string(4097, 'x'))), HasSubstr("job.evaluation.test_data"));
  EXPECT_THAT(refusal(with("idx:a\nb")), HasSubstr("control character"));
}

TEST(Job, GraphWhoseShapesDoNotFitIsRefusedNamingTheNode) {
  const std::string shapes = refusal(changed("/model", R"({"graph": {
    "input": {"shape": [28, 28]},
    "nodes": [{"id": "flat", "op": "flatten"}, {"id": "fc1", "op": "dense", "units": 10},
              {"id": "sum", "op": "add", "inputs": ["flat", "fc1"]}],
    "loss": {"type": "softmax_cross_entropy"}}})"));
  EXPECT_THAT(shapes, AllOf(HasSubstr("job.model"), HasSubstr("sum"), HasSubstr("784")));
  const std::string message = refusal(changed("/model", R"({"graph": {
    "input": {"shape": [28, 28]},
    "nodes": [{"id": "fc1", "op": "dense", "units": 10, "inputs": ["missing"]}],
    "loss": {"type": "softmax_cross_entropy"}}})"));
  EXPECT_THAT(message, AllOf(HasSubstr("job.model"), HasSubstr("fc1"), HasSubstr("missing")));
}

TEST(Job, UnknownPresetAndModelThatIsNoneAreRefused) {
  EXPECT_THAT(refusal(changed("/model", R"({"preset": "3nn"})")),
              AllOf(HasSubstr("job.model.preset"), HasSubstr("2nn")));
  for (const char* model : {"null", "7", "[]", "{}", "\"2nn\""}) {
    EXPECT_THAT(refusal(changed("/model", model)), HasSubstr("job.model"));
  }
}

TEST(Job, ModelWithoutParametersOrWithTooManyIsRefused) {
  EXPECT_THAT(refusal(changed("/model", R"({"graph": {"input": {"shape": [2, 5]},
                "nodes": [{"id": "flat", "op": "flatten"}],
                "loss": {"type": "softmax_cross_entropy"}}})")),
              HasSubstr("0 parameters"));
  EXPECT_THAT(refusal(changed("/model", R"({"graph": {"input": {"shape": [30000]},
                "nodes": [{"id": "fc1", "op": "dense", "units": 10000}],
                "loss": {"type": "softmax_cross_entropy"}}})")),
              HasSubstr("300010000 parameters"));
}

TEST(Job, ModelDescriptionOverItsLimitIsRefused) {
  Json nodes = Json::array({{{"id", "fc0"}, {"op", "dense"}, {"units", 3}}});
  for (int i = 1; i < 9'000; ++i) {
    nodes.push_back({{"id", fmt::format("relu-{:050}", i)}, {"op", "relu"}});
  }
  Json job = smallest();
  job["model"] = {{"graph",
                   {{"input", {{"shape", {4}}}},
                    {"nodes", nodes},
                    {"loss", {{"type", "softmax_cross_entropy"}}}}}};
  EXPECT_THAT(refusal(job), AllOf(HasSubstr("job.model"), HasSubstr("524288")));
}

}  // namespace
}  // namespace muster
