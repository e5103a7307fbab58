#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "core/base/digest.h"
#include "tests/edge_client/transport_fixture.h"

namespace muster {
namespace {

using namespace testing;
using std::chrono::milliseconds;
using ::testing::HasSubstr;

TEST_F(TransportTest, GivesStatusBodyAndHeadersAndKeepsTheConnection) {
  std::vector<ScriptedRequest> seen;
  const auto server = serve(answering([&](const ScriptedRequest& request) {
    seen.push_back(request);
    return http(200, "{\"a\": 1}", "application/json", "X-Thing: yes\r\n");
  }));
  Transport transport(options(server));
  for (int i = 0; i < 3; ++i) {
    const auto reply = must(transport.get("/v1/jobs"));
    EXPECT_EQ(reply.status, 200);
    EXPECT_EQ(reply.body, "{\"a\": 1}");
    EXPECT_EQ(reply.headers.at("x-thing"), "yes");
  }
  EXPECT_EQ(server.connections(), 1);
  EXPECT_EQ(seen[0].headers.at("host"), "localhost:" + std::to_string(server.port()));
  EXPECT_EQ(seen[0].headers.at("accept-encoding"), "identity");
}

TEST_F(TransportTest, ReachesAServerByItsAddress) {
  const auto server = serve(answering([](const ScriptedRequest&) { return http(200, "x"); }));
  auto with_address = options(server);
  with_address.server.host = "127.0.0.1";
  EXPECT_EQ(must(Transport(with_address).get("/")).status, 200);
}

TEST_F(TransportTest, PostsJsonAndReads204) {
  std::string body;
  const auto server = serve(answering([&](const ScriptedRequest& request) {
    body = request.body;
    return std::string("HTTP/1.1 204 X\r\nMuster-Retry-After-Ms: 40\r\n\r\n");
  }));
  Transport transport(options(server));
  const auto reply = must(transport.post_json("/v1/checkin", {{"a", 1}}));
  EXPECT_EQ(reply.status, 204);
  EXPECT_EQ(reply.retry_after(), milliseconds(40));
  EXPECT_EQ(body, "{\"a\":1}");
}

TEST_F(TransportTest, E06_ABodyOverTheLimitIsCutOff) {
  const auto server =
      serve(answering([](const ScriptedRequest&) { return http(200, std::string(5000, 'x')); }));
  Transport transport(options(server));
  const auto reply = transport.get("/", 4999);
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(must(transport.get("/", 5000)).body.size(), 5000U);
}

TEST_F(TransportTest, E06_AnEndlessBodyWithoutLengthIsCutOff) {
  const auto server = serve([](ScriptedConnection& connection, int) {
    connection.read_head();
    connection.send("HTTP/1.1 200 X\r\n\r\n");
    while (connection.send(std::string(10'000, 'x'))) {
    }
  });
  const auto reply = Transport(options(server)).get("/", 1 << 20);
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, ErrorCode::kResourceExhausted);
}

TEST_F(TransportTest, E06_AnEndlessHeadIsCutOff) {
  const auto server = serve([](ScriptedConnection& connection, int) {
    connection.read_head();
    connection.send("HTTP/1.1 200 X\r\n");
    while (connection.send("X-More: " + std::string(1000, 'x') + "\r\n")) {
    }
  });
  const auto reply = Transport(options(server)).get("/");
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, ErrorCode::kResourceExhausted);
}

// One byte in a while resets every silence timer; the minimum rate ends it all the same.
TEST_F(TransportTest, E06_AnEndlessTrickleEnds) {
  Gate done;
  const auto server = serve([&](ScriptedConnection& connection, int) {
    connection.read_head();
    connection.send("HTTP/1.1 200 X\r\nContent-Length: 1000000\r\n\r\n");
    std::mutex mutex;
    std::unique_lock lock(mutex);
    std::condition_variable never;
    while (connection.send("x")) never.wait_for(lock, milliseconds(50));
  });
  auto impatient = options(server);
  impatient.idle_timeout = milliseconds(400);
  const auto begin = std::chrono::steady_clock::now();
  const auto reply = Transport(impatient).get("/");
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, ErrorCode::kDeadlineExceeded);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(4));
}

