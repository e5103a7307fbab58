#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "core/base/names.h"
#include "core/round/round_machine.h"

// The saved form of a round:
//   {"phase": "training", "seed": "42", "remaining_ms": 1500, "invited": [...], "reported": [...],
//   "reason": ""}
namespace muster {
namespace {

constexpr std::int64_t kWeekMs = 604'800'000;
constexpr std::array kPhases = {RoundPhase::kSelecting, RoundPhase::kTraining,
                                RoundPhase::kAggregating, RoundPhase::kCommitted,
                                RoundPhase::kAbandoned};

// A 64-bit seed is text, because many JSON readers keep only 53 bits of a number.
std::uint64_t read_seed(JsonObject& object) {
  const std::string text = object.text("seed");
  std::uint64_t seed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
  if (error != std::errc() || end != text.data() + text.size()) {
    object.fail("seed", "not a 64-bit number in decimal digits");
  }
  return seed;
}

std::vector<DeviceId> read_devices(JsonObject& object, std::string_view key) {
  auto devices = object.texts(key, {});
  if (!std::all_of(devices.begin(), devices.end(), is_name)) {
    object.fail(key, "holds what is no device name");
  }
  if (!std::is_sorted(devices.begin(), devices.end()) ||
      std::adjacent_find(devices.begin(), devices.end()) != devices.end()) {
    object.fail(key, "not sorted, or a device is in it twice");
  }
  return devices;
}

}  // namespace

Json RoundMachine::save(RoundTime now) const {
  return {{"phase", std::string(to_string(phase_))},
          {"seed", std::to_string(seed_)},
          {"remaining_ms", std::max<std::int64_t>(0, (phase_ends_ - now).count())},
          {"invited", invited_},
          {"reported", reported_},
          {"reason", reason_}};
}

Result<RoundMachine> RoundMachine::restore(RoundSettings settings, const Json& saved,
                                           RoundTime now) {
  RoundMachine machine(std::move(settings), 0, now);
  JsonObject object(saved, "saved round");
  std::vector<std::string> phases;
  for (const RoundPhase phase : kPhases) phases.emplace_back(to_string(phase));
  const std::string phase = object.choice("phase", phases);
  for (const RoundPhase one : kPhases) {
    if (phase == to_string(one)) machine.phase_ = one;
  }
  machine.seed_ = read_seed(object);
  machine.phase_ends_ = now + RoundTime(object.integer("remaining_ms", {0, kWeekMs}));
  machine.invited_ = read_devices(object, "invited");
  machine.reported_ = read_devices(object, "reported");
  machine.reason_ = object.text("reason");
  if (machine.phase_ == RoundPhase::kSelecting && machine.settings_.asynchronous) {
    object.fail("phase", "selecting, although an asynchronous round begins in training");
  }
  if (machine.phase_ == RoundPhase::kSelecting && !machine.invited_.empty()) {
    object.fail("invited", "not empty, although the round is still selecting");
  }
  if (!std::includes(machine.invited_.begin(), machine.invited_.end(), machine.reported_.begin(),
                     machine.reported_.end())) {
    object.fail("reported", "holds a device that was not invited");
  }
  const bool has_result =
      machine.phase_ == RoundPhase::kAggregating || machine.phase_ == RoundPhase::kCommitted;
  if (has_result &&
      machine.reported_.size() < static_cast<std::size_t>(machine.settings_.min_updates)) {
    object.fail("reported", fmt::format("{} devices, fewer than min_updates {}",
                                        machine.reported_.size(), machine.settings_.min_updates));
  }
  if (auto status = object.finish(); !status) {
    return Error{ErrorCode::kDataLoss, std::move(status).error().message, "bad_round"};
  }
  machine.restored_at_ = now;
  return machine;
}

}  // namespace muster
