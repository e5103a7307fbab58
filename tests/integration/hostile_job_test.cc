#include "tests/integration/raw_client.h"

// Jobs that are wrong: refused with the place and the reason, and nothing of them is kept.
namespace muster::testing {
namespace {

class HostileJob : public ::testing::Test {
 protected:
  Reply submit(const std::string& text) { return alice.post("/v1/jobs", text); }

  // Refused as `wanted`, and the sentence holds `mention`.
  void expect_refused(const std::string& text, const std::string& wanted,
                      const std::string& mention = "") {
    const Reply reply = submit(text);
    EXPECT_EQ(outcome(reply), wanted) << text.substr(0, 200);
    const Json problem = json_of(reply.body);
    ASSERT_TRUE(problem.is_object());
    EXPECT_EQ(reply.header("content-type"), "application/problem+json");
    const std::string detail = problem.value("detail", "");
    EXPECT_NE(detail.find(mention), std::string::npos) << mention << " is not in: " << detail;
  }
  static std::string with(const std::string& pointer, const Json& value) {
    Json job = small_job(2, 2);
    job[Json::json_pointer(pointer)] = value;
    return job.dump();
  }
  void TearDown() override {
    EXPECT_EQ(federation.get_json("/v1/jobs").at("jobs"), Json::array());
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(federation.root() / "states"))
      EXPECT_FALSE(entry.is_regular_file()) << entry.path();
    // The server is as good as before, and the first job is still the first.
    EXPECT_EQ(federation.submit(small_job(2, 2)), "small-1");
  }

