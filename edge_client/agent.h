#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <set>
#include <stop_token>
#include <string>

#include "core/base/error.h"
#include "core/train/local_trainer.h"
#include "edge_client/client.h"

namespace muster {

// Waiting between tries: starts at `first`, doubles up to `most`, each wait drawn uniformly from
// [half, whole] so that a fleet that lost its server does not come back as one. Pure: the random
// source is seeded by the caller.
class Backoff {
 public:
  Backoff(std::chrono::milliseconds first, std::chrono::milliseconds most, std::uint64_t seed);
  std::chrono::milliseconds next();
  void reset();

 private:
  std::chrono::milliseconds first_, most_, current_;
  std::uint64_t draws_ = 0, seed_;
};

struct AgentOptions {
  std::filesystem::path folder;  // the device's own
  std::set<std::string> tags;
  std::chrono::milliseconds long_poll{20'000};
  std::chrono::milliseconds backoff_first{500};
  std::chrono::milliseconds backoff_most{60'000};
  std::uint64_t exit_after_tasks = 0;  // tasks that were sent, or refused for good; 0: never
  std::uint64_t max_state_bytes = std::uint64_t{4} << 30;  // a larger model is declined
};

// What happens, for a log or a display.
struct AgentEvent {
  enum class Kind {
    kConnected,
    kWaiting,
    kTraining,
    kProgress,
    kUploaded,
    kRefused,
    kEvaluated,
    kDeclined,
    kRetrying,
    kStopped
  };
  Kind kind = Kind::kWaiting;
  std::string job = {};
  std::int64_t round = 0;
  std::string text = {};  // one sentence
  double loss = 0;        // NaN: the trainer reports none
  std::int64_t steps_done = 0, steps_total = 0;
  std::chrono::milliseconds wait{0};
};

// A device's life: check in, do the task that comes, send it, check in again; until `stop`.
// Survives server restarts and bad networks (back-off with jitter), its own restarts (an update
// that was trained but not acknowledged is kept in pending/ and sent first), and refusals (a closed
// round is dropped and logged). A trainer is told the time that is left before the round's
// deadline, less some for sending (FitTask::budget), and the partial work of one that ends with it
// is sent. Takes the folder's lock: a second agent on one identity is refused (kFailedPrecondition,
// "locked"). Ends by itself only for: stop, exit_after_tasks, a certificate that the server rejects
// or a server that is not verified (kUnauthenticated).
Status run_agent(const DeviceIdentity& identity, LocalTrainer& trainer, const AgentOptions& options,
                 std::stop_token stop, const std::function<void(const AgentEvent&)>& report);

}  // namespace muster
