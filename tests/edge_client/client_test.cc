#include "edge_client/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "certs/enrolment_code.h"
#include "core/tensor/safetensors.h"
#include "tests/edge_client/scripted_server.h"

namespace muster {
namespace {

using namespace testing;
using ::testing::HasSubstr;

StateDict small_state(float value) {
  StateDict state(must(StateLayout::create({{"w", {2, 2}}, {"b", {2}}})));
  for (float& v : state.values()) v = value;
  return state;
}

std::string text_of(const StateDict& state) {
  return std::string(as_text(write_state(state)));
}

class ClientTest : public ::testing::Test {
 protected:
  ScriptedServer serve(std::function<std::string(const ScriptedRequest&)> answer) const {
    return ScriptedServer(world_.server, world_.authority.certificate(),
                          &world_.authority.certificate(), answering(std::move(answer)));
  }
  protocol::UpdateStatement statement(const StateDict& state) const {
    return {"job-1", 3, 1, "task-1", sha256("base"), state_digest(state), 60, 6, {{"loss", 0.5}}};
  }
  static protocol::Receipt receipt_for(const protocol::UpdateStatement& sent) {
    return {sent.job, sent.round, "device-01", sent.digest, sent.examples, 1'700'000'000'000};
  }

  World world_;
  TemporaryFolder folder_;
};

TEST_F(ClientTest, AnUpdateIsSignedOverItsStatementAndVerifiesWithTheCertificate) {
  const StateDict state = small_state(2);
  const auto sent = statement(state);
  ScriptedRequest seen;
  const auto server = serve([&](const ScriptedRequest& request) {
    seen = request;
    return http(200, protocol::to_json(receipt_for(sent)).dump());
  });
  const auto identity = world_.identity(folder_.path(), server.port());
  must(write_file_durably(folder_.path() / "u", write_state(state)));
  const auto receipt = Client(identity).send_update(sent, folder_.path() / "u");
  ASSERT_TRUE(receipt) << receipt.error().message;

  EXPECT_EQ(seen.method + " " + seen.path, "PUT /v1/jobs/job-1/rounds/3/update");
  EXPECT_EQ(sha256(seen.body), sent.digest);
  const std::string text(as_text(must(base64_decode(seen.headers.at("muster-update")))));
  const auto signature = must(base64_decode(seen.headers.at("muster-signature")));
  EXPECT_TRUE(world_.device.certificate.verify("muster-update-v1\n" + text, signature));
  EXPECT_FALSE(world_.device.certificate.verify(text, signature));
  const auto read_back = must(protocol::update_statement_from_json(must(parse_json(text))));
  EXPECT_EQ(read_back.task, "task-1");
  EXPECT_EQ(read_back.base, sha256("base"));
  EXPECT_EQ(read_back.digest, sent.digest);
  EXPECT_EQ(read_back.examples, 60);
}

TEST_F(ClientTest, AReceiptForSomethingElseIsAnError) {
  const StateDict state = small_state(2);
  const auto sent = statement(state);
  auto receipt = receipt_for(sent);
  const auto server =
      serve([&](const ScriptedRequest&) { return http(200, protocol::to_json(receipt).dump()); });
  const auto identity = world_.identity(folder_.path(), server.port());
  must(write_file_durably(folder_.path() / "u", write_state(state)));
  Client client(identity);
  const auto try_with = [&](auto change) {
    receipt = receipt_for(sent);
    change();
    const auto answer = client.send_update(sent, folder_.path() / "u");
    return answer ? std::string() : answer.error().reason;
  };
  EXPECT_EQ(try_with([] {}), "");
  EXPECT_EQ(try_with([&] { receipt.digest = Digest{}; }), "receipt_mismatch");
  EXPECT_EQ(try_with([&] { receipt.device = "device-02"; }), "receipt_mismatch");
  EXPECT_EQ(try_with([&] { receipt.round = 4; }), "receipt_mismatch");
  EXPECT_EQ(try_with([&] { receipt.examples = 61; }), "receipt_mismatch");
}

TEST_F(ClientTest, AStateIsDownloadedOnceAndReadFromDiskAfterwards) {
  const StateDict state = small_state(3);
  std::atomic<int> downloads = 0;
  const auto server = serve([&](const ScriptedRequest& request) {
    EXPECT_EQ(request.path, "/v1/models/" + state_digest(state).hex());
    ++downloads;
    return http(200, text_of(state), "application/octet-stream");
  });
  const auto identity = world_.identity(folder_.path(), server.port());
  Client client(identity);
  for (int i = 0; i < 2; ++i) {
    const auto fetched =
        client.fetch_state(state_digest(state), text_of(state).size(), folder_.path());
    ASSERT_TRUE(fetched) << fetched.error().message;
    EXPECT_TRUE(*fetched == state);
  }
  EXPECT_EQ(downloads, 1);

  const auto stored = folder_.path() / (state_digest(state).hex() + ".safetensors");
  std::string damaged = text_of(state);
  damaged.back() = static_cast<char>(damaged.back() ^ 1);
  must(write_file_durably(stored, as_bytes(damaged)));
  EXPECT_TRUE(must(client.fetch_state(state_digest(state), damaged.size(), folder_.path())) ==
              state);
  EXPECT_EQ(downloads, 2) << "a damaged copy is fetched again";
}

TEST_F(ClientTest, E04_AnAnswerThatIsNotUnderstoodCanBeTriedAgainLater) {
  for (const char* body : {"<html>", "{\"a\":1}", "[]", ""}) {
    const auto server = serve([&](const ScriptedRequest&) { return http(200, body); });
    const auto identity = world_.identity(folder_.path(), server.port());
    const auto answer = Client(identity).check_in({{}, 5, 0});
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().code, ErrorCode::kUnavailable) << body;
  }
}

TEST_F(ClientTest, AResultThatWasReportedBeforeIsNoError) {
  const auto server =
      serve([](const ScriptedRequest&) { return problem(409, "already_reported"); });
  const auto identity = world_.identity(folder_.path(), server.port());
  EXPECT_TRUE(Client(identity).send_result("task-1", {10, {{"loss", 1.0}}}));
}

TEST_F(ClientTest, E12_AKeyFileOpenToOthersIsRefused) {
  (void)world_.identity(folder_.path(), 8443);
  ASSERT_EQ(::chmod((folder_.path() / "device.key").c_str(), 0644), 0);
  const auto identity = DeviceIdentity::read(folder_.path());
  ASSERT_FALSE(identity);
  EXPECT_EQ(identity.error().code, ErrorCode::kFailedPrecondition);
}

TEST_F(ClientTest, AFolderWithoutIdentitySaysHowToEnrol) {
  const auto identity = DeviceIdentity::read(folder_.path());
  ASSERT_FALSE(identity);
  EXPECT_EQ(identity.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(identity.error().message, HasSubstr("muster-edge enroll"));
}

class EnrollTest : public ClientTest {
 protected:
  ScriptedServer enrolment(std::function<std::string(const ScriptedRequest&)> answer) const {
    return ScriptedServer(world_.server, world_.authority.certificate(), nullptr,
                          answering(std::move(answer)));
  }
  std::string issue(const ScriptedRequest& request, Role role = Role::kDevice) {
    const auto asked = must(protocol::enroll_request_from_json(must(parse_json(request.body))));
    const auto leaf = must(world_.authority.issue(asked.request, {role, asked.name}, now(), kDay));
    keys_.push_back(leaf.public_key_hash());
    secret_ = asked.secret;
    return http(
        200, protocol::to_json(protocol::EnrollResponse{asked.name, leaf.pem(),
                                                        world_.authority.certificate().pem(), 9443})
                 .dump());
  }
  EnrollOptions options(const ScriptedServer& server, const std::string& name) const {
    return {server.url(), code_.text(), folder_.path() / "device", name};
  }

  EnrolmentCode code_ = must(EnrolmentCode::generate(world_.authority.certificate().fingerprint()));
  std::vector<Digest> keys_;
  std::string secret_;
};

TEST_F(EnrollTest, WritesAnIdentityThatReadsBack) {
  const auto server = enrolment([&](const ScriptedRequest& request) { return issue(request); });
  const auto name = enroll(options(server, "meter-7"));
  ASSERT_TRUE(name) << name.error().message;
  EXPECT_EQ(*name, "meter-7");
  EXPECT_EQ(secret_, code_.secret);
  const auto identity = must(DeviceIdentity::read(folder_.path() / "device"));
  EXPECT_EQ(identity.name, "meter-7");
  EXPECT_EQ(identity.server.text(), "https://localhost:9443");
  struct stat about {};
  ASSERT_EQ(::stat((folder_.path() / "device").c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777U, 0700U);
  ASSERT_EQ(::stat((folder_.path() / "device" / "device.key").c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777U, 0600U);
  EXPECT_EQ(enroll(options(server, "meter-8")).error().code, ErrorCode::kAlreadyExists);
}

TEST_F(EnrollTest, ADefaultNameComesFromTheKey) {
  const auto server = enrolment([&](const ScriptedRequest& request) { return issue(request); });
  const std::string name = must(enroll(options(server, "")));
  EXPECT_EQ(name, "device-" + keys_.at(0).hex().substr(0, 8));
}

TEST_F(EnrollTest, AUTH08_AfterALostAnswerTheSameKeyIsUsed) {
  const auto server = enrolment([&](const ScriptedRequest& request) {
    const std::string answer = issue(request);
    return keys_.size() == 1 ? std::string() : answer;
  });
  const auto lost = enroll(options(server, "meter-7"));
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().code, ErrorCode::kUnavailable);
  EXPECT_FALSE(DeviceIdentity::read(folder_.path() / "device"));
  ASSERT_TRUE(enroll(options(server, "meter-7")));
  ASSERT_EQ(keys_.size(), 2U);
  EXPECT_EQ(keys_[0], keys_[1]);
}

TEST_F(EnrollTest, TheSecretIsNotSentToAServerOfAnotherAuthority) {
  const World impostor;
  std::atomic<int> requests = 0;
  const ScriptedServer server(
      impostor.server, impostor.authority.certificate(), nullptr,
      [&](ScriptedConnection& connection, int) { requests += connection.read_head().has_value(); });
  const auto name = enroll(options(server, "meter-7"));
  ASSERT_FALSE(name);
  EXPECT_EQ(name.error().reason, "wrong_authority");
  EXPECT_EQ(requests, 0);
}

TEST_F(EnrollTest, ACertificateThatIsNotOursIsNotStored) {
  std::function<std::string(const ScriptedRequest&)> answer;
  const auto server = enrolment([&](const ScriptedRequest& request) { return answer(request); });
  const auto respond = [&](const Certificate& leaf, const std::string& device) {
    return http(
        200, protocol::to_json(protocol::EnrollResponse{device, leaf.pem(),
                                                        world_.authority.certificate().pem(), 9443})
                 .dump());
  };
  const auto expect_refused = [&](std::function<std::string(const ScriptedRequest&)> given) {
    answer = std::move(given);
    const auto name = enroll(options(server, "device-01"));
    ASSERT_FALSE(name);
    EXPECT_FALSE(DeviceIdentity::read(folder_.path() / "device"));
  };
  expect_refused([&](const ScriptedRequest& request) { return issue(request, Role::kOperator); });
  expect_refused(
      [&](const ScriptedRequest&) { return respond(world_.device.certificate, "device-01"); });
  expect_refused([&](const ScriptedRequest& request) {
    const World others;
    const auto asked = must(protocol::enroll_request_from_json(must(parse_json(request.body))));
    return respond(
        must(others.authority.issue(asked.request, {Role::kDevice, asked.name}, now(), kDay)),
        "device-01");
  });
  expect_refused([&](const ScriptedRequest&) { return problem(401, "enrolment_refused"); });
  answer = [&](const ScriptedRequest& request) { return issue(request); };
  EXPECT_TRUE(enroll(options(server, "device-01"))) << "and afterwards it still can";
}

}  // namespace
}  // namespace muster
