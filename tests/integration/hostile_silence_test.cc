#include <algorithm>
#include <condition_variable>
#include <iostream>

#include "tests/integration/raw_client.h"

// Peers that connect and say nothing, or next to nothing, while others train.
namespace muster::testing {
namespace {

constexpr int kPeers = 64;
constexpr int kRounds = 5;

// One byte of a head from each connection every second, until it goes out of scope.
class Drip {
 public:
  explicit Drip(std::vector<std::unique_ptr<TlsClient>> connections)
      : connections_(std::move(connections)),
        thread_([this](std::stop_token stop) { run(stop); }) {}

 private:
  void run(const std::stop_token& stop) {
    const std::string head = "GET /v1/jobs HTTP/1.1\r\nHost: localhost\r\n";
    std::mutex mutex;
    std::condition_variable_any stopped;
    for (std::size_t i = 0; i < head.size() && !stop.stop_requested(); ++i) {
      for (const auto& connection : connections_) connection->send(head.substr(i, 1));
      std::unique_lock lock(mutex);
      stopped.wait_for(lock, stop, std::chrono::seconds(1), [] { return false; });
    }
  }

  std::vector<std::unique_ptr<TlsClient>> connections_;
  std::jthread thread_;
};

class HostileSilence : public ::testing::Test {
 protected:
  HostileSilence() {
    const auto file = write_csv(federation.folder(""), 400, 3);
    for (int i = 0; i < 4; ++i) {
      const std::string name = fmt::format("device-{}", i);
      devices.push_back(std::make_unique<RunningDevice>(
          federation.enroll_device(name), federation.folder(name),
          graph_trainer(fmt::format("csv:{};target=label;shard={}/4;seed=1", file.string(), i))));
    }
    calm = slowest_round();
  }

  // Runs a job to its end; milliseconds of its slowest round.
  std::int64_t slowest_round() {
    const std::string job = federation.submit(small_job(4, kRounds));
    const Json ended = federation.wait_for_end(job);
    EXPECT_EQ(ended.at("status"), "finished");
    EXPECT_EQ(ended.at("rounds_committed"), kRounds);
    std::int64_t slowest = 0;
    const Json rounds = federation.get_json("/v1/jobs/" + job + "/rounds").at("rounds");
    EXPECT_EQ(rounds.size(), std::size_t{kRounds});
    for (const Json& round : rounds) {
      EXPECT_EQ(round.at("attempt"), 1);
      EXPECT_EQ(round.at("metrics").at("updates"), 4);
      slowest = std::max(slowest, round.at("ended_at_ms").get<std::int64_t>() -
                                      round.at("started_at_ms").get<std::int64_t>());
    }
    return slowest;
  }
  std::vector<std::unique_ptr<TlsClient>> connections() {
    std::vector<std::unique_ptr<TlsClient>> opened;
    for (int i = 0; i < kPeers; ++i) {
      opened.push_back(alice.connect());
      EXPECT_TRUE(opened.back()->handshaken());
    }
    return opened;
  }
  void expect_undisturbed(const char* what) {
    const std::int64_t disturbed = slowest_round();
    std::cout << "slowest round: " << calm << " ms undisturbed, " << disturbed << " ms beside "
              << what << "\n";
    EXPECT_LE(disturbed, 3 * calm + 1'000);
  }

  Federation federation;
  std::vector<std::unique_ptr<RunningDevice>> devices;
  Caller alice = caller_as(federation, {Role::kOperator, "alice"});
  std::int64_t calm = 0;  // slowest round without anybody else
};

TEST_F(HostileSilence, TLS01_ConnectionsThatSendNothingStopNoRound) {
  std::vector<RawClient> silent;
  for (int i = 0; i < kPeers; ++i) {
    silent.emplace_back(federation.server().api_port());
    EXPECT_TRUE(silent.back().connected());
  }
  expect_undisturbed("64 silent connections");
  // They were there all the time.
  for (const RawClient& peer : silent) EXPECT_FALSE(peer.wait_readable(Milliseconds(0)));
}

TEST_F(HostileSilence, HTTP04_ConnectionsThatAskNothingAfterTheHandshakeStopNoRound) {
  const auto silent = connections();
  expect_undisturbed("64 silent TLS connections");
  // They were there all the time.
  for (const auto& peer : silent) EXPECT_FALSE(peer->raw().wait_readable(Milliseconds(0)));
}

TEST_F(HostileSilence, HTTP01_ConnectionsThatSendAByteASecondStopNoRound) {
  const Drip drip(connections());
  expect_undisturbed("64 connections with a byte a second");
}

}  // namespace
}  // namespace muster::testing
