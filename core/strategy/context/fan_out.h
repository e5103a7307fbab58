#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "core/base/error.h"
#include "core/strategy/context/strategy_context.h"
#include "core/strategy/context/worker_thread.h"

namespace muster {

// Runs the blocking calls of a context on many workers at once. Its threads are made with it and
// serve every `run`; one thread at a time may call.
class FanOut {
 public:
  // For up to `lanes` workers. Errors: kResourceExhausted when the system gives no more threads.
  static Result<FanOut> create(std::size_t lanes);

  // Calls call(slot, workers[slot]) for each, all at the same time, and waits for all of them; each
  // ends when the context's calls end. At most `lanes` workers. The results are in their order.
  std::vector<Status> run(std::span<const std::int64_t> workers,
                          const std::function<Status(std::size_t slot, std::int64_t worker)>& call);

 private:
  FanOut() = default;
  std::vector<std::unique_ptr<WorkerThread>> threads_;
};

// The first error in the order of the workers; it names its worker, as the context's errors do.
Status first_error(std::span<const Status> results);

}  // namespace muster
