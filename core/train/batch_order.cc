#include "core/train/batch_order.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

#include "core/base/random.h"

namespace muster {
namespace {

std::int64_t steps_of(const LocalSettings& settings, std::int64_t steps_per_epoch) {
  const std::int64_t steps = settings.epochs * steps_per_epoch;
  return settings.max_steps > 0 ? std::min(steps, settings.max_steps) : steps;
}

}  // namespace

TrainingSeeds::TrainingSeeds(std::uint64_t seed)
    : own(seed), order(derive_seed(seed, {"order"})), draws(derive_seed(seed, {"dropout"})) {}

BatchOrder::BatchOrder(std::int64_t examples, const LocalSettings& settings,
                       std::uint64_t order_seed)
    : shuffle_(settings.shuffle),
      seed_(order_seed),
      batch_size_(std::min(settings.batch_size, examples)),
      steps_per_epoch_((examples + batch_size_ - 1) / batch_size_),
      total_steps_(steps_of(settings, steps_per_epoch_)),
      order_(static_cast<std::size_t>(examples)) {}

std::span<const std::int64_t> BatchOrder::batch(std::int64_t step) {
  const std::int64_t epoch = step / steps_per_epoch_;
  if (epoch != epoch_) {
    std::iota(order_.begin(), order_.end(), std::int64_t{0});
    // Random spreads neighbouring seeds over its whole state.
    if (shuffle_) Random(seed_ + static_cast<std::uint64_t>(epoch)).shuffle(order_);
    epoch_ = epoch;
  }
  const auto at = static_cast<std::size_t>(step % steps_per_epoch_ * batch_size_);
  return std::span<const std::int64_t>(order_).subspan(
      at, std::min(static_cast<std::size_t>(batch_size_), order_.size() - at));
}

}  // namespace muster
