// Many peers, slow peers, and the end of the server's life.
#include <sys/resource.h>

#include <future>
#include <thread>

#include "tests/server/http/door_fixture.h"

namespace muster::http {
namespace {

class Load : public FrontDoorTest {
 protected:
  void SetUp() override {
    rlimit limit{};
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  }

  void expect_good_service() {
    const auto asked = SteadyClock::now();
    const auto reply = ask(get("/v1/hello"));
    ASSERT_TRUE(reply.has_value());
    EXPECT_EQ(reply->status, 200);
    EXPECT_LT(SteadyClock::now() - asked, Milliseconds(1'000));
  }

  std::vector<std::unique_ptr<TlsClient>> connect_many(std::size_t count) {
    std::vector<std::unique_ptr<TlsClient>> clients(count);
    std::vector<std::thread> threads;
    for (std::size_t first = 0; first < 4; ++first) {
      threads.emplace_back([&, first] {
        for (std::size_t i = first; i < count; i += 4) clients[i] = connect();
      });
    }
    for (auto& thread : threads) thread.join();
    return clients;
  }
};

TEST_F(Load, Http01SlowHeadsAreCutAndOthersServed) {
  options.limits.head = Milliseconds(2'000);
  start();
  auto slow = connect_many(64);
  const auto began = SteadyClock::now();
  for (auto& client : slow) client->send("GET /v1/hello HTTP/1.1\r\n");
  std::size_t open = slow.size();
  for (int line = 0; open > 0; ++line) {
    ASSERT_LT(SteadyClock::now() - began, Milliseconds(6'000));
    expect_good_service();
    for (auto& client : slow) {
      if (client == nullptr) continue;
      if (!client->raw().wait_readable(Milliseconds(0))) {
        client->send(std::string("X").append(std::to_string(line)).append(": y\r\n"));
        continue;
      }
      const auto reply = client->read();
      ASSERT_TRUE(reply.has_value());
      EXPECT_EQ(reply->status, 408);
      client.reset();
      --open;
    }
    poll(nullptr, 0, 80);  // the pace of the slow ones: under 64 lines till the deadline
  }
  EXPECT_EQ(records_with("head_timeout"), 64u);
}

TEST_F(Load, Http04IdleConnectionsTakeNoWorker) {
  start();
  std::vector<std::unique_ptr<TlsClient>> idle;
  for (int i = 0; i < 8; ++i) {
    idle.push_back(connect());
    ASSERT_EQ(idle.back()->ask(get("/v1/hello"))->status, 200);
  }
  expect_good_service();
  for (auto& client : idle) EXPECT_EQ(client->ask(get("/v1/hello"))->status, 200);
}

TEST_F(Load, IdleConnectionsEndAtTheirDeadline) {
  options.limits.idle = Milliseconds(300);
  start();
  const auto client = connect();
  ASSERT_EQ(client->ask(get("/v1/hello"))->status, 200);
  EXPECT_TRUE(client->is_closed());
  const auto mute = connect();  // never asks anything
  EXPECT_TRUE(mute->is_closed());
}

TEST_F(Load, FiveHundredLongPollsCostNoThread) {
  options.limits.head = Milliseconds(30'000);
  start();
  auto clients = connect_many(500);
  for (auto& client : clients) ASSERT_TRUE(client->send(get("/v1/wait")));
  ASSERT_TRUE(wait_for_parked(500));
  expect_good_service();
  auto waiting = take_parked();
  std::thread([&] {
    for (auto& respond : waiting) respond(Response::no_content());
  }).join();
  for (auto& client : clients) {
    const auto reply = client->read();
    ASSERT_TRUE(reply.has_value());
    EXPECT_EQ(reply->status, 204);
  }
  EXPECT_EQ(clients[7]->ask(get("/v1/hello"))->status, 200);
}

TEST_F(Load, Http34ABurstOfAThousandIsAcceptedAndServed) {
  options.limits.handshake = Milliseconds(60'000);
  start();
  std::vector<RawClient> burst;
  for (int i = 0; i < 1'000; ++i) {
    burst.emplace_back(door->port());
    ASSERT_TRUE(burst.back().connected()) << i;
  }
  expect_good_service();
  EXPECT_GE(door->open_connections(), 1'000u);
  EXPECT_EQ(records_with("too_many"), 0u);
}

TEST_F(Load, ConnectionsOverTheCapAreClosedAtOnceAndRoomComesBack) {
  options.limits.connections = 5;
  options.limits.handshake = Milliseconds(60'000);
  start();
  std::vector<RawClient> holders;
  for (int i = 0; i < 5; ++i) holders.emplace_back(door->port());
  RawClient surplus(door->port());
  EXPECT_EQ(surplus.read_to_end(Milliseconds(2'000)), "");
  EXPECT_TRUE(wait_for_problem("too_many_connections"));
  for (auto& holder : holders) holder.hang_up();
  ASSERT_TRUE(wait_until([&] { return log.size() == 6; }));
  EXPECT_EQ(ask(get("/v1/hello"))->status, 200);
}

TEST_F(Load, OneAddressCannotTakeAllConnections) {
  options.limits.connections_per_address = 3;
  options.limits.handshake = Milliseconds(60'000);
  start();
  std::vector<RawClient> holders;
  for (int i = 0; i < 3; ++i) holders.emplace_back(door->port());
  RawClient surplus(door->port());
  EXPECT_EQ(surplus.read_to_end(Milliseconds(2'000)), "");
  EXPECT_TRUE(wait_for_problem("from_address"));
}

TEST_F(Load, Http32WithoutDescriptorsTheSurplusIsClosedAndTheListenerLives) {
  options.limits.handshake = Milliseconds(60'000);
  start();
  const auto established = connect();
  ASSERT_EQ(established->ask(get("/v1/hello"))->status, 200);
  std::vector<int> sockets;
  for (int i = 0; i < 40; ++i) sockets.push_back(testing::open_socket());
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  // Three more descriptors than the highest in use: nearly everything that connects now is surplus.
  const rlimit tight{static_cast<rlim_t>(sockets.back()) + 4, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &tight), 0);
  for (const int socket : sockets) EXPECT_TRUE(testing::connect_socket(socket, door->port()));
  EXPECT_TRUE(wait_for_problem("no_descriptors"));
  EXPECT_EQ(established->ask(get("/v1/hello"))->status, 200);
  ASSERT_TRUE(wait_until([&] { return log.size() >= 30; }));
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  for (const int socket : sockets) close(socket);
  expect_good_service();
}

TEST_F(Load, Http33ASecondServerOnThePortFails) {
  start();
  auto tls =
      make_server_tls(server_pair.certificate, server_pair.key, authority.certificate(), nullptr);
  auto twin_options = options;
  twin_options.port = door->port();
  FrontDoor twin(twin_options, *std::move(tls), {}, {});
  const Status started = twin.start();
  ASSERT_FALSE(started.has_value());
  EXPECT_EQ(started.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(started.error().reason, "port_taken");
  expect_good_service();
}

TEST_F(Load, AnAddressThatIsNoneFailsToBind) {
  options.bind_address = "nowhere";
  auto tls =
      make_server_tls(server_pair.certificate, server_pair.key, authority.certificate(), nullptr);
  FrontDoor nowhere(options, *std::move(tls), {}, {});
  EXPECT_EQ(nowhere.start().error().reason, "bind_failed");
}

TEST_F(Load, AHandlerThatDoesNotAnswerIsAnsweredFor) {
  options.limits.answer = Milliseconds(300);
  start();
  const auto client = connect();
  const auto reply = client->ask(get("/v1/wait"));
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->status, 503);
  EXPECT_EQ(reply->header("retry-after"), "2");
  // What the handler says too late is not taken for the answer to the next request.
  client->send(get("/v1/wait"));
  ASSERT_TRUE(wait_for_parked(2));
  auto waiting = take_parked();
  waiting[0](Response::json(Json{{"which", "old"}}));
  waiting[1](Response::json(Json{{"which", "new"}}));
  EXPECT_EQ(Json::parse(client->read()->body).at("which"), "new");
}

TEST_F(Load, APeerThatHangsUpDuringALongPollIsNoticedAtOnce) {
  start();
  const auto client = connect();
  client->send(get("/v1/wait"));
  ASSERT_TRUE(wait_for_parked(1));
  EXPECT_FALSE(parked[0].peer_gone());
  client->hang_up();
  ASSERT_TRUE(wait_for_problem("went away"));
  EXPECT_TRUE(wait_until([&] { return parked[0].peer_gone(); }));
  take_parked()[0](Response::no_content());  // dropped in silence
  expect_good_service();
}

TEST_F(Load, ConnectionsEndAfterTheirShareOfRequests) {
  options.limits.requests_per_connection = 2;
  start();
  const auto client = connect();
  EXPECT_FALSE(client->ask(get("/v1/hello"))->closes());
  EXPECT_TRUE(client->ask(get("/v1/hello"))->closes());
  EXPECT_TRUE(client->is_closed());
}

TEST_F(Load, APeerMayAskForTheEnd) {
  start();
  const auto client = connect();
  EXPECT_TRUE(client->ask(get("/v1/hello", "Connection: close\r\n"))->closes());
  EXPECT_TRUE(client->is_closed());
}

TEST_F(Load, StopLetsRunningRequestsFinishAndClosesTheRest) {
  start();
  const int port = door->port();
  const auto idle = connect();
  ASSERT_EQ(idle->ask(get("/v1/hello"))->status, 200);
  RawClient silent(port);
  const auto waiting = connect();
  waiting->send(get("/v1/wait"));
  ASSERT_TRUE(wait_for_parked(1));
  auto stopped = std::async(std::launch::async, [&] { door->stop(Milliseconds(20'000)); });
  EXPECT_TRUE(idle->is_closed());
  EXPECT_EQ(silent.read_to_end(), "");
  EXPECT_FALSE(RawClient(port).connected());
  take_parked()[0](Response::json(Json::object()));
  const auto reply = waiting->read();
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->status, 200);
  EXPECT_TRUE(reply->closes());
  EXPECT_TRUE(waiting->is_closed());
  waiting->hang_up();
  EXPECT_EQ(stopped.wait_for(Milliseconds(8'000)), std::future_status::ready);
}

TEST_F(Load, StopEndsEverythingAfterItsGrace) {
  start();
  const auto waiting = connect();
  waiting->send(get("/v1/wait"));
  ASSERT_TRUE(wait_for_parked(1));
  const auto began = SteadyClock::now();
  door->stop(Milliseconds(100));
  EXPECT_LT(SteadyClock::now() - began, Milliseconds(2'000));
  EXPECT_TRUE(waiting->is_closed());
  EXPECT_EQ(door->open_connections(), 0u);
  door.reset();
  take_parked()[0](Response::json(Json::object()));  // outlives the door; dropped
}

}  // namespace
}  // namespace muster::http
