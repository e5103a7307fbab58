#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "core/base/digest.h"
#include "core/base/error.h"
#include "core/tensor/state.h"
#include "storage/state_files.h"

namespace muster {

// The global states of the rounds that are under way, in memory: each is read and checked once a
// round, by whoever needs it first, for the checks of all its updates and for the aggregation.
//
// Owned by the coordinator; the files must outlive it. Safe to call from any thread; a caller waits
// while another reads. A state that was dropped lives on as long as somebody uses it.
class HeldStates {
 public:
  explicit HeldStates(const StateFiles& files) : files_(files) {}

  // Errors: as StateFiles::read.
  Result<std::shared_ptr<const StateDict>> get(const Digest& digest);
  // Drops the others: their rounds are over.
  void keep_only(const std::vector<Digest>& digests);

 private:
  struct Held {
    Digest digest;
    std::shared_ptr<const StateDict> state;
  };

  const StateFiles& files_;
  std::mutex mutex_;
  std::vector<Held> held_;
};

}  // namespace muster
