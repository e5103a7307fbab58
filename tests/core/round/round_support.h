#pragma once

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <chrono>
#include <string>
#include <vector>

#include "core/round/round_machine.h"

// Shorthand of the round tests.
namespace muster::round_support {

inline constexpr std::chrono::milliseconds kWindow{60'000};
inline constexpr std::chrono::milliseconds kDeadline{120'000};

// A moment, in milliseconds after an arbitrary start of the clock.
inline RoundTime at(std::int64_t ms) {
  return RoundTime(1'000'000 + ms);
}

// "d7"
inline DeviceId numbered(std::uint64_t number) {
  return fmt::format("d{}", number);
}

inline RoundSettings settings_for(std::int64_t pool, std::int64_t target, std::int64_t minimum) {
  RoundSettings settings;
  settings.num_clients = pool;
  settings.target_updates = target;
  settings.min_updates = minimum;
  settings.selection_window = kWindow;
  settings.deadline = kDeadline;
  return settings;
}

inline RoundSettings settings_for(std::int64_t pool) {
  return settings_for(pool, pool, pool);
}

inline DeviceCheckedIn check_in(std::string device) {
  return {{std::move(device), {}}};
}

// A machine in Training since at(0) that invited all of `devices`, which are the pool.
inline RoundMachine training(RoundSettings settings, const std::vector<DeviceId>& devices) {
  if (settings.over_selection == 1.0) settings.over_selection = 10.0;
  RoundMachine machine(settings, 1, at(0));
  for (const DeviceId& device : devices) machine.on(check_in(device), at(0));
  EXPECT_EQ(machine.phase(), RoundPhase::kTraining);
  EXPECT_EQ(machine.invited(), devices);
  return machine;
}

// A machine in Aggregating with the updates of all of `devices`.
inline RoundMachine aggregating(const std::vector<DeviceId>& devices) {
  const auto count = static_cast<std::int64_t>(devices.size());
  RoundMachine machine = training(settings_for(count), devices);
  for (const DeviceId& device : devices) machine.on(UpdateStored{device}, at(1));
  EXPECT_EQ(machine.phase(), RoundPhase::kAggregating);
  return machine;
}

template <typename Action>
auto actions(Action action) {
  return ::testing::ElementsAre(RoundAction(std::move(action)));
}

}  // namespace muster::round_support
