#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include "certs/enrolment_code.h"
#include "certs/pem.h"
#include "server/directory.h"
#include "storage/store.h"
#include "tests/integration/raw_client.h"

// Enrolment codes that are used, expired, invented or for another server, and requests that no
// certificate may come of.
namespace muster::testing {
namespace {

// A signing request of the given key, signed by `signer`.
std::string signing_request(EVP_PKEY* key, EVP_PKEY* signer) {
  X509_REQ* request = X509_REQ_new();
  X509_REQ_set_pubkey(request, key);
  X509_REQ_sign(request, signer, EVP_sha256());
  BIO* memory = BIO_new(BIO_s_mem());
  PEM_write_bio_X509_REQ(memory, request);
  char* text = nullptr;
  const long size = BIO_get_mem_data(memory, &text);
  std::string pem(text, static_cast<std::size_t>(size));
  BIO_free(memory);
  X509_REQ_free(request);
  return pem;
}

std::string request_with(EVP_PKEY* key) {
  std::string pem = signing_request(key, key);
  EVP_PKEY_free(key);
  return pem;
}

class HostileEnrolment : public ::testing::Test {
 protected:
  Caller door() {
    return Caller(federation.authority().certificate(), federation.server().enroll_port(),
                  std::nullopt);
  }
  Reply enroll_with(const std::string& secret, const std::string& name,
                    const std::string& request) {
    return door().post("/v1/enroll",
                       protocol::to_json(protocol::EnrollRequest{secret, name, request}).dump());
  }
  std::string new_secret() { return take(EnrolmentCode::parse(federation.new_code())).secret; }
  static std::string new_request() {
    return take(make_signing_request(take(PrivateKey::generate())));
  }

