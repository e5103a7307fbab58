#include "core/base/workers.h"

#include <algorithm>
#include <system_error>

namespace muster {
namespace {

// How often an idle worker looks before it sleeps: some tens of microseconds, about the time
// between the loops of a training step.
constexpr int kLooks = 4000;

void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Waits until `value` is no longer `old`.
template <typename T>
void wait_for_change(const std::atomic<T>& value, T old, int looks) {
  for (int look = 0; look < looks; ++look) {
    if (value.load(std::memory_order_acquire) != old) return;
    pause();
  }
  value.wait(old, std::memory_order_acquire);
}

}  // namespace

// Where workers share a processor, looking only keeps the others from working.
Workers::Workers(int count)
    : looks_(count <= static_cast<int>(std::thread::hardware_concurrency()) ? kLooks : 0) {
  threads_.reserve(static_cast<std::size_t>(std::max(count, 1)) - 1);
  try {
    for (int worker = 1; worker < count; ++worker) {
      threads_.emplace_back([this, worker] { serve(worker); });
    }
  } catch (const std::system_error&) {
    // No more threads to be had: fewer do the same work, more slowly.
  }
}

Workers::~Workers() {
  ending_.store(true, std::memory_order_relaxed);
  turn_.fetch_add(1, std::memory_order_release);
  turn_.notify_all();
}

void Workers::run(const Loop& loop) {
  loop_ = loop;
  next_.store(0, std::memory_order_relaxed);
  working_.store(static_cast<std::int32_t>(threads_.size()), std::memory_order_relaxed);
  turn_.fetch_add(1, std::memory_order_release);
  turn_.notify_all();
  take_parts(0);
  for (std::int32_t left = working_.load(std::memory_order_acquire); left != 0;
       left = working_.load(std::memory_order_acquire)) {
    wait_for_change(working_, left, looks_);
  }
}

void Workers::serve(int worker) {
  for (std::uint32_t seen = 0;; ++seen) {
    wait_for_change(turn_, seen, looks_);
    if (ending_.load(std::memory_order_relaxed)) return;
    take_parts(worker);
    if (working_.fetch_sub(1, std::memory_order_acq_rel) == 1) working_.notify_one();
  }
}

void Workers::take_parts(int worker) {
  while (true) {
    const std::int64_t begin = next_.fetch_add(loop_.grain, std::memory_order_relaxed);
    if (begin >= loop_.n) return;
    loop_.call(loop_.body, begin, std::min(begin + loop_.grain, loop_.n), worker);
  }
}

}  // namespace muster
