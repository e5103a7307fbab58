#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "core/base/random.h"
#include "core/round/round_machine.h"
#include "tests/core/round/round_support.h"

// Random rounds, random restarts: what must hold of every one of them.
namespace muster {
namespace {

using namespace round_support;

RoundSettings random_settings(Random& random) {
  RoundSettings settings;
  settings.num_clients = static_cast<std::int64_t>(1 + random.below(8));
  const auto pool = static_cast<std::uint64_t>(settings.num_clients);
  settings.target_updates = static_cast<std::int64_t>(1 + random.below(pool));
  settings.min_updates = static_cast<std::int64_t>(
      1 + random.below(static_cast<std::uint64_t>(settings.target_updates)));
  settings.over_selection = 1.0 + random.uniform();
  settings.selection_window = std::chrono::milliseconds(50 + random.below(100));
  settings.deadline = std::chrono::milliseconds(50 + random.below(200));
  return settings;
}

DeviceId random_device(Random& random) {
  return numbered(random.below(10));
}

RoundEvent random_event(Random& random, bool early) {
  switch (random.below(early ? 6 : 8)) {
    case 0:
    case 1:
      return check_in(random_device(random));
    case 2:
    case 3:
      return UpdateStored{random_device(random)};
    case 4:
      return Tick{};
    case 5:
      return DeviceLeft{random_device(random)};
    case 6:
      return AggregateStored{sha256("state")};
    default:
      return AggregateFailed{"no"};
  }
}

// Follows one round through its actions.
class Witness {
 public:
  void saw(const RoundMachine& machine, const std::vector<RoundAction>& actions) {
    for (const RoundAction& action : actions) {
      if (const auto* invite = std::get_if<InviteDevices>(&action)) {
        EXPECT_EQ(++invitations_, 1);
        EXPECT_EQ(invite->devices, machine.invited());
      }
      if (const auto* start = std::get_if<StartAggregation>(&action)) {
        EXPECT_EQ(++aggregations_, 1);
        EXPECT_EQ(start->devices, machine.reported());
        EXPECT_GE(start->devices.size(), static_cast<std::size_t>(machine.settings().min_updates));
        EXPECT_LE(start->devices.size(),
                  static_cast<std::size_t>(machine.settings().target_updates));
      }
      if (std::holds_alternative<CommitRound>(action)) {
        EXPECT_EQ(aggregations_, 1);
        ++ends_;
      }
      if (std::holds_alternative<AbandonRound>(action)) {
        EXPECT_FALSE(std::get<AbandonRound>(action).reason.empty());
        ++ends_;
      }
    }
    EXPECT_LE(ends_, 1) << "committed and abandoned, or twice";
    EXPECT_EQ(ends_ == 1, is_over(machine));
    EXPECT_TRUE(std::includes(machine.invited().begin(), machine.invited().end(),
                              machine.reported().begin(), machine.reported().end()));
    EXPECT_TRUE(std::is_sorted(machine.reported().begin(), machine.reported().end()));
    EXPECT_LE(machine.invited().size(),
              static_cast<std::size_t>(devices_to_invite(machine.settings())));
  }

  static bool is_over(const RoundMachine& machine) {
    return machine.phase() == RoundPhase::kCommitted || machine.phase() == RoundPhase::kAbandoned;
  }

