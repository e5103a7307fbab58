#include <barrier>
#include <thread>

#include "tests/storage/store_fixture.h"

namespace muster {
namespace {

class StoreEnrolment : public StoreTest {};

TEST_F(StoreEnrolment, KeepsTokensAsGiven) {
  std::vector<TokenRow> tokens = {token_row("a"), token_row("b")};
  tokens[1].created_at_ms = 2;
  tokens[1].tags = {};
  ASSERT_OK(store_->add_tokens(tokens, event_at(1, "tokens_created")));
  reopen();
  const auto listed = store_->list_tokens();
  ASSERT_OK(listed);
  EXPECT_EQ(*listed, tokens);
  EXPECT_EQ(**store_->find_token(sha256("a")), tokens[0]);
  EXPECT_FALSE(store_->find_token(sha256("c"))->has_value());
  EXPECT_EQ(store_->list_events("", 0, 10)->at(0).kind, "tokens_created");
}

TEST_F(StoreEnrolment, AddsAllTokensOrNone) {
  ASSERT_OK(store_->add_tokens({token_row("a")}, event_at(1)));
  EXPECT_ERROR(store_->add_tokens({token_row("b"), token_row("a")}, event_at(2)), kAlreadyExists,
               "token_exists");
  TokenRow used = token_row("c");
  used.used_at_ms = 5;
  EXPECT_ERROR(store_->add_tokens({used}, event_at(3)), kInvalidArgument, "token_used");
  reopen();
  EXPECT_EQ(store_->list_tokens()->size(), 1U);
  EXPECT_EQ(store_->list_events("", 0, 10)->size(), 1U);
}

TEST_F(StoreEnrolment, RedeemingMakesTheDeviceAndUsesUpTheToken) {
  ASSERT_OK(store_->add_tokens({token_row("a")}, event_at(1)));
  DeviceRow device = device_row("pi-1", 1'000);
  device.tags = {"arm", "gpu"};
  ASSERT_OK(store_->redeem_token(sha256("a"), device, event_at(1'000, "device_enrolled")));
  reopen();
  device.tags = {"arm", "gpu"};  // the token's "gpu" is there once
  EXPECT_EQ(**store_->find_device("pi-1"), device);
  const TokenRow token = **store_->find_token(sha256("a"));
  EXPECT_EQ(token.used_at_ms, 1'000);
  EXPECT_EQ(token.used_by, "pi-1");

  EXPECT_ERROR(store_->redeem_token(sha256("a"), device_row("pi-2"), event_at(1'001)),
               kUnauthenticated, "token_used");
  EXPECT_FALSE(store_->find_device("pi-2")->has_value());
}

TEST_F(StoreEnrolment, GivesTheTokensTagsToTheDevice) {
  enrol("pi-1");
  EXPECT_EQ((**store_->find_device("pi-1")).tags, std::vector<std::string>{"gpu"});
}

TEST_F(StoreEnrolment, RefusesAnInventedToken) {
  EXPECT_ERROR(store_->redeem_token(sha256("x"), device_row("pi-1"), event_at(1)), kUnauthenticated,
               "token_unknown");
  EXPECT_TRUE(store_->list_devices()->empty());
  EXPECT_TRUE(store_->list_events("", 0, 10)->empty());
}

TEST_F(StoreEnrolment, ATokenExpiresAtItsTimeToTheMillisecond) {
  ASSERT_OK(store_->add_tokens({token_row("a", 5'000), token_row("b", 5'000)}, event_at(1)));
  EXPECT_ERROR(store_->redeem_token(sha256("a"), device_row("pi-1", 5'000), event_at(5'000)),
               kUnauthenticated, "token_expired");
  EXPECT_FALSE((**store_->find_token(sha256("a"))).used_at_ms.has_value());
  ASSERT_OK(store_->redeem_token(sha256("b"), device_row("pi-1", 4'999), event_at(4'999)));
}

TEST_F(StoreEnrolment, ATakenNameLeavesTheTokenUnused) {
  enrol("pi-1");
  ASSERT_OK(store_->add_tokens({token_row("b")}, event_at(3)));
  EXPECT_ERROR(store_->redeem_token(sha256("b"), device_row("pi-1"), event_at(4)), kAlreadyExists,
               "device_exists");
  reopen();
  EXPECT_FALSE((**store_->find_token(sha256("b"))).used_at_ms.has_value());
  ASSERT_OK(store_->redeem_token(sha256("b"), device_row("pi-2"), event_at(5)));
}

TEST_F(StoreEnrolment, OfTwoThreadsThatRedeemOneTokenExactlyOneWins) {
  for (int turn = 0; turn < 25; ++turn) {
    const std::string secret = "secret " + std::to_string(turn);
    ASSERT_OK(store_->add_tokens({token_row(secret)}, event_at(1)));
    std::array<Status, 2> results;
    std::barrier start(2);
    const auto redeem = [&](std::size_t i) {
      const DeviceRow device = device_row("d" + std::to_string(turn) + "-" + std::to_string(i));
      start.arrive_and_wait();
      results[i] = store_->redeem_token(sha256(secret), device, event_at(2));
    };
    std::thread other(redeem, 0U);
    redeem(1U);
    other.join();
    ASSERT_NE(results[0].has_value(), results[1].has_value());
    const Status& lost = results[0] ? results[1] : results[0];
    EXPECT_ERROR(lost, kUnauthenticated, "token_used");
  }
  EXPECT_EQ(store_->list_devices()->size(), 25U);
}

TEST_F(StoreEnrolment, NotesWhenADeviceWasSeenAndTimeDoesNotGoBack) {
  enrol("pi-1");
  EXPECT_EQ((**store_->find_device("pi-1")).last_seen_at_ms, 0);
  ASSERT_OK(store_->touch_device("pi-1", 2'000, 6'000));
  ASSERT_OK(store_->touch_device("pi-1", 1'900, 5'000));
  reopen();
  const DeviceRow device = **store_->find_device("pi-1");
  EXPECT_EQ(device.last_seen_at_ms, 2'000);
  EXPECT_EQ(device.examples, 5'000);
  EXPECT_ERROR(store_->touch_device("pi-9", 1, 1), kNotFound, "device_unknown");
  EXPECT_ERROR(store_->touch_device("pi-1", 3'000, -1), kInvalidArgument, "bad_value");
}

TEST_F(StoreEnrolment, ListsDevicesByName) {
  enrol("pi-2");
  enrol("pi-1");
  const auto devices = store_->list_devices();
  ASSERT_EQ(devices->size(), 2U);
  EXPECT_EQ(devices->at(0).device, "pi-1");
  EXPECT_EQ(devices->at(1).device, "pi-2");
}

}  // namespace
}  // namespace muster
