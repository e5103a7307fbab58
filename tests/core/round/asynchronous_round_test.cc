#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "core/base/random.h"
#include "core/round/round_machine.h"
#include "tests/core/round/round_support.h"

// Rounds of an asynchronous job: buffers of updates.
namespace muster {
namespace {

using namespace round_support;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

RoundSettings buffer_of(std::int64_t size, std::int64_t at_once, std::int64_t minimum = 1) {
  RoundSettings settings = settings_for(at_once, size, minimum);
  settings.asynchronous = true;
  return settings;
}

TEST(AsynchronousRound, BeginsInTrainingWithItsOwnDeadline) {
  const RoundMachine machine(buffer_of(2, 3), 1, at(0));
  EXPECT_EQ(machine.phase(), RoundPhase::kTraining);
  EXPECT_EQ(machine.next_deadline(), at(0) + kDeadline);
  EXPECT_THAT(machine.explain(at(0)), HasSubstr("0 of 2 updates are in"));
}

TEST(AsynchronousRound, InvitesADeviceWhenItComes) {
  RoundMachine machine(buffer_of(2, 3), 1, at(0));
  EXPECT_THAT(machine.on(check_in("b"), at(1)), actions(InviteDevices{{"b"}}));
  EXPECT_THAT(machine.on(check_in("a"), at(2)), actions(InviteDevices{{"a"}}));
  EXPECT_THAT(machine.on(check_in("b"), at(3)), IsEmpty()) << "it has its task";
  EXPECT_THAT(machine.invited(), ElementsAre("a", "b"));
  EXPECT_EQ(machine.verdict("b", at(3)), UpdateVerdict::kAccept);
  EXPECT_EQ(machine.verdict("c", at(3)), UpdateVerdict::kNotSelected);
}

TEST(AsynchronousRound, NoMoreThanNumClientsTrainAtOnceAndTheNextTakesTheFreePlace) {
  RoundMachine machine(buffer_of(2, 2), 1, at(0));
  machine.on(check_in("a"), at(1));
  machine.on(check_in("b"), at(1));
  EXPECT_THAT(machine.on(check_in("c"), at(2)), IsEmpty());
  EXPECT_EQ(machine.candidates().size(), 1U);
  EXPECT_THAT(machine.on(UpdateStored{"a"}, at(3)), actions(InviteDevices{{"c"}}));
  EXPECT_THAT(machine.candidates(), IsEmpty());
}

TEST(AsynchronousRound, ACandidateThatLeftIsNotInvited) {
  RoundMachine machine(buffer_of(2, 1), 1, at(0));
  machine.on(check_in("a"), at(1));
  machine.on(check_in("b"), at(2));
  machine.on(DeviceLeft{"b"}, at(3));
  EXPECT_THAT(machine.on(UpdateStored{"a"}, at(4)), IsEmpty());
}

TEST(AsynchronousRound, AFullBufferIsAggregatedAndADeviceCountsOnceInIt) {
  RoundMachine machine(buffer_of(2, 3), 1, at(0));
  for (const char* device : {"a", "b", "c"}) machine.on(check_in(device), at(1));
  EXPECT_THAT(machine.on(UpdateStored{"c"}, at(2)), IsEmpty());
  EXPECT_THAT(machine.on(UpdateStored{"c"}, at(3)), IsEmpty());
  EXPECT_THAT(machine.on(check_in("c"), at(4)), IsEmpty()) << "it waits for the next buffer";
  EXPECT_EQ(machine.verdict("c", at(4)), UpdateVerdict::kAlreadyReported);
  EXPECT_THAT(machine.on(UpdateStored{"a"}, at(5)), actions(StartAggregation{{"a", "c"}}));
  EXPECT_EQ(machine.verdict("b", at(6)), UpdateVerdict::kClosed);
  EXPECT_THAT(machine.on(check_in("d"), at(6)), IsEmpty());
  EXPECT_THAT(machine.on(AggregateStored{Digest{}}, at(7)), actions(CommitRound{Digest{}}));
}

TEST(AsynchronousRound, ThatAllWhoTrainReportedDoesNotEndIt) {
  RoundMachine machine(buffer_of(3, 3), 1, at(0));
  machine.on(check_in("a"), at(1));
  EXPECT_THAT(machine.on(UpdateStored{"a"}, at(2)), IsEmpty());
  EXPECT_EQ(machine.phase(), RoundPhase::kTraining);
}

TEST(AsynchronousRound, AtTheDeadlineTheMinimumIsEnoughAndFewerAreNot) {
  RoundMachine enough(buffer_of(3, 3, 2), 1, at(0));
  RoundMachine few(buffer_of(3, 3, 2), 1, at(0));
  for (const char* device : {"a", "b", "c"}) {
    enough.on(check_in(device), at(1));
    few.on(check_in(device), at(1));
  }
  few.on(UpdateStored{"b"}, at(2));
  enough.on(UpdateStored{"b"}, at(2));
  enough.on(UpdateStored{"c"}, at(2));
  EXPECT_EQ(enough.verdict("a", at(0) + kDeadline), UpdateVerdict::kClosed);
  EXPECT_THAT(enough.on(check_in("d"), at(0) + kDeadline), IsEmpty()) << "too late to train";
  EXPECT_THAT(enough.on(Tick{}, at(0) + kDeadline), actions(StartAggregation{{"b", "c"}}));
  const auto given = few.on(Tick{}, at(0) + kDeadline);
  ASSERT_EQ(given.size(), 1U);
  EXPECT_THAT(std::get<AbandonRound>(given[0]).reason, HasSubstr("1 of at least 2 updates"));
}

TEST(AsynchronousRound, DevicesThatWereTrainingAlreadyAreInItAndTakeAPlace) {
  RoundMachine machine(buffer_of(2, 2), 1, at(0), {"z", "k"});
  EXPECT_THAT(machine.invited(), ElementsAre("k", "z"));
  EXPECT_EQ(machine.verdict("z", at(1)), UpdateVerdict::kAccept);
  EXPECT_THAT(machine.on(check_in("a"), at(1)), IsEmpty());
  EXPECT_THAT(machine.on(UpdateStored{"z"}, at(2)), actions(InviteDevices{{"a"}}));
}

TEST(AsynchronousRound, OnlyDevicesWithTheTagsAreInvited) {
  RoundSettings settings = buffer_of(2, 2);
  settings.selection.method = ClientSelection::Method::kByCapability;
  settings.selection.required_tags = {"gpu"};
  RoundMachine machine(settings, 1, at(0));
  EXPECT_THAT(machine.on(check_in("a"), at(1)), IsEmpty());
  EXPECT_THAT(machine.on(DeviceCheckedIn{{"b", {"gpu"}}}, at(1)), actions(InviteDevices{{"b"}}));
}

TEST(AsynchronousRound, GoesOnAfterARestartWithWhoCameBackBeforeTheFirstTick) {
  RoundMachine machine(buffer_of(2, 2), 1, at(0), {"z"});
  machine.on(UpdateStored{"z"}, at(10));
  auto again = RoundMachine::restore(machine.settings(), *parse_json(machine.save(at(10)).dump()),
                                     RoundTime(0));
  ASSERT_TRUE(again.has_value()) << again.error().message;
  for (const char* device : {"a", "b", "c"}) {
    EXPECT_THAT(again->on(check_in(device), RoundTime(1)), IsEmpty());
  }
  const auto given = again->on(Tick{}, RoundTime(1));
  ASSERT_EQ(given.size(), 1U);
  EXPECT_EQ(std::get<InviteDevices>(given[0]).devices.size(), 2U);
  EXPECT_EQ(again->next_deadline(), RoundTime(0) + kDeadline - std::chrono::milliseconds(10));
}

TEST(AsynchronousRound, ASavedOneThatSelectsIsRefused) {
  const RoundMachine waits(settings_for(2), 1, at(0));
  const auto restored = RoundMachine::restore(buffer_of(2, 2), waits.save(at(0)), at(0));
  ASSERT_FALSE(restored.has_value());
  EXPECT_EQ(restored.error().reason, "bad_round");
}

// What holds of every asynchronous round, and that a restart at any point changes nothing.
TEST(AsynchronousRoundProperties, HoldForThousandsOfRandomRoundsWithRestarts) {
  int committed = 0;
  int abandoned = 0;
  int restarts = 0;
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const auto size = static_cast<std::int64_t>(1 + random.below(5));
    RoundSettings settings =
        buffer_of(size, size + static_cast<std::int64_t>(random.below(4)),
                  static_cast<std::int64_t>(1 + random.below(static_cast<std::uint64_t>(size))));
    settings.deadline = std::chrono::milliseconds(50 + random.below(300));
    RoundMachine machine(settings, seed, at(0), {numbered(8), numbered(9)});
    std::set<DeviceId> given = {numbered(8), numbered(9)};
    std::int64_t now = 0;
    for (int step = 0; step < 60; ++step) {
      now += static_cast<std::int64_t>(random.below(12));
      if (random.below(10) == 0) {
        auto again =
            RoundMachine::restore(settings, *parse_json(machine.save(at(now)).dump()), at(now));
        ASSERT_TRUE(again.has_value()) << again.error().message;
        ASSERT_EQ(again->invited(), machine.invited());
        ASSERT_EQ(again->reported(), machine.reported());
        machine = *std::move(again);
        ++restarts;
      }
      RoundEvent event = Tick{};
      switch (random.below(8)) {
        case 0:
        case 1:
        case 2:
          event = check_in(numbered(random.below(10)));
          break;
        case 3:
        case 4:
          event = UpdateStored{numbered(random.below(10))};
          break;
        case 5:
          event = DeviceLeft{numbered(random.below(10))};
          break;
        case 6:
          if (step > 40) event = AggregateStored{sha256("state")};
          break;
        default:
          break;
      }
      for (const RoundAction& action : machine.on(event, at(now))) {
        if (const auto* invite = std::get_if<InviteDevices>(&action)) {
          EXPECT_LT(at(now), at(0) + settings.deadline + std::chrono::milliseconds(1));
          for (const DeviceId& device : invite->devices) {
            EXPECT_TRUE(given.insert(device).second) << device << " was invited twice";
          }
        }
        if (const auto* start = std::get_if<StartAggregation>(&action)) {
          EXPECT_EQ(start->devices, machine.reported());
          EXPECT_GE(start->devices.size(), static_cast<std::size_t>(settings.min_updates));
        }
        committed += std::holds_alternative<CommitRound>(action) ? 1 : 0;
        abandoned += std::holds_alternative<AbandonRound>(action) ? 1 : 0;
      }
      ASSERT_EQ(std::vector<DeviceId>(given.begin(), given.end()), machine.invited());
      ASSERT_TRUE(std::ranges::includes(machine.invited(), machine.reported()));
      const std::size_t training = machine.invited().size() - machine.reported().size();
      ASSERT_LE(training, std::max<std::size_t>(2, static_cast<std::size_t>(settings.num_clients)));
      ASSERT_NE(machine.phase(), RoundPhase::kSelecting);
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(committed, 100);
  EXPECT_GT(abandoned, 100);
  EXPECT_GT(restarts, 1000);
}

}  // namespace
}  // namespace muster
