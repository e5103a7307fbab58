#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/protocol/messages.h"
#include "core/round/selection.h"

namespace muster {

// How a check-in is answered: a task, or nothing and how long to stay away. Called once, from any
// thread, with no lock held.
using CheckinReply =
    std::function<void(std::optional<protocol::Task>, std::chrono::milliseconds retry_after)>;

// A check-in whose answer is held back until there is work for it or its wait is over.
struct WaitingDevice {
  Candidate candidate;
  std::int64_t examples = 0;
  std::chrono::milliseconds expires_at{0};  // steady
  CheckinReply reply;
  std::function<bool()> gone;  // the peer has hung up
};

// The check-ins that are being held, by device. Part of the coordinator, guarded by its mutex.
class WaitingRoom {
 public:
  // A second check-in of a device replaces its first, which is returned to be answered.
  std::optional<WaitingDevice> enter(WaitingDevice device);
  // The device leaves with its reply; nullopt when it does not wait.
  std::optional<WaitingDevice> leave(const DeviceId& device);
  // Everyone whose wait is over, or whose peer has gone.
  std::vector<WaitingDevice> leave_expired(std::chrono::milliseconds now);
  std::vector<WaitingDevice> leave_all();

  bool has(const DeviceId& device) const { return waiting_.contains(device); }
  std::size_t size() const { return waiting_.size(); }
  // In order of their ids.
  const std::map<DeviceId, WaitingDevice>& all() const { return waiting_; }
  std::optional<std::chrono::milliseconds> next_expiry() const;

 private:
  std::map<DeviceId, WaitingDevice> waiting_;
};

}  // namespace muster
