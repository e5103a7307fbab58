#include "core/strategy/partition/busy_time.h"

namespace muster {

void BusyTime::begin(std::size_t place) {
  const std::lock_guard lock(mutex_);
  if (places_[place].calls++ == 0) places_[place].since = Clock::now();
}

void BusyTime::end(std::size_t place) {
  const std::lock_guard lock(mutex_);
  if (--places_[place].calls == 0) total_ += Clock::now() - places_[place].since;
}

}  // namespace muster
