// Bodies in both directions: exact, bounded, no slower than allowed, and never left behind.
#include <sys/resource.h>

#include "core/base/digest.h"
#include "tests/server/http/door_fixture.h"

namespace muster::http {
namespace {

class Body : public FrontDoorTest {
 protected:
  static std::string pattern(std::size_t bytes) {
    std::string text(bytes, '\0');
    std::uint32_t seed = 7;
    for (char& c : text) c = static_cast<char>((seed = seed * 1664525u + 1013904223u) >> 24);
    return text;
  }
};

TEST_F(Body, IsSpooledExactlyHashedPrivateAndGoneAfterwards) {
  start();
  const auto client = connect();
  for (const std::size_t size : {0ul, 1ul, 65'536ul, 65'537ul, 3'000'000ul}) {
    const std::string content = pattern(size);
    const auto reply = client->ask(put_head("a", size) + content);
    ASSERT_TRUE(reply.has_value()) << size;
    EXPECT_EQ(
        Json::parse(reply->body),
        (Json{{"bytes", size}, {"digest", sha256(content).hex()}, {"size", size}, {"mode", 0600}}));
  }
  EXPECT_TRUE(spool_becomes_empty());
}

TEST_F(Body, StaysWhenTheHandlerTakesTheFile) {
  std::filesystem::path kept;
  on_spooled = [&](const Request& request) {
    request.spooled->release();
    kept = request.spooled->path();
  };
  start();
  EXPECT_EQ(ask(put_head("a", 3) + "abc")->status, 200);
  door->stop(Milliseconds(0));
  EXPECT_TRUE(std::filesystem::exists(kept));
}

TEST_F(Body, Http05OverTheAdmittedSizeIsRefusedBeforeOneByteIsRead) {
  start();
  const auto reply = ask(put_head("a", kSpoolLimit + 1));
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->status, 413);
  EXPECT_EQ(code_of(*reply), "body_too_large");
  EXPECT_TRUE(std::filesystem::is_empty(spool.path()));
}

TEST_F(Body, TheRoutesOwnRefusalReachesAPeerThatIsStillSending) {
  start();
  const auto client = connect();
  // All of it can be sent: a connection cut at once would be reset under the peer's hands.
  EXPECT_TRUE(client->send(put_head("closed", 1'000'000) + pattern(1'000'000)));
  const auto reply = client->read();
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->status, 410);
  EXPECT_TRUE(reply->closes());
  EXPECT_TRUE(client->is_closed());
  EXPECT_EQ(calls, 0);
}

TEST_F(Body, Http06SurplusIsNeverARequest) {
  start();
  const auto client = connect();
  const auto reply = client->ask(post("/v1/echo", "{}") + get("/v1/hello"));
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->status, 200);
  EXPECT_EQ(Json::parse(reply->body).at("body"), "{}");
  EXPECT_TRUE(reply->closes());
  EXPECT_TRUE(client->is_closed());
  EXPECT_EQ(calls, 1);
}

TEST_F(Body, Http06BytesDuringALongPollAreNeverARequest) {
  start();
  const auto client = connect();
  client->send(get("/v1/wait"));
  ASSERT_TRUE(wait_for_parked(1));
  client->send(get("/v1/hello"));
  auto waiting = take_parked();
  waiting[0](Response::json(Json::object()));
  EXPECT_EQ(client->read()->status, 200);
  EXPECT_TRUE(client->is_closed());
  EXPECT_EQ(calls, 1);
}

