#include "server/waiting_room.h"

#include <algorithm>
#include <utility>

namespace muster {

std::optional<WaitingDevice> WaitingRoom::enter(WaitingDevice device) {
  std::optional<WaitingDevice> earlier = leave(device.candidate.device);
  DeviceId id = device.candidate.device;
  waiting_.emplace(std::move(id), std::move(device));
  return earlier;
}

std::optional<WaitingDevice> WaitingRoom::leave(const DeviceId& device) {
  auto node = waiting_.extract(device);
  if (node.empty()) return std::nullopt;
  return std::move(node.mapped());
}

std::vector<WaitingDevice> WaitingRoom::leave_expired(std::chrono::milliseconds now) {
  std::vector<WaitingDevice> left;
  for (auto entry = waiting_.begin(); entry != waiting_.end();) {
    if (entry->second.expires_at <= now || entry->second.gone()) {
      left.push_back(std::move(entry->second));
      entry = waiting_.erase(entry);
    } else {
      ++entry;
    }
  }
  return left;
}

std::vector<WaitingDevice> WaitingRoom::leave_all() {
  std::vector<WaitingDevice> left;
  for (auto& [id, device] : waiting_) left.push_back(std::move(device));
  waiting_.clear();
  return left;
}

std::optional<std::chrono::milliseconds> WaitingRoom::next_expiry() const {
  std::optional<std::chrono::milliseconds> next;
  for (const auto& [id, device] : waiting_) {
    if (!next || device.expires_at < *next) next = device.expires_at;
  }
  return next;
}

}  // namespace muster
