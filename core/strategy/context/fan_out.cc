#include "core/strategy/context/fan_out.h"

#include <string>
#include <utility>

#include "core/base/invariant.h"

namespace muster {

Result<FanOut> FanOut::create(std::size_t lanes) {
  FanOut fan;
  // The caller's thread is the first lane.
  for (std::size_t i = 1; i < lanes; ++i) {
    fan.threads_.push_back(std::make_unique<WorkerThread>());
    if (fan.threads_.back()->ok()) continue;
    return Error{ErrorCode::kResourceExhausted,
                 "the system gave " + std::to_string(i) + " threads of " + std::to_string(lanes) +
                     " that are wanted to call workers at the same time",
                 "threads"};
  }
  return fan;
}

std::vector<Status> FanOut::run(
    std::span<const std::int64_t> workers,
    const std::function<Status(std::size_t slot, std::int64_t worker)>& call) {
  if (workers.size() > threads_.size() + 1) invariant_broken("fan out: more workers than lanes");
  std::vector<Status> results(workers.size());
  const auto run_slot = [&](std::size_t slot) { results[slot] = call(slot, workers[slot]); };
  for (std::size_t slot = 1; slot < workers.size(); ++slot) {
    threads_[slot - 1]->start([&run_slot, slot](const std::stop_token&) { run_slot(slot); });
  }
  if (!workers.empty()) run_slot(0);
  for (std::size_t slot = 1; slot < workers.size(); ++slot) threads_[slot - 1]->wait();
  return results;
}

Status first_error(std::span<const Status> results) {
  for (const Status& result : results) {
    if (!result) return result;
  }
  return {};
}

}  // namespace muster
