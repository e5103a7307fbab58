#include <cctype>

#include "storage/state_files.h"
#include "tests/integration/raw_client.h"

// Reading what is not there, in names that are none, and in pieces.
namespace muster::testing {
namespace {

class HostileRead : public ::testing::Test {
 protected:
  std::string get(const std::string& path) { return outcome(alice.get(path)); }

  Federation federation;
  HandDevice device{federation, "device-1"};
  std::string job = federation.submit(small_job(1, 1));
  std::string digest = federation.get_json("/v1/jobs/" + job).at("initial_state");
  std::string model = "/v1/models/" + digest;
  Caller alice = caller_as(federation, {Role::kOperator, "alice"});
};

TEST_F(HostileRead, UnknownNamesHaveTheirOwnCodes) {
  EXPECT_EQ(get("/v1/jobs/nothing-1"), "404 job_unknown");
  EXPECT_EQ(get("/v1/jobs/nothing-1/rounds"), "404 job_unknown");
  EXPECT_EQ(get("/v1/jobs/nothing-1/rounds/1"), "404 job_unknown");
  EXPECT_EQ(get("/v1/jobs/nothing-1/events"), "404 job_unknown");
  EXPECT_EQ(outcome(alice.post("/v1/jobs/nothing-1/stop", "{}")), "404 job_unknown");
  EXPECT_EQ(get("/v1/jobs/" + job + "/rounds/2"), "404 round_unknown");
  EXPECT_EQ(get("/v1/jobs/" + job + "/rounds/0"), "404 round_unknown");
  EXPECT_EQ(get("/v1/devices/nobody"), "404 device_unknown");
  EXPECT_EQ(get("/v1/nothing"), "404 not_found");
  EXPECT_EQ(federation.get_json("/v1/jobs/" + job + "/events?after=1000000").at("events"),
            Json::array());
}

TEST_F(HostileRead, P22_HTTP21_NamesWithOddCharactersAreRefused) {
  for (const std::string& name :
       {std::string("1;DROP TABLE rounds"), std::string("%00"), std::string("a%0d%0aSet-Cookie:x"),
        std::string("a%20b"), std::string("'"), std::string("a\xc2\xa0"), std::string("<script>"),
        std::string("\xd9\xa1"), std::string(129, 'a'), std::string(10'000, 'a'), std::string("-1"),
        std::string("1e3"), std::string("18446744073709551616"), std::string("../../secret"),
        std::string("%2e%2e%2fsecret"), std::string("..\\secret"), std::string("*")}) {
    for (const std::string& path :
         {"/v1/jobs/" + name, "/v1/devices/" + name, "/v1/jobs/" + job + "/rounds/" + name,
          "/v1/jobs/" + name + "/events", "/v1/models/" + name}) {
      const int status = alice.get(path).status;
      EXPECT_TRUE(status == 400 || status == 404) << status << " " << path.substr(0, 100);
    }
  }
  for (const char* query : {"after=x", "after=-1", "after=99999999999999999999", "after=1&after=2",
                            "after", "=1", "after=%31"}) {
    const int status = alice.get("/v1/jobs/" + job + "/events?" + query).status;
    EXPECT_TRUE(status == 400 || status == 404) << status << " " << query;
  }
  EXPECT_EQ(federation.get_json("/v1/jobs/" + job).at("status"), "running");
}

TEST_F(HostileRead, AStateThatIsNotThereIsNotFound) {
  EXPECT_EQ(get("/v1/models/" + std::string(64, '0')), "404 state_unknown");
  std::string upper = digest;
  for (char& c : upper) c = static_cast<char>(std::toupper(c));
  for (const std::string& malformed :
       {digest.substr(1), digest + "0", "x" + digest.substr(1), upper, std::string("latest"),
        digest + ".safetensors", std::string("..")}) {
    for (const Caller* caller : std::vector<const Caller*>{&alice, &device.caller()}) {
      const int status = caller->get("/v1/models/" + malformed).status;
      EXPECT_TRUE(status == 400 || status == 404) << status << " " << malformed;
    }
  }
}

TEST_F(HostileRead, S20_AStateWhoseFileIsLostIsGoneAndTheRestIsServed) {
  const auto states = take(StateFiles::open(federation.root() / "states"));
  std::filesystem::remove(states.path_of(take(Digest::from_hex(digest))));
  EXPECT_EQ(get(model), "410 artefact_missing");
  EXPECT_EQ(get("/v1/jobs/" + job), "200");
}

TEST_F(HostileRead, HTTP22_NoPathLeavesTheStates) {
  for (const char* path :
       {"/v1/models/../../muster.json", "/v1/models/%2e%2e/%2e%2e/muster.json",
        "/v1/models/..%2f..%2fmuster.db", "/v1/models/..\\..\\muster.db", "/v1/models//etc/passwd",
        "/../../etc/passwd", "/v1/models/./..", "//v1/jobs", "/v1//jobs", "/v1/jobs/"}) {
    const Reply reply = alice.get(path);
    EXPECT_TRUE(reply.status == 400 || reply.status == 404) << reply.status << " " << path;
    EXPECT_EQ(reply.header("content-type"), "application/problem+json");
    EXPECT_EQ(reply.body.find(federation.root().string()), std::string::npos);
  }
  EXPECT_EQ(alice.get("http://localhost/v1/jobs").status, 400);
}

TEST_F(HostileRead, AStateComesWholeOrInTheRangeAskedFor) {
  const Reply whole = alice.get(model);
  ASSERT_EQ(whole.status, 200);
  EXPECT_EQ(sha256(whole.body).hex(), digest);
  EXPECT_EQ(whole.header("etag"), "\"" + digest + "\"");
  const std::string size = std::to_string(whole.body.size());
  const auto expect_part = [&](const std::string& range, std::size_t first, std::size_t last) {
    const Reply part = alice.get(model, "Range: bytes=" + range + "\r\n");
    EXPECT_EQ(part.status, 206) << range;
    EXPECT_EQ(part.body, whole.body.substr(first, last - first + 1)) << range;
    EXPECT_EQ(part.header("content-range"), fmt::format("bytes {}-{}/{}", first, last, size));
  };
  const std::size_t end = whole.body.size() - 1;
  expect_part("0-9", 0, 9);
  expect_part("10-", 10, end);
  expect_part("-10", end - 9, end);
  expect_part("5-18446744073709551615", 5, end);
  expect_part("-18446744073709551615", 0, end);
  for (const std::string& range : {size + "-", size + "-" + size, std::string("-0")}) {
    const Reply refused = alice.get(model, "Range: bytes=" + range + "\r\n");
    EXPECT_EQ(outcome(refused), "416 range_not_satisfiable") << range;
    EXPECT_EQ(refused.header("content-range"), "bytes */" + size);
  }
}

TEST_F(HostileRead, HTTP30_ManyOrMalformedRangesGetTheWholeAtMostOnce) {
  std::string many = "bytes=0-";
  for (int i = 0; i < 1'900; ++i) many += ",0-";
  for (const std::string& range :
       {many, std::string("bytes=0-9,20-29"), std::string("bytes=9-0"), std::string("bytes=a-b"),
        std::string("bytes=0x1-2"), std::string("items=0-9"), std::string("bytes="),
        std::string("bytes=-"), std::string("bytes=--1"), std::string("bytes=+1-2"),
        std::string("bytes=18446744073709551616-")}) {
    const Reply reply = alice.get(model, "Range: " + range + "\r\n");
    EXPECT_TRUE(reply.status == 200 || reply.status == 416)
        << reply.status << " " << range.substr(0, 40);
    if (reply.status == 200) {
      EXPECT_EQ(sha256(reply.body).hex(), digest);
    }
  }
  const Reply too_long = alice.get(model, "Range: bytes=" + std::string(20'000, '1') + "\r\n");
  EXPECT_EQ(too_long.status, 431);
}

TEST_F(HostileRead, AStateThatTheCallerHasIsNotSentAgain) {
  const auto connection = alice.connect();
  const std::string same =
      request_text("GET", model, "", "", "If-None-Match: \"" + digest + "\"\r\n");
  const auto reply = connection->ask(same);
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->status, 304);
  EXPECT_EQ(reply->header("etag"), "\"" + digest + "\"");
  // No body came: the connection is good for the next request.
  EXPECT_EQ(connection->ask(request_text("GET", "/v1/jobs", "", "")).value_or(Reply{}).status, 200);
  EXPECT_EQ(alice.get(model, "If-None-Match: \"" + std::string(64, '0') + "\"\r\n").status, 200);
}

TEST_F(HostileRead, NoProblemTellsOfTheInside) {
  for (const char* path : {"/v1/jobs/x", "/v1/models/0", "/v1/nothing", "/v1/devices/x"}) {
    const Reply reply = alice.get(path);
    const Json problem = json_of(reply.body);
    EXPECT_EQ(problem.at("status"), reply.status);
    EXPECT_EQ(problem.at("request_id"), reply.header("muster-request-id"));
    for (const char* inside : {"SELECT", "sqlite", "/tmp", "std::", "OpenSSL", "server/"})
      EXPECT_EQ(reply.body.find(inside), std::string::npos) << reply.body;
  }
}

}  // namespace
}  // namespace muster::testing
