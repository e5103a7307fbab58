#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/round/round_machine.h"
#include "tests/core/round/round_support.h"

namespace muster {
namespace {

using namespace round_support;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// What a restarted server has: the text of the saved round, and a clock that starts anew.
RoundMachine restarted(const RoundMachine& machine, RoundTime saved_at, RoundTime now) {
  const auto saved = parse_json(machine.save(saved_at).dump());
  auto restored = RoundMachine::restore(machine.settings(), *saved, now);
  EXPECT_TRUE(restored.has_value()) << restored.error().message;
  return *std::move(restored);
}

TEST(RoundSave, SelectionGoesOnWithTheWindowThatWasLeftAndWithoutOldConnections) {
  RoundMachine machine(settings_for(3, 3, 1), 18'446'744'073'709'551'615U, at(0));
  machine.on(check_in("a"), at(0));
  RoundMachine again = restarted(machine, at(20'000), RoundTime(5));
  EXPECT_EQ(again.phase(), RoundPhase::kSelecting);
  EXPECT_THAT(again.candidates(), IsEmpty());
  EXPECT_EQ(again.next_deadline(), RoundTime(5)) << "the first Tick is due at once";
  EXPECT_THAT(again.on(Tick{}, RoundTime(5)), IsEmpty());
  EXPECT_EQ(again.next_deadline(), RoundTime(5 + 40'000));
  again.on(check_in("b"), RoundTime(6));
  EXPECT_THAT(again.on(Tick{}, RoundTime(5 + 40'000)), actions(InviteDevices{{"b"}}));
}

TEST(RoundSave, DevicesThatComeBackBeforeTheFirstTickAreAllCounted) {
  RoundMachine machine(settings_for(3, 3, 2), 1, at(0));
  RoundMachine again = restarted(machine, at(0) + kWindow, at(0));
  EXPECT_THAT(again.on(check_in("a"), at(1)), IsEmpty());
  EXPECT_THAT(again.on(check_in("b"), at(1)), IsEmpty());
  EXPECT_THAT(again.on(Tick{}, at(1)), actions(InviteDevices{{"a", "b"}}));
}

TEST(RoundSave, SelectionAfterARestartUsesTheSameSeed) {
  RoundMachine machine(settings_for(10, 3, 1), 18'446'744'073'709'551'615U, at(0));
  RoundMachine again = restarted(machine, at(0), at(0));
  again.on(Tick{}, at(0));
  for (std::uint64_t i = 0; i < 10; ++i) {
    machine.on(check_in(numbered(i)), at(1));
    again.on(check_in(numbered(9 - i)), at(1));
  }
  EXPECT_EQ(machine.invited(), again.invited());
  EXPECT_EQ(machine.invited().size(), 3U);
}

TEST(RoundSave, TrainingGoesOnWithTheDeadlineThatWasLeft) {
  RoundMachine machine = training(settings_for(3, 3, 1), {"a", "b", "c"});
  machine.on(UpdateStored{"b"}, at(10));
  RoundMachine again = restarted(machine, at(20'000), RoundTime(0));
  EXPECT_THAT(again.on(Tick{}, RoundTime(0)), IsEmpty()) << "devices are not invited again";
  EXPECT_THAT(again.invited(), ElementsAre("a", "b", "c"));
  EXPECT_THAT(again.reported(), ElementsAre("b"));
  EXPECT_EQ(again.verdict("b", RoundTime(1)), UpdateVerdict::kAlreadyReported);
  EXPECT_EQ(again.verdict("a", RoundTime(99'999)), UpdateVerdict::kAccept);
  EXPECT_EQ(again.verdict("a", RoundTime(100'000)), UpdateVerdict::kClosed);
  EXPECT_THAT(again.on(Tick{}, RoundTime(100'000)), actions(StartAggregation{{"b"}}));
}

TEST(RoundSave, UpdatesThatWereDurableBeforeTheCrashAreAllCountedBeforeTheRoundEnds) {
  // Saved with one of them; the store has three, target two.
  RoundMachine machine = training(settings_for(4, 2, 1), {"a", "b", "c", "d"});
  machine.on(UpdateStored{"c"}, at(10));
  RoundMachine again = restarted(machine, at(10) + kDeadline, at(0));
  for (const char* device : {"a", "b", "c"}) {
    EXPECT_THAT(again.on(UpdateStored{device}, at(1)), IsEmpty()) << device;
  }
  EXPECT_THAT(again.on(Tick{}, at(1)), actions(StartAggregation{{"a", "b", "c"}}));
}

TEST(RoundSave, TrainingWhoseDeadlinePassedEndsAtTheFirstTick) {
  RoundMachine machine = training(settings_for(3, 3, 2), {"a", "b", "c"});
  machine.on(UpdateStored{"b"}, at(10));
  RoundMachine again = restarted(machine, at(5) + kDeadline, at(0));
  const auto given = again.on(Tick{}, at(0));
  ASSERT_EQ(given.size(), 1U);
  EXPECT_THAT(std::get<AbandonRound>(given[0]).reason, HasSubstr("missing: a, c"));
}

TEST(RoundSave, AggregationIsStartedAgainOnceByTheFirstTick) {
  RoundMachine machine = aggregating({"a", "b"});
  RoundMachine again = restarted(machine, at(5), RoundTime(70));
  EXPECT_EQ(again.next_deadline(), RoundTime(70));
  EXPECT_THAT(again.on(Tick{}, RoundTime(70)), actions(StartAggregation{{"a", "b"}}));
  EXPECT_EQ(again.next_deadline(), std::nullopt);
  EXPECT_THAT(again.on(Tick{}, RoundTime(71)), IsEmpty());
  EXPECT_THAT(again.on(AggregateStored{Digest{}}, RoundTime(72)), actions(CommitRound{Digest{}}));
}

TEST(RoundSave, EndedRoundsStayEndedAndKeepTheirReason) {
  RoundMachine abandoned = aggregating({"a", "b"});
  abandoned.on(AggregateFailed{"disk full"}, at(5));
  RoundMachine again = restarted(abandoned, at(5), at(0));
  EXPECT_EQ(again.next_deadline(), std::nullopt);
  EXPECT_THAT(again.on(Tick{}, at(0)), IsEmpty());
  EXPECT_EQ(again.phase(), RoundPhase::kAbandoned);
  EXPECT_EQ(again.explain(at(0)), "aggregating 2 updates failed: disk full");
  RoundMachine committed = aggregating({"a", "b"});
  committed.on(AggregateStored{Digest{}}, at(5));
  again = restarted(committed, at(5), at(0));
  EXPECT_THAT(again.on(Tick{}, at(0)), IsEmpty());
  EXPECT_EQ(again.phase(), RoundPhase::kCommitted);
}

TEST(RoundSave, DamagedSavedRoundsAreRefused) {
  const Json good = aggregating({"a", "b"}).save(at(0));
  const std::vector<std::pair<std::string, std::string>> damages = {
      {"phase", R"("resting")"},
      {"phase", "1"},
      {"seed", "1"},
      {"seed", R"("-1")"},
      {"seed", R"("18446744073709551616")"},
      {"seed", R"("")"},
      {"remaining_ms", "-1"},
      {"remaining_ms", "1e300"},
      {"invited", R"(["b", "a"])"},
      {"invited", R"(["a", "a"])"},
      {"invited", R"(["a", "b/.."])"},
      {"invited", R"(["a"])"},
      {"reported", R"(["a"])"},
      {"reported", R"(["a", "x"])"},
      {"phase", R"("selecting")"},
      {"reason", "null"},
      {"more", "1"}};
  ASSERT_TRUE(RoundMachine::restore(settings_for(2), good, at(0)).has_value());
  for (const auto& [field, value] : damages) {
    Json bad = good;
    bad[field] = Json::parse(value);
    const auto restored = RoundMachine::restore(settings_for(2), bad, at(0));
    ASSERT_FALSE(restored.has_value()) << bad;
    EXPECT_EQ(restored.error().code, ErrorCode::kDataLoss);
    EXPECT_EQ(restored.error().reason, "bad_round");
  }
  for (const auto& [field, value] : good.items()) {
    Json bad = good;
    bad.erase(field);
    EXPECT_FALSE(RoundMachine::restore(settings_for(2), bad, at(0)).has_value()) << field;
  }
  EXPECT_FALSE(RoundMachine::restore(settings_for(2), Json(7), at(0)).has_value());
}

}  // namespace
}  // namespace muster
