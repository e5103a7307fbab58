#include "core/round/round_machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/round/sentences.h"

namespace muster {
namespace {

bool contains(const std::vector<DeviceId>& sorted, const DeviceId& device) {
  return std::binary_search(sorted.begin(), sorted.end(), device);
}

}  // namespace

std::string_view to_string(RoundPhase phase) {
  switch (phase) {
    case RoundPhase::kSelecting:
      return "selecting";
    case RoundPhase::kTraining:
      return "training";
    case RoundPhase::kAggregating:
      return "aggregating";
    case RoundPhase::kCommitted:
      return "committed";
    case RoundPhase::kAbandoned:
      return "abandoned";
  }
  return "abandoned";
}

std::string_view to_string(UpdateVerdict verdict) {
  switch (verdict) {
    case UpdateVerdict::kAccept:
      return "accept";
    case UpdateVerdict::kNotSelected:
      return "not_selected";
    case UpdateVerdict::kAlreadyReported:
      return "already_reported";
    case UpdateVerdict::kNotOpen:
      return "round_not_open";
    case UpdateVerdict::kClosed:
      return "round_closed";
  }
  return "round_closed";
}

RoundMachine::RoundMachine(RoundSettings settings, std::uint64_t seed, RoundTime now,
                           std::vector<DeviceId> carried_over)
    : settings_(std::move(settings)), seed_(seed), phase_ends_(now + settings_.selection_window) {
  if (!settings_.asynchronous) return;
  phase_ = RoundPhase::kTraining;
  phase_ends_ = now + settings_.deadline;
  invited_ = std::move(carried_over);
  std::sort(invited_.begin(), invited_.end());
}

bool RoundMachine::takes_candidates() const {
  return phase_ == (settings_.asynchronous ? RoundPhase::kTraining : RoundPhase::kSelecting);
}

std::vector<RoundAction> RoundMachine::on(const RoundEvent& event, RoundTime now) {
  return std::visit([&](const auto& one) { return handle(one, now); }, event);
}

std::vector<RoundAction> RoundMachine::handle(const DeviceCheckedIn& event, RoundTime now) {
  if (!takes_candidates() || contains(invited_, event.candidate.device)) return {};
  if (!is_eligible(settings_.selection, event.candidate)) {
    return handle(DeviceLeft{event.candidate.device}, now);
  }
  const auto [place, added] =
      candidate_places_.try_emplace(event.candidate.device, candidates_.size());
  if (added) {
    candidates_.push_back(event.candidate);
  } else {
    candidates_[place->second] = event.candidate;
  }
  if (restored_at_) return {};
  if (settings_.asynchronous) return try_invite(now);
  return try_select(now, now >= phase_ends_);
}

std::vector<RoundAction> RoundMachine::handle(const DeviceLeft& event, RoundTime) {
  const auto place = candidate_places_.find(event.device);
  if (place == candidate_places_.end()) return {};
  const std::size_t hole = place->second;
  candidate_places_.erase(place);
  if (hole + 1 != candidates_.size()) {
    candidates_[hole] = std::move(candidates_.back());
    candidate_places_[candidates_[hole].device] = hole;
  }
  candidates_.pop_back();
  return {};
}

std::vector<RoundAction> RoundMachine::handle(const UpdateStored& event, RoundTime now) {
  if (phase_ != RoundPhase::kTraining || !contains(invited_, event.device)) return {};
  const auto place = std::lower_bound(reported_.begin(), reported_.end(), event.device);
  if (place != reported_.end() && *place == event.device) return {};
  reported_.insert(place, event.device);
  if (restored_at_) return {};
  std::vector<RoundAction> actions = try_aggregate(false);
  if (actions.empty() && settings_.asynchronous) actions = try_invite(now);
  return actions;
}

std::vector<RoundAction> RoundMachine::handle(const Tick&, RoundTime now) {
  const bool first_after_restore = std::exchange(restored_at_, std::nullopt).has_value();
  switch (phase_) {
    case RoundPhase::kSelecting:
      return try_select(now, now >= phase_ends_);
    case RoundPhase::kTraining: {
      std::vector<RoundAction> actions = try_aggregate(now >= phase_ends_);
      if (actions.empty() && settings_.asynchronous) actions = try_invite(now);
      return actions;
    }
    case RoundPhase::kAggregating:
      if (first_after_restore) return start_aggregation();
      return {};
    case RoundPhase::kCommitted:
    case RoundPhase::kAbandoned:
      return {};
  }
  return {};
}

std::vector<RoundAction> RoundMachine::handle(const AggregateStored& event, RoundTime) {
  if (phase_ != RoundPhase::kAggregating) return {};
  phase_ = RoundPhase::kCommitted;
  return {CommitRound{event.state}};
}

std::vector<RoundAction> RoundMachine::handle(const AggregateFailed& event, RoundTime) {
  if (phase_ != RoundPhase::kAggregating) return {};
  return abandon(fmt::format("aggregating {} failed: {}",
                             sentences::counted(reported_.size(), "update"), event.reason));
}

std::vector<RoundAction> RoundMachine::try_select(RoundTime now, bool window_ended) {
  const bool pool_complete = candidates_.size() >= static_cast<std::size_t>(settings_.num_clients);
  if (!pool_complete && !window_ended) return {};
  if (candidates_.size() < static_cast<std::size_t>(settings_.min_updates)) {
    std::vector<DeviceId> devices;
    for (const Candidate& candidate : candidates_) devices.push_back(candidate.device);
    return abandon(fmt::format(
        "{} of at least {} devices{} checked in before the selection window of {} ended; "
        "checked in: {}",
        candidates_.size(), settings_.min_updates, sentences::tags_wanted(settings_.selection),
        sentences::seconds(settings_.selection_window), sentences::listed(std::move(devices))));
  }
  invited_ =
      select_devices(candidates_, static_cast<std::size_t>(devices_to_invite(settings_)), seed_);
  candidates_.clear();
  candidate_places_.clear();
  phase_ = RoundPhase::kTraining;
  phase_ends_ = now + settings_.deadline;
  return {InviteDevices{invited_}};
}

std::vector<RoundAction> RoundMachine::try_invite(RoundTime now) {
  const std::size_t training = invited_.size() - reported_.size();
  const auto most = static_cast<std::size_t>(settings_.num_clients);
  if (candidates_.empty() || training >= most || now >= phase_ends_) return {};
  std::vector<DeviceId> chosen = select_devices(candidates_, most - training, seed_);
  for (const DeviceId& device : chosen) handle(DeviceLeft{device}, now);
  const auto old_end = static_cast<std::ptrdiff_t>(invited_.size());
  invited_.insert(invited_.end(), chosen.begin(), chosen.end());
  std::inplace_merge(invited_.begin(), invited_.begin() + old_end, invited_.end());
  return {InviteDevices{std::move(chosen)}};
}

std::vector<RoundAction> RoundMachine::try_aggregate(bool deadline_passed) {
  const bool enough = reported_.size() >= static_cast<std::size_t>(settings_.min_updates);
  const bool target_met = reported_.size() >= static_cast<std::size_t>(settings_.target_updates);
  const bool all_reported = !settings_.asynchronous && reported_.size() == invited_.size();
  if (enough && (target_met || all_reported || deadline_passed)) return start_aggregation();
  if (!deadline_passed) return {};
  return abandon(fmt::format(
      "{} of at least {} updates arrived before the deadline of {}; missing: {}", reported_.size(),
      settings_.min_updates, sentences::seconds(settings_.deadline), sentences::listed(missing())));
}

std::vector<RoundAction> RoundMachine::start_aggregation() {
  phase_ = RoundPhase::kAggregating;
  candidates_.clear();
  candidate_places_.clear();
  return {StartAggregation{reported_}};
}

std::vector<RoundAction> RoundMachine::abandon(std::string reason) {
  phase_ = RoundPhase::kAbandoned;
  reason_ = std::move(reason);
  candidates_.clear();
  candidate_places_.clear();
  return {AbandonRound{reason_}};
}

std::vector<DeviceId> RoundMachine::missing() const {
  std::vector<DeviceId> devices;
  std::set_difference(invited_.begin(), invited_.end(), reported_.begin(), reported_.end(),
                      std::back_inserter(devices));
  return devices;
}

UpdateVerdict RoundMachine::verdict(const DeviceId& device, RoundTime now) const {
  if (phase_ == RoundPhase::kSelecting) return UpdateVerdict::kNotOpen;
  if (contains(reported_, device)) return UpdateVerdict::kAlreadyReported;
  if (phase_ != RoundPhase::kTraining || now >= phase_ends_) return UpdateVerdict::kClosed;
  return contains(invited_, device) ? UpdateVerdict::kAccept : UpdateVerdict::kNotSelected;
}

std::optional<RoundTime> RoundMachine::next_deadline() const {
  const bool timed = phase_ == RoundPhase::kSelecting || phase_ == RoundPhase::kTraining;
  if (restored_at_ && (timed || phase_ == RoundPhase::kAggregating)) return restored_at_;
  if (!timed) return std::nullopt;
  return phase_ends_;
}

std::string RoundMachine::explain(RoundTime now) const {
  const std::string left = sentences::seconds(phase_ends_ - now);
  switch (phase_) {
    case RoundPhase::kSelecting:
      return fmt::format(
          "waiting for devices{}: {} of {} have checked in, at least {} are needed; {} of the "
          "selection window left",
          sentences::tags_wanted(settings_.selection), candidates_.size(), settings_.num_clients,
          settings_.min_updates, left);
    case RoundPhase::kTraining:
      if (settings_.asynchronous) {
        return fmt::format(
            "filling the buffer: {} of {} updates are in, at least {} are needed; {} left; "
            "training: {}",
            reported_.size(), settings_.target_updates, settings_.min_updates, left,
            sentences::listed(missing()));
      }
      return fmt::format(
          "training: {} of {} updates are in, at least {} are needed; {} left; missing: {}",
          reported_.size(), settings_.target_updates, settings_.min_updates, left,
          sentences::listed(missing()));
    case RoundPhase::kAggregating:
      return fmt::format("aggregating the updates of {}", sentences::listed(reported_));
    case RoundPhase::kCommitted:
      return fmt::format("committed with {}", sentences::counted(reported_.size(), "update"));
    case RoundPhase::kAbandoned:
      return reason_;
  }
  return reason_;
}

}  // namespace muster
