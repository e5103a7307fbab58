#include "server/compute.h"

#include <fmt/format.h>

#include "core/aggregate/aggregator.h"
#include "core/tensor/safetensors.h"

namespace muster {

ComputeThread::ComputeThread() : thread_([this](std::stop_token stop) { run(stop); }) {}

ComputeThread::~ComputeThread() {
  stop();
}

void ComputeThread::post(Work work) {
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
  }
  wake_.notify_one();
}

void ComputeThread::stop() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  thread_.join();
}

void ComputeThread::run(std::stop_token stop) {
  while (true) {
    Work work;
    {
      std::unique_lock lock(mutex_);
      if (!wake_.wait(lock, stop, [this] { return !queue_.empty(); }) || stop.stop_requested())
        return;
      work = std::move(queue_.front());
      queue_.pop_front();
    }
    work(stop);
  }
}

Result<Digest> aggregate_round(const UpdateFiles& updates, const StateFiles& states,
                               const LayoutPtr& layout, const std::vector<StoredUpdate>& round,
                               std::stop_token stop) {
  const std::unique_ptr<Aggregator> mean = make_weighted_mean(layout);
  for (const StoredUpdate& update : round) {
    if (stop.stop_requested()) return Error{ErrorCode::kCancelled, "the server is stopping"};
    MUSTER_TRY(const MappedFile file, updates.map(update.key));
    if (sha256(file.bytes()) != update.key.digest) {
      return Error{
          ErrorCode::kDataLoss,
          fmt::format("the stored update of {} for round {} of {} no longer has the digest it was "
                      "acknowledged with",
                      update.key.device, update.key.round, update.key.job),
          "state_damaged"};
    }
    const auto add = [&](const StateLayout& its_layout, std::span<const float> values) {
      return mean->accumulate({update.key.device, its_layout, values, update.examples});
    };
    if (const auto values = view_canonical_state(file.bytes(), *layout)) {
      MUSTER_TRY_STATUS(add(*layout, *values));
    } else {
      MUSTER_TRY_IN(update.key.device, const StateDict state, read_state(file.bytes(), layout));
      MUSTER_TRY_STATUS(add(state.layout(), state.values()));
    }
  }
  MUSTER_TRY(const StateDict global, mean->finish());
  return states.write(global);
}

}  // namespace muster
