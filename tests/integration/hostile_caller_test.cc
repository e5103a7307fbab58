#include "tests/integration/raw_client.h"

// Who may call at all, and what: certificates, roles, and routes.
namespace muster::testing {
namespace {

constexpr std::chrono::hours kDay{24};

// What a caller with this certificate meets: the TLS alert, or the status of GET /v1/jobs.
std::string reception(Federation& federation, std::optional<KeyPair> pair) {
  const Caller caller(federation.authority().certificate(), federation.server().api_port(),
                      std::move(pair));
  const auto connection = caller.connect();
  const std::optional<Reply> reply = connection->ask(request_text("GET", "/v1/jobs", "", ""));
  if (reply) return outcome(*reply);
  return connection->alert() ? "alert " + std::to_string(*connection->alert()) : "silence";
}

KeyPair issued(const Authority& authority, Role role, WallTime at) {
  return take(issue_key_pair(authority, {role, "mallory"}, at, kDay));
}

TEST(HostileCaller, TLS10_TLS12_TLS13_TLS14_AnUnfitCertificateEndsInTheHandshake) {
  Federation federation;
  const Authority ours = federation.authority();
  const Authority foreign = take(Authority::create(wall_now()));
  EXPECT_EQ(reception(federation, std::nullopt), "alert 116");
  EXPECT_EQ(reception(federation, issued(foreign, Role::kOperator, wall_now())), "alert 48");
  EXPECT_EQ(reception(federation, issued(ours, Role::kOperator, wall_now() - 3 * kDay)),
            "alert 45");
  EXPECT_EQ(reception(federation, issued(ours, Role::kOperator, wall_now() + 3 * kDay)),
            "alert 42");
  // TLS-17: the server's own certificate is none of a client.
  const std::filesystem::path server = federation.root() / "server";
  EXPECT_EQ(reception(federation, KeyPair{take(PrivateKey::read(server / "server.key")),
                                          take(Certificate::read(server / "server.pem"))}),
            "alert 43");
  EXPECT_EQ(reception(federation, issued(ours, Role::kOperator, wall_now())), "200");
}

TEST(HostileCaller, ADeviceThatNeverEnrolledIsUnknown) {
  Federation federation;
  HandDevice enrolled(federation, "enrolled");
  // Of our own authority, and once even under an enrolled device's name: the key decides.
  for (const char* name : {"ghost", "enrolled"}) {
    const Caller ghost = caller_as(federation, {Role::kDevice, name});
    const std::string check_in = R"({"protocol":1,"tags":[],"examples":10,"wait_ms":0})";
    EXPECT_EQ(outcome(ghost.post("/v1/checkin", check_in)), "403 device_unknown");
    EXPECT_EQ(outcome(ghost.get("/v1/models/" + std::string(64, '0'))), "403 device_unknown");
    EXPECT_EQ(outcome(ghost.post("/v1/tasks/x/result", R"({"examples":1,"metrics":{}})")),
              "403 device_unknown");
  }
  const Json devices = federation.get_json("/v1/devices").at("devices");
  ASSERT_EQ(devices.size(), 1U);
  EXPECT_EQ(devices[0].at("device"), "enrolled");
  EXPECT_EQ(devices[0].at("examples"), 0);
}

TEST(HostileCaller, AnUpdateUnderAnEnrolledNameWithAnotherKeyIsRefused) {
  Federation federation;
  HandDevice honest(federation, "honest");
  Json wanted = small_job(1, 1);
  wanted["evaluation"] = {{"federated", false}};
  const std::string job = federation.submit(wanted);
  const protocol::Task task = honest.task();
  const LayoutPtr layout = honest.state_of(task).layout_ptr();
  const Caller impostor = caller_as(federation, {Role::kDevice, "honest"});
  const Upload upload = upload_for(task, *layout, 9.0F, 10);
  const std::string said = upload.statement.dump();
  const std::string signature =
      base64_encode(take(impostor.pair().key.sign(protocol::update_signing_input(said))));
  const std::string text = request_text("PUT", upload.path, upload.body, upload.type,
                                        "Muster-Update: " + base64_encode(as_bytes(said)) +
                                            "\r\nMuster-Signature: " + signature + "\r\n");
  EXPECT_EQ(outcome(impostor.say(text)), "403 device_unknown");
  EXPECT_EQ(outcome(honest.send(upload_for(task, *layout, 1.0F, 10))), "200");
  federation.wait_for_end(job);
  EXPECT_EQ(federation.get_json("/v1/jobs/" + job + "/rounds/1").at("participants")[0].at("digest"),
            upload_for(task, *layout, 1.0F, 10).statement.at("digest"));
}

struct Call {
  std::string method, path, body;
};

std::string try_call(const Caller& caller, const Call& call) {
  const std::string type = call.method == "GET"   ? ""
                           : call.method == "PUT" ? "application/octet-stream"
                                                  : "application/json";
  return outcome(caller.say(request_text(call.method, call.path, call.body, type)));
}

std::vector<Call> operator_calls(const std::string& job) {
  return {{"POST", "/v1/tokens", R"({"uses":1,"ttl_s":60,"tags":[]})"},
          {"POST", "/v1/jobs", small_job(1, 1).dump()},
          {"POST", "/v1/jobs/" + job + "/stop", "{}"}};
}

std::vector<Call> reading_calls(const std::string& job) {
  return {{"GET", "/v1/tokens", ""},
          {"GET", "/v1/jobs", ""},
          {"GET", "/v1/jobs/" + job, ""},
          {"GET", "/v1/jobs/" + job + "/rounds", ""},
          {"GET", "/v1/jobs/" + job + "/rounds/1", ""},
          {"GET", "/v1/jobs/" + job + "/events", ""},
          {"GET", "/v1/devices", ""},
          {"GET", "/v1/devices/device-1", ""}};
}

std::vector<Call> device_calls(const std::string& job) {
  return {{"POST", "/v1/checkin", R"({"protocol":1,"tags":[],"examples":10,"wait_ms":0})"},
          {"POST", "/v1/tasks/0123/result", R"({"examples":1,"metrics":{}})"},
          {"PUT", "/v1/jobs/" + job + "/rounds/1/update", "body"}};
}

class HostileRole : public ::testing::Test {
 protected:
  // What a refused call could have changed.
  std::string everything() {
    std::string text;
    for (const Call& call : reading_calls(job)) {
      Json json = federation.get_json(call.path);
      if (json.contains("jobs")) json = json["jobs"][0];
      for (const char* passing : {"live", "elapsed_ms"}) json.erase(passing);
      text += json.dump() + "\n";
    }
    return text;
  }