TEST_F(TransportTest, ASilentServerEndsAtTheIdleTimeout) {
  const auto server = serve([](ScriptedConnection& connection, int) { connection.wait_for_end(); });
  auto impatient = options(server);
  impatient.idle_timeout = milliseconds(200);
  const auto reply = Transport(impatient).get("/");
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, ErrorCode::kDeadlineExceeded);
}

TEST_F(TransportTest, ARefusedConnectionIsUnavailable) {
  std::optional<ScriptedServer> server;
  server.emplace(world_.server, world_.authority.certificate(), nullptr,
                 [](ScriptedConnection&, int) {});
  auto gone = options(*server);
  server.reset();
  const auto reply = Transport(gone).get("/");
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, ErrorCode::kUnavailable);
}

// The server reads the second request of a kept connection and hangs up: as a restart would.
TEST_F(TransportTest, AKeptConnectionThatWasClosedIsRetriedOnce) {
  const auto server = serve([](ScriptedConnection& connection, int) {
    auto request = connection.read_head();
    if (request && connection.read_body(*request)) connection.send(http(200, "ok"));
    connection.read_head();
  });
  Transport transport(options(server));
  EXPECT_EQ(must(transport.get("/1")).body, "ok");
  EXPECT_EQ(must(transport.get("/2")).body, "ok");
  EXPECT_EQ(must(transport.post_json("/3", {}, {}, 1000, true)).body, "ok");
  EXPECT_EQ(server.connections(), 3);
  const auto once = transport.post_json("/v1/jobs", {});
  ASSERT_FALSE(once) << "what may not be repeated is not";
  EXPECT_EQ(once.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(must(transport.get("/5")).body, "ok") << "after an error the next call connects anew";
}

TEST_F(TransportTest, AFreshConnectionThatIsClosedIsNotRetried) {
  const auto server = serve([](ScriptedConnection& connection, int) { connection.read_head(); });
  const auto reply = Transport(options(server)).get("/");
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(server.connections(), 1);
}

TEST_F(TransportTest, E04_ARedirectIsNotFollowed) {
  std::atomic<int> requests = 0;
  const auto server = serve(answering([&](const ScriptedRequest& request) {
    ++requests;
    return http(
        302, "", "text/html",
        "Location: https://localhost:" + request.headers.at("host").substr(10) + "/other\r\n");
  }));
  EXPECT_EQ(must(Transport(options(server)).get("/")).status, 302);
  EXPECT_EQ(requests, 1);
}

TEST_F(TransportTest, AnAnswerThatIsNotHttpIsUnavailable) {
  const auto server = serve([](ScriptedConnection& connection, int) {
    connection.read_head();
    connection.send("SSH-2.0-OpenSSH\r\n\r\n");
  });
  const auto reply = Transport(options(server)).get("/");
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, ErrorCode::kUnavailable);
}

TEST_F(TransportTest, SendsAFileWholeWithItsHeaders) {
  std::string content(3'000'001, 'u');
  content[2'000'000] = 'v';
  ScriptedRequest seen;
  const auto server = serve(answering([&](const ScriptedRequest& request) {
    seen = request;
    return http(200, "{}");
  }));
  EXPECT_EQ(must(Transport(options(server))
                     .put_file("/u", file("update", content), {{"Muster-Update", "abc"}}))
                .status,
            200);
  EXPECT_EQ(seen.method, "PUT");
  EXPECT_EQ(seen.headers.at("muster-update"), "abc");
  EXPECT_EQ(seen.headers.at("content-type"), "application/octet-stream");
  EXPECT_TRUE(seen.body == content);
}

TEST_F(TransportTest, AnEarlyRefusalOfALargeUploadIsHeard) {
  const auto server = serve([](ScriptedConnection& connection, int) {
    connection.read_head();  // and not the body
    connection.send(problem(413, "body_too_large"));
    connection.wait_for_end();
  });
  Transport transport(options(server));
  const auto reply = must(transport.put_file("/u", file("big", std::string(32 << 20, 'u')), {}));
  EXPECT_EQ(reply.status, 413);
  EXPECT_EQ(reply.error().reason, "body_too_large");
  EXPECT_EQ(must(transport.put_file("/u", file("big", std::string(32 << 20, 'u')), {})).status,
            413);
  EXPECT_EQ(server.connections(), 2) << "half a body is on the first one";
}