 private:
  int invitations_ = 0;
  int aggregations_ = 0;
  int ends_ = 0;
};

TEST(RoundProperties, HoldForThousandsOfRandomRounds) {
  std::map<RoundPhase, int> ends;
  for (std::uint64_t seed = 0; seed < 5000; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    RoundMachine machine(random_settings(random), seed, at(0));
    Witness witness;
    std::int64_t now = 0;
    for (int step = 0; step < 60 && !HasFailure(); ++step) {
      now += static_cast<std::int64_t>(random.below(12));
      const RoundEvent event = random_event(random, step < 40);
      const auto device = random_device(random);
      const auto before = machine.verdict(device, at(now));
      const auto reported = machine.reported();
      witness.saw(machine, machine.on(event, at(now)));
      // A verdict of kAccept is kept: the update counts if it is stored next.
      if (before == UpdateVerdict::kAccept) {
        EXPECT_FALSE(std::binary_search(reported.begin(), reported.end(), device));
        EXPECT_TRUE(std::binary_search(machine.invited().begin(), machine.invited().end(), device));
      }
    }
    ++ends[machine.phase()];
    if (HasFailure()) return;
  }
  EXPECT_GT(ends[RoundPhase::kCommitted], 100);
  EXPECT_GT(ends[RoundPhase::kAbandoned], 100);
}

TEST(RoundProperties, NoRoundWaitsLongerThanItsWindowAndItsDeadline) {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    Random random(seed);
    const RoundSettings settings = random_settings(random);
    RoundMachine machine(settings, seed, at(0));
    RoundTime now = at(0);
    while (const auto next = machine.next_deadline()) {
      // Some events on the way, then the time that the machine asked for.
      for (std::uint64_t i = random.below(6); i > 0; --i)
        machine.on(random_event(random, true), now);
      now = std::max(now, *next);
      machine.on(Tick{}, now);
    }
    EXPECT_LE(now, at(0) + settings.selection_window + settings.deadline) << seed;
    EXPECT_NE(machine.phase(), RoundPhase::kSelecting);
    EXPECT_NE(machine.phase(), RoundPhase::kTraining);
  }
}

// The actions of the first Tick after a restart that a machine without one did not give.
std::vector<RoundAction> without_repeated_start(std::vector<RoundAction> actions) {
  std::erase_if(actions, [](const RoundAction& action) {
    return std::holds_alternative<StartAggregation>(action);
  });
  return actions;
}

TEST(RoundProperties, RestartAtAnyPointGivesTheSameContinuation) {
  std::map<RoundPhase, int> restarts;
  for (std::uint64_t seed = 0; seed < 5000; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    RoundMachine machine(random_settings(random), seed, at(0));
    std::int64_t now = 0;
    for (std::uint64_t i = random.below(40); i > 0; --i) {
      now += static_cast<std::int64_t>(random.below(12));
      machine.on(random_event(random, random.below(20) != 0), at(now));
    }

    // The clock of the restarted server began at another time.
    const RoundTime shift(static_cast<std::int64_t>(random.below(1000)) - 500);
    auto restored = RoundMachine::restore(
        machine.settings(), *parse_json(machine.save(at(now)).dump()), at(now) + shift);
    ASSERT_TRUE(restored.has_value()) << restored.error().message;
    ++restarts[machine.phase()];
    for (const DeviceId& device : machine.reported()) {
      EXPECT_TRUE(restored->on(UpdateStored{device}, at(now) + shift).empty());
    }
    // Its devices come back.
    for (const Candidate& candidate : machine.candidates()) {
      EXPECT_TRUE(restored->on(DeviceCheckedIn{candidate}, at(now) + shift).empty());
    }
    const auto expected = machine.on(Tick{}, at(now));
    const auto given = restored->on(Tick{}, at(now) + shift);
    if (machine.phase() == RoundPhase::kAggregating) {
      EXPECT_EQ(given, (std::vector<RoundAction>{StartAggregation{machine.reported()}}));
      EXPECT_TRUE(without_repeated_start(expected).empty());
    } else {
      EXPECT_EQ(given, expected);
    }

    for (int step = 0; step < 40; ++step) {
      now += static_cast<std::int64_t>(random.below(12));
      const RoundEvent event = random_event(random, random.below(20) != 0);
      ASSERT_EQ(restored->on(event, at(now) + shift), machine.on(event, at(now)));
      ASSERT_EQ(restored->save(at(now) + shift), machine.save(at(now)));
      ASSERT_EQ(restored->explain(at(now) + shift), machine.explain(at(now)));
      const DeviceId device = random_device(random);
      ASSERT_EQ(restored->verdict(device, at(now) + shift), machine.verdict(device, at(now)));
    }
    if (HasFailure()) return;
  }
  for (const RoundPhase phase :
       {RoundPhase::kSelecting, RoundPhase::kTraining, RoundPhase::kAggregating,
        RoundPhase::kCommitted, RoundPhase::kAbandoned}) {
    EXPECT_GT(restarts[phase], 20) << to_string(phase);
  }
}

}  // namespace
}  // namespace muster