  Federation federation;
  HandDevice device{federation, "device-1"};
  std::string job = federation.submit(small_job(1, 1));
};

TEST_F(HostileRole, ADeviceMayCallNoOperatorRoute) {
  const std::string before = everything();
  for (const auto& calls : {operator_calls(job), reading_calls(job)}) {
    for (const Call& call : calls)
      EXPECT_EQ(try_call(device.caller(), call), "403 wrong_role") << call.method << call.path;
  }
  EXPECT_EQ(everything(), before);
}

TEST_F(HostileRole, OperatorsAndAuditorsMayCallNoDeviceRoute) {
  const std::string before = everything();
  for (const Role role : {Role::kOperator, Role::kAuditor}) {
    const Caller caller = caller_as(federation, {role, "alice"});
    for (const Call& call : device_calls(job))
      EXPECT_EQ(try_call(caller, call), "403 wrong_role") << call.method << call.path;
  }
  EXPECT_EQ(everything(), before);
}

TEST_F(HostileRole, AnAuditorReadsEverythingAndChangesNothing) {
  const Caller auditor = caller_as(federation, {Role::kAuditor, "olga"});
  const std::string before = everything();
  for (const Call& call : operator_calls(job))
    EXPECT_EQ(try_call(auditor, call), "403 wrong_role") << call.path;
  for (const Call& call : reading_calls(job))
    EXPECT_EQ(try_call(auditor, call), "200") << call.path;
  EXPECT_EQ(everything(), before);
  EXPECT_EQ(federation.get_json("/v1/jobs/" + job).at("status"), "running");
}

TEST_F(HostileRole, HTTP16_ARequestHiddenInARefusedBodyIsNotExecuted) {
  const Caller operator_caller = caller_as(federation, {Role::kOperator, "alice"});
  const std::string hidden =
      request_text("POST", "/v1/jobs/" + job + "/stop", "{}", "application/json");
  const auto connection = operator_caller.connect();
  const auto refused = connection->ask(request_text("PUT", "/v1/jobs/" + job + "/rounds/1/update",
                                                    hidden, "application/octet-stream"));
  ASSERT_TRUE(refused);
  EXPECT_EQ(outcome(*refused), "403 wrong_role");
  EXPECT_TRUE(connection->is_closed());
  EXPECT_EQ(federation.get_json("/v1/jobs/" + job).at("status"), "running");
}

}  // namespace
}  // namespace muster::testing