  Federation federation;
  Caller alice = caller_as(federation, {Role::kOperator, "alice"});
};

TEST_F(HostileJob, P21_TextThatIsNoPlainJsonIsRefused) {
  const std::string good = small_job(2, 2).dump();
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  for (const std::string& text :
       {std::string(), std::string("{"), good.substr(0, good.size() / 2), good + "{}",
        "\xef\xbb\xbf" + good, "{\"name\":\"other\"," + good.substr(1), deep,
        "{\"name\":" + std::string(17, '[') + std::string(17, ']') + "}",
        std::string("{\"a\":\xff}"), std::string("{'name':'x'}"), std::string("{\"seed\":1e999}"),
        std::string("\0{}", 3)}) {
    expect_refused(text, "400 bad_json");
  }
}

TEST_F(HostileJob, UnknownFieldsAndTypesAreRefusedWithTheKnownOnes) {
  expect_refused(with("/rouns", 3), "422 bad_job", "rouns");
  expect_refused(with("/strategy/num_client", 3), "422 bad_job", "num_client");
  expect_refused(with("/strategy/type", "Local2"), "422 bad_job", "Federated");
  expect_refused(with("/strategy/aggregation/method", "Mean"), "422 bad_job", "FedAvg");
  expect_refused(with("/model/preset", "resnet"), "422 bad_job", "logistic");
  expect_refused(with("/local/mu", 0.1), "422 bad_job", "strategy");
  expect_refused("[]", "422 bad_job");
  expect_refused("{}", "422 bad_job", "name");
  for (const Json& name : {Json("../x"), Json("a b"), Json("x;DROP TABLE jobs"), Json(""), Json(7),
                           Json(std::string(65, 'a'))})
    expect_refused(with("/name", name), "422 bad_job", "name");
}

TEST_F(HostileJob, AGraphWhoseShapesDoNotFitIsRefusedNamingTheNode) {
  const auto graph = [](const Json& nodes) {
    return with("/model", Json{{"graph",
                                {{"input", {{"shape", {4}}}},
                                 {"nodes", nodes},
                                 {"loss", {{"type", "softmax_cross_entropy"}}}}}});
  };
  const Json dense{{"id", "fc1"}, {"op", "dense"}, {"units", 3}};
  expect_refused(graph({dense, {{"id", "join"}, {"op", "add"}, {"inputs", {"input", "fc1"}}}}),
                 "422 bad_job", "join");
  expect_refused(graph({{{"id", "conv1"}, {"op", "conv2d"}, {"filters", 3}, {"kernel", {3, 3}}}}),
                 "422 bad_job", "conv1");
  expect_refused(graph({{{"id", "fc1"}, {"op", "dense"}, {"units", 3}, {"inputs", {"nowhere"}}}}),
                 "422 bad_job", "fc1");
  expect_refused(graph({{{"id", "a"}, {"op", "relu"}, {"inputs", {"b"}}},
                        {{"id", "b"}, {"op", "relu"}, {"inputs", {"a"}}}}),
                 "422 bad_job");
  expect_refused(graph({{{"id", "fc1"}, {"op", "dense"}, {"units", -3}}}), "422 bad_job", "fc1");
  expect_refused(graph({{{"id", "fc1"}, {"op", "dense"}, {"units", 1'000'000'000}}}), "422 bad_job",
                 "fc1");
  expect_refused(graph(Json::array()), "422 bad_job", "nodes");
}

TEST_F(HostileJob, P28_A09_NumbersOutOfRangeAndContradictionsAreRefused) {
  expect_refused(with("/round/min_updates", 3), "422 bad_job", "min_updates");
  expect_refused(with("/round/target_updates", 3), "422 bad_job", "target_updates");
  expect_refused(with("/round/deadline_s", 0), "422 bad_job", "deadline_s");
  expect_refused(with("/round/max_attempts", -1), "422 bad_job", "max_attempts");
  expect_refused(with("/strategy/num_clients", 0), "422 bad_job", "num_clients");
  expect_refused(with("/strategy/rounds", UINT64_MAX), "422 bad_job", "rounds");
  expect_refused(with("/strategy/rounds", 1.5), "422 bad_job", "rounds");
  expect_refused(with("/strategy/rounds", "2"), "422 bad_job", "rounds");
  expect_refused(with("/seed", -1), "422 bad_job", "seed");
  expect_refused(with("/local/optimizer/lr", -0.1), "422 bad_job", "lr");
  expect_refused(with("/strategy/aggregation", {{"method", "FedProx"}, {"mu", -0.5}}),
                 "422 bad_job", "mu");
  expect_refused(with("/strategy/aggregation", {{"method", "FedProx"}}), "422 bad_job", "mu");
  for (const char* mu : {"NaN", "Infinity", "1e999", "-1e999"}) {
    std::string text = with("/strategy/aggregation", {{"method", "FedProx"}, {"mu", 77}});
    text.replace(text.find("77"), 2, mu);
    expect_refused(text, "400 bad_json");
  }
}

TEST_F(HostileJob, TestDataThatIsNotThereIsRefused) {
  for (const char* data : {"csv:/nowhere/data.csv;target=label", "idx:/nowhere/a,/nowhere/b",
                           "csv:/etc/passwd;target=label", "ftp:x", "csv:", "csv:a\nb"}) {
    expect_refused(with("/evaluation", {{"test_data", data}}), "422 bad_job", "test_data");
  }
}

TEST_F(HostileJob, ABodyOverTheLimitIsRefusedBeforeItIsRead) {
  const auto connection = alice.connect();
  const auto reply = connection->ask(
      "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Content-Length: 1048577\r\n\r\n");
  ASSERT_TRUE(reply);
  EXPECT_EQ(outcome(*reply), "413 body_too_large");
  EXPECT_TRUE(connection->is_closed());
  expect_refused(with("/name", std::string(2 << 20, 'a')), "413 body_too_large");
}

TEST_F(HostileJob, TokensOutOfRangeAreNotMade) {
  for (const char* body : {R"({"uses":0})", R"({"uses":10001})", R"({"uses":-1})", R"({"ttl_s":0})",
                           R"({"ttl_s":1e9})", R"({"uses":1,"owner":"x"})", R"({"tags":"gpu"})",
                           R"({"tags":["a b"]})", "[]", "{"}) {
    EXPECT_EQ(alice.post("/v1/tokens", body).status / 100, 4) << body;
  }
  EXPECT_EQ(federation.get_json("/v1/tokens").at("tokens"), Json::array());
}

}  // namespace
}  // namespace muster::testing
