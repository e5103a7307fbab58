#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/train/settings.h"

namespace muster {

// The seeds of a training, all derived from its one seed.
struct TrainingSeeds {
  explicit TrainingSeeds(std::uint64_t seed = 0);

  std::uint64_t own = 0;
  std::uint64_t order = 0;  // of the examples
  std::uint64_t draws = 0;  // of ops that draw

  // Of what ops draw in a step.
  std::uint64_t of_step(std::int64_t step) const {
    return draws + static_cast<std::uint64_t>(step);
  }
};

// Of what ops draw in one part of a batch whose own seed is `batch`: sets the parts apart.
inline std::uint64_t seed_of_part(std::uint64_t batch, std::size_t part) {
  return batch + 0xD1B54A32D192ED03ULL * part;
}

// Which examples each optimiser step of a training sees: the one order that every strategy follows,
// whoever computes a batch. Depends on the number of examples, the settings and the order's seed.
// One thread at a time; all memory is taken by the constructor.
class BatchOrder {
 public:
  // `examples` over 0.
  BatchOrder(std::int64_t examples, const LocalSettings& settings, std::uint64_t order_seed);

  std::int64_t steps_per_epoch() const { return steps_per_epoch_; }
  std::int64_t total_steps() const { return total_steps_; }
  // Of a full batch; the last of an epoch may be shorter.
  std::int64_t batch_size() const { return batch_size_; }

  // The examples of step `step`, valid until the next call. Cheap in order of steps, an epoch's
  // shuffle where the epoch is another than in the call before.
  std::span<const std::int64_t> batch(std::int64_t step);

 private:
  bool shuffle_;
  std::uint64_t seed_;
  std::int64_t batch_size_;
  std::int64_t steps_per_epoch_;
  std::int64_t total_steps_;
  std::int64_t epoch_ = -1;  // that order_ is of
  std::vector<std::int64_t> order_;
};

}  // namespace muster
