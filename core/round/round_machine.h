#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "core/base/digest.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/round/round_settings.h"
#include "core/round/selection.h"

namespace muster {

// Time as the round sees it: milliseconds of a clock that never goes back, passed in by the caller.
using RoundTime = std::chrono::milliseconds;

enum class RoundPhase { kSelecting, kTraining, kAggregating, kCommitted, kAbandoned };
std::string_view to_string(RoundPhase phase);

// --- events ---
struct DeviceCheckedIn {
  Candidate candidate;  // replaces an earlier one of the same device
};
struct DeviceLeft {
  DeviceId device;  // its waiting check-in ended before it was selected
};
// Its update is durable. Counts in Training whatever the time: the verdict was given before it was
// stored. In any other phase it is ignored, so a coordinator gives the receipt only when `reported`
// has the device after this event.
struct UpdateStored {
  DeviceId device;
};
struct Tick {};  // time passed
struct AggregateStored {
  Digest state;  // the new global state is durable
};
struct AggregateFailed {
  std::string reason;
};
using RoundEvent =
    std::variant<DeviceCheckedIn, DeviceLeft, UpdateStored, Tick, AggregateStored, AggregateFailed>;

// --- actions, in the order to carry them out ---
struct InviteDevices {
  std::vector<DeviceId> devices;  // selection is made; give them their task
  bool operator==(const InviteDevices&) const = default;
};
struct StartAggregation {
  std::vector<DeviceId> devices;  // over these stored updates, in this order (by device id)
  bool operator==(const StartAggregation&) const = default;
};
struct CommitRound {
  Digest state;
  bool operator==(const CommitRound&) const = default;
};
struct AbandonRound {
  std::string reason;  // one readable sentence
  bool operator==(const AbandonRound&) const = default;
};
using RoundAction = std::variant<InviteDevices, StartAggregation, CommitRound, AbandonRound>;

// Whether an update may be stored now.
enum class UpdateVerdict {
  kAccept,       // selected, round open
  kNotSelected,  // the round is open, the device is not in it
  kAlreadyReported,
  kNotOpen,  // selection is not over
  kClosed,   // aggregating, committed, abandoned or past the deadline
};
std::string_view to_string(UpdateVerdict verdict);

// One attempt at one round, pure: events and the time in, actions out. It holds no state dict, no
// socket, no clock and no thread. Owned by the coordinator for the life of the attempt; `save`
// after each event gives what a restarted server needs to go on. One thread at a time.
//
//   Selecting   -> Training     num_clients eligible devices have checked in (the whole pool),
//                               or the window ended with at least min_updates of them
//               -> Abandoned    the window ended with fewer
//   Training    -> Aggregating  target_updates stored, or all invited devices reported,
//                               or the deadline passed with at least min_updates
//               -> Abandoned    the deadline passed with fewer
//   Aggregating -> Committed    AggregateStored
//               -> Abandoned    AggregateFailed
//
// An asynchronous round (RoundSettings::asynchronous) is one buffer of updates and has no
// Selecting: it begins in Training, with the devices whose tasks were carried over from the rounds
// before.
//   Training: a device that checks in is invited at once while fewer than num_clients are invited
//             and have not reported; later ones are candidates until one of those reports. Each
//             device is invited, and counts, once a round. Ends with target_updates, or at the
//             deadline with at least min_updates; that all invited devices reported ends nothing.
//
// Events that do not concern the phase are ignored and give no actions (a Tick in Committed, a late
// check-in). A phase is over when now >= its end: at exactly the deadline an update is late.
//
// After a restart: `restore`; then an UpdateStored for every durable update of the attempt; then a
// Tick. Before that Tick check-ins and updates are only counted (known ones ignored), so that none
// is left out because another came first. The Tick does what is due: it gives StartAggregation
// again in Aggregating, ends a Training whose target is met or whose deadline passed, and from
// there on all is as before. InviteDevices is not given again (`invited` has them). An action and
// the save that follows it belong in one transaction of the store, so that Committed and Abandoned
// need no repetition.
class RoundMachine {
 public:
  // Begins at `now`, in Selecting or, asynchronous, in Training. `seed` decides the selection
  // (already derived from job seed, round, attempt).
  //   carried_over  asynchronous: devices that are training already; invited from the start
  RoundMachine(RoundSettings settings, std::uint64_t seed, RoundTime now,
               std::vector<DeviceId> carried_over = {});

  std::vector<RoundAction> on(const RoundEvent& event, RoundTime now);

  // Pure question, asked before an update's bytes are taken and again before it is stored.
  UpdateVerdict verdict(const DeviceId& device, RoundTime now) const;

  RoundPhase phase() const { return phase_; }
  // When the next Tick can change something, at once after a restore; nullopt when only an event
  // can.
  std::optional<RoundTime> next_deadline() const;
  // Why the round waits, ended or was abandoned: one sentence for a person.
  std::string explain(RoundTime now) const;

  const RoundSettings& settings() const { return settings_; }
  const std::vector<Candidate>& candidates() const { return candidates_; }  // in no order
  const std::vector<DeviceId>& invited() const { return invited_; }         // sorted
  const std::vector<DeviceId>& reported() const { return reported_; }       // sorted

  // Saved times are durations still to run at `now`, so that a restarted server, whose clock starts
  // anew, goes on with what was left. Candidates are not saved: their connections are gone.
  Json save(RoundTime now) const;
  // Errors: kDataLoss, reason "bad_round", when `saved` is not what `save` gives.
  static Result<RoundMachine> restore(RoundSettings settings, const Json& saved, RoundTime now);

 private:
  std::vector<RoundAction> handle(const DeviceCheckedIn& event, RoundTime now);
  std::vector<RoundAction> handle(const DeviceLeft& event, RoundTime now);
  std::vector<RoundAction> handle(const UpdateStored& event, RoundTime now);
  std::vector<RoundAction> handle(const Tick& event, RoundTime now);
  std::vector<RoundAction> handle(const AggregateStored& event, RoundTime now);
  std::vector<RoundAction> handle(const AggregateFailed& event, RoundTime now);

  std::vector<RoundAction> try_select(RoundTime now, bool window_ended);
  // Asynchronous: invites candidates to the places that are free.
  std::vector<RoundAction> try_invite(RoundTime now);
  std::vector<RoundAction> try_aggregate(bool deadline_passed);
  std::vector<RoundAction> start_aggregation();
  std::vector<RoundAction> abandon(std::string reason);
  bool takes_candidates() const;
  std::vector<DeviceId> missing() const;  // invited and not reported

  RoundSettings settings_;
  std::uint64_t seed_;
  RoundPhase phase_ = RoundPhase::kSelecting;
  RoundTime phase_ends_;
  std::vector<Candidate> candidates_;
  std::unordered_map<DeviceId, std::size_t> candidate_places_;  // index into candidates_
  std::vector<DeviceId> invited_;
  std::vector<DeviceId> reported_;
  std::string reason_;
  std::optional<RoundTime> restored_at_;  // until the Tick that follows a restore
};

}  // namespace muster