  // A code of an hour ago, put into the database of the server while it is down.
  std::string expired_secret() {
    const auto code =
        take(EnrolmentCode::generate(federation.authority().certificate().fingerprint()));
    federation.stop_server();
    {
      const auto store = take(Store::open(ServerDirectory{federation.root()}.database()));
      TokenRow token;
      token.secret_hash = EnrolmentCode::hash_secret(code.secret);
      token.batch = "old";
      token.created_at_ms = 1;
      token.expires_at_ms = to_ms(wall_now()) - 3'600'000;
      token.created_by = "alice";
      EventRow event;
      event.at_ms = 1;
      event.kind = "tokens_created";
      event.actor = "alice";
      event.details = Json::object();
      take(store->add_tokens({token}, event));
    }
    federation.start_server();
    return code.secret;
  }
  static std::int64_t to_ms(WallTime time) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
  }
  // "name reason" of every refusal that the event log holds. Stops the server.
  std::vector<std::string> logged_refusals() {
    federation.stop_server();
    const auto store = take(Store::open(ServerDirectory{federation.root()}.database()));
    std::vector<std::string> refusals;
    for (const EventRow& event : take(store->list_events("", 0, 1'000))) {
      if (event.kind == "enrolment_refused")
        refusals.push_back(event.actor + " " + event.details.at("reason").get<std::string>());
    }
    return refusals;
  }
  std::size_t devices() { return federation.get_json("/v1/devices").at("devices").size(); }

  Federation federation;
};

TEST_F(HostileEnrolment, AUTH01_AUTH02_UsedExpiredAndInventedCodesLookAlikeAndTheLogTells) {
  const std::string expired = expired_secret();
  const std::string used = new_secret();
  ASSERT_EQ(outcome(enroll_with(used, "first", new_request())), "200");
  std::vector<std::string> bodies;
  for (const auto& [secret, name] :
       std::vector<std::pair<std::string, std::string>>{{used, "second"},
                                                        {used, "first"},
                                                        {expired, "third"},
                                                        {"abcdefghijklmnopqrstuvwxyz", "fourth"},
                                                        {"x", "fifth"}}) {
    const Reply reply = enroll_with(secret, name, new_request());
    EXPECT_EQ(outcome(reply), "401 enrolment_refused") << name;
    Json body = json_of(reply.body);
    EXPECT_FALSE(body.at("request_id").get<std::string>().empty());
    body.erase("request_id");
    bodies.push_back(body.dump());
  }
  EXPECT_EQ(bodies, std::vector<std::string>(5, bodies.front()));
  EXPECT_EQ(devices(), 1U);
  EXPECT_EQ(logged_refusals(), (std::vector<std::string>{
                                   "second token_used", "first token_used", "third token_expired",
                                   "fourth token_unknown", "fifth token_unknown"}));
}

TEST_F(HostileEnrolment, AUTH01_ABadRequestDoesNotTellWhetherACodeWasEverGiven) {
  const std::string expired = expired_secret();
  const std::string used = new_secret();
  ASSERT_EQ(outcome(enroll_with(used, "first", new_request())), "200");
  for (const std::string& secret : {used, expired, std::string("abcdefghijklmnopqrstuvwxyz")})
    EXPECT_EQ(outcome(enroll_with(secret, "second", "no request")), "401 enrolment_refused");
}

TEST_F(HostileEnrolment, ATakenNameIsRefusedAndTheCodeStaysGood) {
  ASSERT_EQ(outcome(enroll_with(new_secret(), "device-1", new_request())), "200");
  const Json before = federation.get_json("/v1/devices/device-1");
  const std::string secret = new_secret();
  EXPECT_EQ(outcome(enroll_with(secret, "device-1", new_request())), "409 device_exists");
  EXPECT_EQ(federation.get_json("/v1/devices/device-1"), before);
  EXPECT_EQ(outcome(enroll_with(secret, "device-2", new_request())), "200");
  EXPECT_EQ(devices(), 2U);
}

TEST_F(HostileEnrolment, AUTH08_AfterALostAnswerTheSameKeyGetsTheSameCertificate) {
  const std::string secret = new_secret();
  const std::string request = new_request();
  const Reply first = enroll_with(secret, "device-1", request);
  ASSERT_EQ(outcome(first), "200");
  const Reply again = enroll_with(secret, "device-1", request);
  EXPECT_EQ(outcome(again), "200");
  EXPECT_EQ(again.body, first.body);
  EXPECT_EQ(outcome(enroll_with(secret, "device-2", request)), "401 enrolment_refused");
  EXPECT_EQ(devices(), 1U);
}

TEST_F(HostileEnrolment, AUTH07_ABadSigningRequestIsRefusedAndTheCodeStaysGood) {
  const PrivateKey key = take(PrivateKey::generate());
  const PrivateKey other = take(PrivateKey::generate());
  const std::string good = take(make_signing_request(key));
  const std::string certificate = federation.authority().certificate().pem();
  const std::string secret = new_secret();
  for (const std::string& bad :
       {std::string("no request"), good.substr(0, good.size() / 2), good + good, certificate,
        signing_request(key.native(), other.native()), request_with(EVP_RSA_gen(1024)),
        request_with(EVP_RSA_gen(2048)), request_with(EVP_EC_gen("P-384")),
        std::string(20'000, 'A')}) {
    EXPECT_EQ(outcome(enroll_with(secret, "device-1", bad)), "422 bad_request")
        << bad.substr(0, 60);
  }
  for (const std::string& bad : {std::string(), std::string(60'000, 'A') + std::string(9, 'B')})
    EXPECT_EQ(enroll_with(secret, "device-1", bad).status / 100, 4);
  EXPECT_EQ(outcome(enroll_with(secret, "device-1", std::string(1 << 20, 'A'))),
            "413 body_too_large");
  EXPECT_EQ(devices(), 0U);
  EXPECT_EQ(outcome(enroll_with(secret, "device-1", good)), "200");
}

TEST_F(HostileEnrolment, P20_P21_AMalformedMessageIsRefusedAndTheCodeStaysGood) {
  const std::string secret = new_secret();
  const Json good = protocol::to_json(protocol::EnrollRequest{secret, "device-1", new_request()});
  const auto with = [&](const char* field, const Json& value) {
    Json bent = good;
    bent[field] = value;
    return bent.dump();
  };
  const std::string text = good.dump();
  for (const std::string& malformed :
       {std::string(), text.substr(1), text + "x", "{\"name\":\"a\"," + text.substr(1),
        with("role", "operator"), with("secret", 7), with("secret", ""), with("name", nullptr)}) {
    EXPECT_EQ(door().post("/v1/enroll", malformed).status, 400) << malformed.substr(0, 40);
  }
  EXPECT_EQ(outcome(door().post("/v1/enroll", with("protocol", 2))), "400 version_unsupported");
  for (const char* name : {"../x", "a b", "\"><img src=x>", "", ".hidden", "urn:muster:operator"})
    EXPECT_EQ(door().post("/v1/enroll", with("name", name)).status / 100, 4) << name;
  EXPECT_EQ(devices(), 0U);
  EXPECT_EQ(outcome(door().post("/v1/enroll", text)), "200");
}

TEST_F(HostileEnrolment, TLS29_ADeviceStopsBeforeItSendsTheSecretToAnotherServer) {
  Federation impostor;
  const std::string code = impostor.new_code();  // of another authority
  const auto secret = take(EnrolmentCode::parse(code)).secret;
  const Result<std::string> refused =
      enroll({federation.enroll_url(), code, federation.folder("device-1"), "device-1"});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnauthenticated);
  EXPECT_EQ(refused.error().reason, "wrong_authority");
  EXPECT_EQ(refused.error().message.find(secret), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(federation.folder("device-1") / "device.json"));
  // The secret never got there: the code is still good where it belongs, and nothing was asked
  // here.
  EXPECT_TRUE(enroll({impostor.enroll_url(), code, federation.folder("device-1"), "device-1"}));
  EXPECT_EQ(logged_refusals(), std::vector<std::string>{});
}

TEST_F(HostileEnrolment, TheEnrolmentPortHasNoOtherRoute) {
  for (const char* path : {"/v1/jobs", "/v1/devices", "/v1/tokens", "/"})
    EXPECT_EQ(outcome(door().get(path)), "404 not_found") << path;
  EXPECT_EQ(outcome(door().get("/v1/enroll")), "405 method_not_allowed");
}

}  // namespace
}  // namespace muster::testing
