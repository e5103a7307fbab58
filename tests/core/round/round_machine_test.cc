#include "core/round/round_machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/core/round/round_support.h"

namespace muster {
namespace {

using namespace round_support;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// --- Selecting ---

TEST(RoundMachine, SelectsAsSoonAsTheWholePoolHasCheckedIn) {
  RoundMachine machine(settings_for(3), 1, at(0));
  EXPECT_THAT(machine.on(check_in("b"), at(10)), IsEmpty());
  EXPECT_THAT(machine.on(check_in("a"), at(20)), IsEmpty());
  EXPECT_THAT(machine.on(check_in("c"), at(30)), actions(InviteDevices{{"a", "b", "c"}}));
  EXPECT_EQ(machine.phase(), RoundPhase::kTraining);
  EXPECT_THAT(machine.invited(), ElementsAre("a", "b", "c"));
  EXPECT_EQ(machine.next_deadline(), at(30) + kDeadline);
  EXPECT_THAT(machine.candidates(), IsEmpty());
}

TEST(RoundMachine, SelectsAtTheEndOfTheWindowWithAtLeastTheMinimum) {
  RoundMachine machine(settings_for(4, 4, 2), 1, at(0));
  machine.on(check_in("a"), at(0));
  machine.on(check_in("b"), at(0));
  EXPECT_EQ(machine.next_deadline(), at(0) + kWindow);
  EXPECT_THAT(machine.on(Tick{}, at(-1) + kWindow), IsEmpty());
  EXPECT_THAT(machine.on(Tick{}, at(0) + kWindow), actions(InviteDevices{{"a", "b"}}));
}

TEST(RoundMachine, IsAbandonedWhenTheWindowEndsWithTooFew) {
  RoundMachine machine(settings_for(4, 4, 2), 1, at(0));
  machine.on(check_in("a"), at(0));
  const std::string reason =
      "1 of at least 2 devices checked in before the selection window of 60 s ended; checked in: a";
  EXPECT_THAT(machine.on(Tick{}, at(0) + kWindow), actions(AbandonRound{reason}));
  EXPECT_EQ(machine.phase(), RoundPhase::kAbandoned);
  EXPECT_EQ(machine.explain(at(0)), reason);
  EXPECT_EQ(machine.next_deadline(), std::nullopt);
}

TEST(RoundMachine, CheckInAfterTheWindowEndsTheSelectionWithoutATick) {
  RoundMachine machine(settings_for(4, 4, 2), 1, at(0));
  machine.on(check_in("a"), at(0));
  EXPECT_THAT(machine.on(check_in("b"), at(5) + kWindow), actions(InviteDevices{{"a", "b"}}));
}

TEST(RoundMachine, InvitesTargetTimesOverSelectionOfThePool) {
  RoundSettings settings = settings_for(10, 5, 1);
  settings.over_selection = 1.2;
  RoundMachine machine(settings, 7, at(0));
  std::vector<Candidate> all;
  for (std::uint64_t i = 0; i < 10; ++i) {
    all.push_back({numbered(i), {}});
    machine.on(DeviceCheckedIn{all.back()}, at(0));
  }
  EXPECT_EQ(machine.phase(), RoundPhase::kTraining);
  EXPECT_EQ(machine.invited(), select_devices(all, 6, 7));
}

TEST(RoundMachine, CountsADeviceThatChecksInTwiceOnceAndTakesItsNewTags) {
  RoundSettings settings = settings_for(2, 2, 1);
  settings.selection = {ClientSelection::Method::kByCapability, 1.0, {"gpu"}};
  RoundMachine machine(settings, 1, at(0));
  machine.on(DeviceCheckedIn{{"a", {"gpu"}}}, at(0));
  EXPECT_THAT(machine.on(DeviceCheckedIn{{"a", {"gpu", "new"}}}, at(1)), IsEmpty());
  ASSERT_EQ(machine.candidates().size(), 1U);
  EXPECT_TRUE(machine.candidates()[0].tags.contains("new"));
  machine.on(DeviceCheckedIn{{"a", {}}}, at(2));
  EXPECT_THAT(machine.candidates(), IsEmpty()) << "it no longer has the tag";
}

TEST(RoundMachine, IgnoresDevicesWithoutTheRequiredTagsAndSaysWhichTagsItWaitsFor) {
  RoundSettings settings = settings_for(1);
  settings.selection = {ClientSelection::Method::kByCapability, 1.0, {"gpu", "arm"}};
  RoundMachine machine(settings, 1, at(0));
  EXPECT_THAT(machine.on(DeviceCheckedIn{{"a", {"gpu"}}}, at(0)), IsEmpty());
  EXPECT_THAT(machine.candidates(), IsEmpty());
  EXPECT_THAT(machine.explain(at(0)), HasSubstr("with the tags gpu, arm"));
  EXPECT_THAT(machine.on(DeviceCheckedIn{{"b", {"arm", "gpu"}}}, at(0)),
              actions(InviteDevices{{"b"}}));
}

TEST(RoundMachine, DeviceThatLeavesBeforeSelectionIsNotInvited) {
  RoundMachine machine(settings_for(4, 4, 1), 1, at(0));
  for (const char* device : {"a", "b", "c"}) machine.on(check_in(device), at(0));
  machine.on(DeviceLeft{"a"}, at(1));
  machine.on(DeviceLeft{"unknown"}, at(1));
  machine.on(DeviceLeft{"c"}, at(1));
  machine.on(check_in("c"), at(2));
  EXPECT_THAT(machine.on(Tick{}, at(0) + kWindow), actions(InviteDevices{{"b", "c"}}));
}

// --- Training ---

TEST(RoundMachine, AggregatesWhenTheTargetIsStoredInOrderOfDeviceIds) {
  RoundSettings settings = settings_for(3, 2, 1);
  settings.over_selection = 2.0;
  RoundMachine machine = training(settings, {"a", "b", "c"});
  EXPECT_THAT(machine.on(UpdateStored{"c"}, at(1)), IsEmpty());
  EXPECT_THAT(machine.on(UpdateStored{"a"}, at(2)), actions(StartAggregation{{"a", "c"}}));
  EXPECT_EQ(machine.phase(), RoundPhase::kAggregating);
  EXPECT_EQ(machine.next_deadline(), std::nullopt);
}

TEST(RoundMachine, AggregatesWhenAllInvitedReportedAlthoughTheTargetIsHigher) {
  RoundMachine machine(settings_for(4, 4, 2), 1, at(0));
  machine.on(check_in("a"), at(0));
  machine.on(check_in("b"), at(0));
  machine.on(Tick{}, at(0) + kWindow);
  machine.on(UpdateStored{"a"}, at(1) + kWindow);
  EXPECT_THAT(machine.on(UpdateStored{"b"}, at(2) + kWindow),
              actions(StartAggregation{{"a", "b"}}));
}

// P-16
TEST(RoundMachine, P16_EndsAtTheDeadlineWithTheRestWhenDevicesDied) {
  RoundMachine machine = training(settings_for(4, 4, 2), {"a", "b", "c", "d"});
  machine.on(UpdateStored{"d"}, at(1));
  machine.on(UpdateStored{"b"}, at(2));
  EXPECT_THAT(machine.on(Tick{}, at(-1) + kDeadline), IsEmpty());
  EXPECT_THAT(machine.on(Tick{}, at(0) + kDeadline), actions(StartAggregation{{"b", "d"}}));
}

// P-14
TEST(RoundMachine, P14_IsAbandonedWhenTheDeadlinePassesWithTooFewNamingTheMissing) {
  RoundMachine machine = training(settings_for(4, 4, 3), {"a", "b", "c", "d"});
  machine.on(UpdateStored{"d"}, at(1));
  machine.on(UpdateStored{"b"}, at(2));
  EXPECT_THAT(machine.on(Tick{}, at(0) + kDeadline),
              actions(AbandonRound{"2 of at least 3 updates arrived before the deadline of 120 s; "
                                   "missing: a, c"}));
  EXPECT_EQ(machine.phase(), RoundPhase::kAbandoned);
}

TEST(RoundMachine, LongListsOfMissingDevicesAreCut) {
  std::vector<DeviceId> devices;
  for (std::uint64_t i = 0; i < 30; ++i) devices.push_back(numbered(10 + i));
  RoundMachine machine = training(settings_for(30, 30, 30), devices);
  machine.on(Tick{}, at(0) + kDeadline);
  EXPECT_THAT(machine.explain(at(0)), HasSubstr("d19 and 20 more"));
}

TEST(RoundMachine, CountsAnUpdateOnceAndOnlyFromAnInvitedDevice) {
  RoundMachine machine = training(settings_for(2), {"a", "b"});
  EXPECT_THAT(machine.on(UpdateStored{"a"}, at(1)), IsEmpty());
  EXPECT_THAT(machine.on(UpdateStored{"a"}, at(1)), IsEmpty());
  EXPECT_THAT(machine.on(UpdateStored{"x"}, at(1)), IsEmpty());
  EXPECT_THAT(machine.reported(), ElementsAre("a"));
}

TEST(RoundMachine, UpdateStoredAfterItsVerdictCountsAlthoughTheDeadlinePassedMeanwhile) {
  RoundMachine machine = training(settings_for(3, 3, 2), {"a", "b", "c"});
  ASSERT_EQ(machine.verdict("a", at(-1) + kDeadline), UpdateVerdict::kAccept);
  ASSERT_EQ(machine.verdict("b", at(-1) + kDeadline), UpdateVerdict::kAccept);
  EXPECT_THAT(machine.on(UpdateStored{"a"}, at(3) + kDeadline), IsEmpty());
  EXPECT_THAT(machine.on(UpdateStored{"b"}, at(3) + kDeadline), IsEmpty());
  EXPECT_THAT(machine.on(Tick{}, at(3) + kDeadline), actions(StartAggregation{{"a", "b"}}));
}

// --- Aggregating and the ends ---

TEST(RoundMachine, CommitsWhenTheAggregateIsDurable) {
  RoundMachine machine = aggregating({"a", "b"});
  const Digest state = sha256("state");
  EXPECT_THAT(machine.on(AggregateStored{state}, at(5)), actions(CommitRound{state}));
  EXPECT_EQ(machine.phase(), RoundPhase::kCommitted);
  EXPECT_EQ(machine.explain(at(5)), "committed with 2 updates");
}

TEST(RoundMachine, IsAbandonedWhenAggregationFails) {
  RoundMachine machine = aggregating({"a", "b"});
  EXPECT_THAT(machine.on(AggregateFailed{"disk full"}, at(5)),
              actions(AbandonRound{"aggregating 2 updates failed: disk full"}));
  EXPECT_EQ(machine.phase(), RoundPhase::kAbandoned);
}

TEST(RoundMachine, EventsThatDoNotConcernThePhaseChangeNothing) {
  const Digest state = sha256("state");
  RoundMachine selecting(settings_for(2), 1, at(0));
  RoundMachine committed = aggregating({"a", "b"});
  committed.on(AggregateStored{state}, at(5));
  RoundMachine abandoned = aggregating({"a", "b"});
  abandoned.on(AggregateFailed{"no"}, at(5));
  const std::vector<std::pair<RoundMachine, std::vector<RoundEvent>>> cases = {
      {selecting, {UpdateStored{"a"}, AggregateStored{state}, AggregateFailed{"x"}, Tick{}}},
      {training(settings_for(2), {"a", "b"}),
       {check_in("c"), DeviceLeft{"a"}, AggregateStored{state}, AggregateFailed{"x"}, Tick{}}},
      {aggregating({"a", "b"}), {check_in("c"), DeviceLeft{"a"}, UpdateStored{"a"}, Tick{}}},
      {committed,
       {check_in("c"), DeviceLeft{"a"}, UpdateStored{"a"}, AggregateStored{state},
        AggregateFailed{"x"}, Tick{}}},
      {abandoned,
       {check_in("c"), DeviceLeft{"a"}, UpdateStored{"a"}, AggregateStored{state},
        AggregateFailed{"x"}, Tick{}}}};
  for (const auto& [start, events] : cases) {
    RoundMachine machine = start;
    for (const RoundEvent& event : events) {
      EXPECT_THAT(machine.on(event, at(6)), IsEmpty())
          << to_string(start.phase()) << " with event " << event.index();
      EXPECT_EQ(machine.save(at(6)), start.save(at(6)));
    }
  }
}

// --- verdicts ---

// P-02
TEST(RoundMachine, P02_UpdateBeforeTheSelectionIsNotOpen) {
  RoundMachine machine(settings_for(2), 1, at(0));
  machine.on(check_in("a"), at(0));
  EXPECT_EQ(machine.verdict("a", at(1)), UpdateVerdict::kNotOpen);
}

// P-05, P-04
TEST(RoundMachine, P05_SecondUpdateOfADeviceIsAlreadyReportedInEveryLaterPhase) {
  RoundMachine machine = training(settings_for(3, 2, 1), {"a", "b", "c"});
  machine.on(UpdateStored{"a"}, at(1));
  EXPECT_EQ(machine.verdict("a", at(1)), UpdateVerdict::kAlreadyReported);
  EXPECT_EQ(machine.verdict("a", at(1) + kDeadline), UpdateVerdict::kAlreadyReported);
  machine.on(Tick{}, at(0) + kDeadline);
  EXPECT_EQ(machine.verdict("a", at(2)), UpdateVerdict::kAlreadyReported);
  machine.on(AggregateStored{Digest{}}, at(3));
  EXPECT_EQ(machine.verdict("a", at(3)), UpdateVerdict::kAlreadyReported);
}

// P-01, P-08
TEST(RoundMachine, P01_UpdateIsInBeforeTheDeadlineAndClosedFromItOn) {
  RoundMachine machine = training(settings_for(2, 2, 1), {"a", "b"});
  EXPECT_EQ(machine.verdict("a", at(-1) + kDeadline), UpdateVerdict::kAccept);
  EXPECT_EQ(machine.verdict("a", at(0) + kDeadline), UpdateVerdict::kClosed);
  EXPECT_EQ(machine.verdict("x", at(0) + kDeadline), UpdateVerdict::kClosed);
}

TEST(RoundMachine, DeviceThatWasNotInvitedIsNotSelectedWhileTheRoundIsOpen) {
  EXPECT_EQ(training(settings_for(2), {"a", "b"}).verdict("x", at(1)), UpdateVerdict::kNotSelected);
}

TEST(RoundMachine, EveryoneElseIsClosedOnceAggregatingHasBegun) {
  RoundSettings settings = settings_for(3, 2, 1);
  settings.over_selection = 1.5;
  RoundMachine machine = training(settings, {"a", "b", "c"});
  machine.on(UpdateStored{"a"}, at(1));
  machine.on(UpdateStored{"b"}, at(1));
  ASSERT_EQ(machine.phase(), RoundPhase::kAggregating);
  EXPECT_EQ(machine.verdict("c", at(1)), UpdateVerdict::kClosed);
  EXPECT_EQ(machine.verdict("x", at(1)), UpdateVerdict::kClosed);
  machine.on(AggregateFailed{"x"}, at(1));
  EXPECT_EQ(machine.verdict("c", at(1)), UpdateVerdict::kClosed);
}

TEST(RoundMachine, ExplainsWhatItWaitsFor) {
  RoundMachine machine(settings_for(3, 3, 2), 1, at(0));
  machine.on(check_in("a"), at(0));
  EXPECT_EQ(machine.explain(at(48'000)),
            "waiting for devices: 1 of 3 have checked in, at least 2 are needed; 12 s of the "
            "selection window left");
  machine = training(settings_for(3, 3, 2), {"a", "b", "c"});
  machine.on(UpdateStored{"b"}, at(1));
  EXPECT_EQ(machine.explain(at(500)),
            "training: 1 of 3 updates are in, at least 2 are needed; 119.5 s left; missing: a, c");
  EXPECT_EQ(aggregating({"a", "b"}).explain(at(0)), "aggregating the updates of a, b");
}

}  // namespace
}  // namespace muster
