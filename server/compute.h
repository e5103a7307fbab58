#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/tensor/state.h"
#include "core/train/local_trainer.h"
#include "storage/state_files.h"
#include "storage/update_files.h"

namespace muster {

// One thread for the server's arithmetic, so that aggregating never holds up a device's call. Work
// runs in the order it came. Owned by the coordinator; `stop` drops what has not begun and waits
// for what has.
class ComputeThread {
 public:
  ComputeThread();
  ~ComputeThread();

  using Work = std::function<void(std::stop_token)>;
  void post(Work work);
  void stop();

 private:
  void run(std::stop_token stop);

  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::deque<Work> queue_;
  std::jthread thread_;
};

// What one update weighs and where its body lies.
struct StoredUpdate {
  UpdateFiles::Key key;
  std::int64_t examples = 0;
};

// The next global state out of the updates of a round: their weighted mean, taken in the order
// given (by device id), each read through a memory map, so memory is that of the aggregator and one
// file's pages. The result is durable when the digest comes back. Errors: those of Aggregator;
// kNotFound "artefact_missing", kDataLoss "state_damaged" for a body that is gone or damaged; of
// StateFiles::write.
Result<Digest> aggregate_round(const UpdateFiles& updates, const StateFiles& states,
                               const LayoutPtr& layout, const std::vector<StoredUpdate>& round,
                               std::stop_token stop);

}  // namespace muster