TEST_F(Body, ManyRequestsAtOnceEachInItsRecordAreAnsweredInTurn) {
  start();
  const auto client = connect();
  for (int i = 0; i < 1'000; ++i) client->send(get("/v1/none"));
  for (int i = 0; i < 1'000; ++i) {
    const auto reply = client->read();
    ASSERT_TRUE(reply.has_value()) << i;
    ASSERT_EQ(reply->status, 404);
  }
}

TEST_F(Body, ContinueIsSaidOnlyToAdmittedBodies) {
  start();
  const auto client = connect();
  client->send(put_head("a", 3, "Expect: 100-continue\r\n"));
  const auto go_on = client->read();
  ASSERT_TRUE(go_on.has_value());
  EXPECT_EQ(go_on->status, 100);
  EXPECT_EQ(client->ask("abc")->status, 200);
  client->send(put_head("a", kSpoolLimit + 1, "Expect: 100-continue\r\n"));
  EXPECT_EQ(client->read()->status, 413);
}

TEST_F(Body, Http02ASlowBodyIsCutAndNothingStays) {
  start();
  for (const std::string& head :
       {put_head("a", 1'000), post("/v1/echo", std::string(1'000, ' ')).substr(0, 110)}) {
    const auto client = connect();
    client->send(head);
    const auto began = SteadyClock::now();
    while (!client->raw().wait_readable(Milliseconds(50))) {
      ASSERT_LT(SteadyClock::now() - began, Milliseconds(4'000));
      client->send("x");
    }
    const auto reply = client->read();
    ASSERT_TRUE(reply.has_value());
    EXPECT_EQ(reply->status, 408);
    EXPECT_TRUE(client->is_closed());
  }
  EXPECT_EQ(calls, 0);
  EXPECT_TRUE(spool_becomes_empty());
}

TEST_F(Body, AnUploadThatBreaksOffLeavesNothing) {
  start();
  for (const std::size_t sent : {0u, 10u, 70'000u}) {
    const auto client = connect();
    client->send(put_head("a", 100'000) + pattern(sent));
    client->hang_up();
  }
  EXPECT_TRUE(wait_until([&] { return log.size() == 3; }));
  EXPECT_EQ(records_with("in the middle of a body"), 3u);
  EXPECT_TRUE(spool_becomes_empty());
  EXPECT_EQ(calls, 0);
}

TEST_F(Body, AFullDiskGives507AndLaterUploadsWork) {
  start();
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old_action = signal(SIGXFSZ, SIG_IGN);
  const rlimit small{100'000, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto client = connect();
  const auto refused = client->ask(put_head("a", 3'000'000) + pattern(3'000'000));
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, old_action);
  ASSERT_TRUE(refused.has_value());
  EXPECT_EQ(refused->status, 507);
  EXPECT_EQ(code_of(*refused), "disk_full");
  EXPECT_TRUE(client->is_closed());
  EXPECT_TRUE(spool_becomes_empty());
  EXPECT_EQ(ask(put_head("a", 200'000) + pattern(200'000))->status, 200);
}

TEST_F(Body, AMissingSpoolFolderGives503AndNoPath) {
  options.spool_folder = spool.path() / "gone";
  start();
  const auto reply = ask(put_head("a", 3) + "abc");
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->status, 503);
  EXPECT_EQ(code_of(*reply), "spool_failed");
  EXPECT_EQ(reply->body.find("gone"), std::string::npos);
}

TEST_F(Body, AFileSliceIsSentExactly) {
  const std::string content = pattern(1'000'000);
  slice = {spool.path() / "model", 12'345, 700'000};
  std::ofstream(slice.path, std::ios::binary) << content;
  start();
  const auto client = connect();
  for (int i = 0; i < 2; ++i) {
    const auto reply = client->ask(get("/v1/file"));
    ASSERT_TRUE(reply.has_value());
    EXPECT_EQ(reply->status, 200);
    EXPECT_TRUE(reply->body == content.substr(12'345, 700'000));
  }
  for (const FileSlice& missing :
       {FileSlice{spool.path() / "none", 0, 1}, FileSlice{slice.path, 999'999, 2},
        FileSlice{slice.path, 1, UINT64_MAX}, FileSlice{spool.path(), 0, 1}}) {
    slice = missing;
    const auto reply = client->ask(get("/v1/file"));
    ASSERT_TRUE(reply.has_value());
    EXPECT_EQ(reply->status, 500);
    EXPECT_EQ(code_of(*reply), "internal");
  }
}

TEST_F(Body, ASlowReaderIsCut) {
  slice = {spool.path() / "model", 0, 64 << 20};
  std::ofstream(slice.path, std::ios::binary) << "";
  std::filesystem::resize_file(slice.path, slice.bytes);
  start();
  const auto client = connect();
  client->send(get("/v1/file"));
  EXPECT_TRUE(wait_for_problem("the peer read too slowly"));
  EXPECT_EQ(ask(get("/v1/hello"))->status, 200);
}

TEST_F(Body, Http29WhatAHandlerThrowsStaysInside) {
  start();
  const auto client = connect();
  for (const char* path : {"/v1/throw", "/v1/forget"}) {
    const auto reply = client->ask(get(path));
    ASSERT_TRUE(reply.has_value());
    EXPECT_EQ(reply->status, 500);
    EXPECT_EQ(code_of(*reply), "internal");
    EXPECT_EQ(reply->body.find("secret"), std::string::npos);
    EXPECT_NE(reply->body.find(reply->header("muster-request-id")), std::string::npos);
  }
  EXPECT_TRUE(wait_for_problem("secret"));  // for the operator, in the log
  EXPECT_EQ(client->ask(get("/v1/hello"))->status, 200);
}

}  // namespace
}  // namespace muster::http