TEST_F(TransportTest, DownloadsIntoAFileOfThatDigest) {
  const std::string content(1'000'000, 'm');
  const auto server = serve(answering(
      [&](const ScriptedRequest&) { return http(200, content, "application/octet-stream"); }));
  const auto target = folder_.path() / "state";
  EXPECT_EQ(must(Transport(options(server)).download("/m", target, content.size(), sha256(content)))
                .status,
            200);
  EXPECT_TRUE(must(read_file(target, 2'000'000)) == content);
}

TEST_F(TransportTest, ADamagedShortOrLongDownloadReplacesNothing) {
  const std::string wanted(100'000, 'm');
  for (const std::string& sent :
       {std::string(100'000, 'n'), std::string(99'999, 'm'), std::string(100'001, 'm')}) {
    for (const bool with_length : {true, false}) {
      const auto server = serve([&](ScriptedConnection& connection, int) {
        connection.read_head();
        connection.send(with_length ? http(200, sent)
                                    : "HTTP/1.1 200 X\r\nConnection: close\r\n\r\n" + sent);
      });
      const auto target = file("state", "old");
      const auto reply =
          Transport(options(server)).download("/m", target, wanted.size(), sha256(wanted));
      ASSERT_FALSE(reply);
      EXPECT_EQ(reply.error().code, ErrorCode::kDataLoss) << reply.error().message;
      EXPECT_EQ(reply.error().reason, "digest_mismatch");
      EXPECT_EQ(must(read_file(target, 100)), "old");
      EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path()), {}), 1)
          << "nothing is left beside it";
    }
  }
}

TEST_F(TransportTest, ADownloadThatBreaksOffIsUnavailableAndReplacesNothing) {
  const std::string content(100'000, 'm');
  const auto server = serve([&](ScriptedConnection& connection, int) {
    connection.read_head();
    connection.send(http(200, content).substr(0, 50'000));
  });
  const auto target = file("state", "old");
  const auto reply =
      Transport(options(server)).download("/m", target, content.size(), sha256(content));
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(must(read_file(target, 100)), "old");
}

TEST_F(TransportTest, ARefusedDownloadGivesItsProblem) {
  const auto server =
      serve(answering([](const ScriptedRequest&) { return problem(404, "state_unknown"); }));
  const auto target = folder_.path() / "state";
  const auto reply = must(Transport(options(server)).download("/m", target, 10, Digest{}));
  EXPECT_EQ(reply.error().reason, "state_unknown");
  EXPECT_FALSE(std::filesystem::exists(target));
}

TEST_F(TransportTest, AnInterruptEndsALongPollAtOnce) {
  Gate polled;
  const auto server = serve([&](ScriptedConnection& connection, int) {
    connection.read_head();
    polled.open();
    connection.wait_for_end();
  });
  Transport transport(options(server));
  std::jthread stopper([&] {
    polled.wait();
    transport.interrupt();
  });
  const auto begin = std::chrono::steady_clock::now();
  const auto reply = transport.post_json("/v1/checkin", {}, milliseconds(60'000));
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, ErrorCode::kCancelled);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(3));
}

TEST_F(TransportTest, AnInterruptBetweenCallsEndsTheNextAndNoOther) {
  const auto server = serve(answering([](const ScriptedRequest&) { return http(200, "ok"); }));
  Transport transport(options(server));
  transport.interrupt();
  const auto reply = transport.get("/");
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(must(transport.get("/")).body, "ok");
}

// A listener that accepts nothing: connect succeeds in the kernel, the handshake never does.
TEST_F(TransportTest, AHandshakeThatStallsEndsAtTheConnectTimeout) {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  ASSERT_EQ(::bind(listener, reinterpret_cast<sockaddr*>(&address), length), 0);
  ASSERT_EQ(::listen(listener, 8), 0);
  getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length);
  Transport transport({.server = {"127.0.0.1", ntohs(address.sin_port)},
                       .authority = world_.authority.certificate(),
                       .certificate = std::nullopt,
                       .connect_timeout = milliseconds(200)});
  const auto reply = transport.get("/");
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, ErrorCode::kDeadlineExceeded) << reply.error().message;
  ::close(listener);
}

}  // namespace
}  // namespace muster
