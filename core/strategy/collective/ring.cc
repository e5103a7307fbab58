#include "core/strategy/collective/ring.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <system_error>
#include <thread>

#include "core/base/invariant.h"
#include "core/tensor/kernels/kernels.h"

namespace muster {
namespace {

// How often a waiting worker looks before it sleeps: some tens of microseconds.
constexpr int kLooks = 4000;

std::int64_t modulo(std::int64_t value, std::int64_t n) {
  return (value % n + n) % n;
}

void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// The all-reduce as turns: in turn t a worker does step s for piece t - s lag of that step's chunk,
// for all s. What step s takes, the left neighbour made in its step s - 1, lag turns ago.
// Nobody has to be asked whether a piece may be overwritten: the all-gather brings its full sum,
// which holds what everyone has read of it.
class Ring {
 public:
  Ring(std::span<const std::span<float>> vectors, const RingPacing& pacing)
      : vectors_(vectors),
        workers_(static_cast<std::int64_t>(vectors.size())),
        size_(static_cast<std::int64_t>(vectors.front().size())),
        steps_(ring_steps(workers_)),
        piece_(pacing.piece),
        pieces_((ring_chunk(size_, workers_, 0).end + piece_ - 1) / piece_),
        lag_(std::clamp<std::int64_t>(pieces_, 1, pacing.lag)),
        turns_(pieces_ + (steps_ - 1) * lag_),
        on_threads_(size_ * workers_ >= pacing.threads_from),
        looks_(vectors.size() <= std::thread::hardware_concurrency() ? kLooks : 0),
        progress_(std::make_unique<Progress[]>(vectors.size())) {}

  void run() {
    if (!on_threads_ || !run_on_threads()) run_here();
  }

 private:
  struct alignas(64) Progress {
    std::atomic<std::uint32_t> turns{0};
  };
  enum Start : std::uint32_t { kWait, kGo, kGiveUp };

  // False when the system gives no more threads; then nothing was done.
  bool run_on_threads() {
    std::atomic<std::uint32_t> start{kWait};
    const auto begin_with = [&start](Start what) {
      start.store(what, std::memory_order_release);
      start.notify_all();
    };
    std::vector<std::jthread> threads;
    threads.reserve(vectors_.size() - 1);
    try {
      for (std::int64_t worker = 1; worker < workers_; ++worker) {
        threads.emplace_back([this, worker, &start] {
          start.wait(kWait, std::memory_order_acquire);
          if (start.load(std::memory_order_acquire) == kGo) serve(worker);
        });
      }
    } catch (const std::system_error&) {
      begin_with(kGiveUp);
      return false;
    }
    begin_with(kGo);
    serve(0);
    return true;
  }

  void run_here() {
    for (std::int64_t turn = 0; turn < turns_; ++turn) {
      for (std::int64_t worker = 0; worker < workers_; ++worker) take_turn(worker, turn);
    }
  }

  void serve(std::int64_t worker) {
    const auto& left = at(modulo(worker - 1, workers_)).turns;
    auto& own = at(worker).turns;
    for (std::int64_t turn = 0; turn < turns_; ++turn) {
      if (turn >= lag_) wait_for(left, static_cast<std::uint32_t>(turn - lag_ + 1));
      take_turn(worker, turn);
      own.store(static_cast<std::uint32_t>(turn + 1), std::memory_order_release);
      own.notify_one();
    }
  }

  void wait_for(const std::atomic<std::uint32_t>& turns, std::uint32_t wanted) const {
    for (int look = 0; look < looks_; ++look) {
      if (turns.load(std::memory_order_acquire) >= wanted) return;
      pause();
    }
    for (std::uint32_t done = turns.load(std::memory_order_acquire); done < wanted;
         done = turns.load(std::memory_order_acquire)) {
      turns.wait(done, std::memory_order_acquire);
    }
  }

  void take_turn(std::int64_t worker, std::int64_t turn) const {
    const float* from = vectors_[static_cast<std::size_t>(modulo(worker - 1, workers_))].data();
    float* to = vectors_[static_cast<std::size_t>(worker)].data();
    for (std::int64_t s = 0; s < steps_ && s * lag_ <= turn; ++s) {
      const RingStep step = ring_step(workers_, worker, s);
      const ChunkRange chunk = ring_chunk(size_, workers_, step.receive);
      const std::int64_t begin = chunk.begin + (turn - s * lag_) * piece_;
      const std::int64_t n = std::min(chunk.end - begin, piece_);
      if (n <= 0) continue;
      if (step.add) {
        kernels_.add(n, from + begin, to + begin);
      } else {
        std::memcpy(to + begin, from + begin, static_cast<std::size_t>(n) * sizeof(float));
      }
    }
  }

  Progress& at(std::int64_t worker) const { return progress_[static_cast<std::size_t>(worker)]; }

  const std::span<const std::span<float>> vectors_;
  const std::int64_t workers_;
  const std::int64_t size_;
  const std::int64_t steps_;
  const std::int64_t piece_;
  const std::int64_t pieces_;  // of the longest chunk
  const std::int64_t lag_;
  const std::int64_t turns_;
  const bool on_threads_;
  const int looks_;
  const kernels::Table& kernels_ = kernels::best();
  const std::unique_ptr<Progress[]> progress_;
};

}  // namespace

ChunkRange ring_chunk(std::int64_t size, std::int64_t chunks, std::int64_t index) {
  const std::int64_t length = size / chunks;
  const std::int64_t longer = size % chunks;
  const std::int64_t begin = index * length + std::min(index, longer);
  return {.begin = begin, .end = begin + length + (index < longer ? 1 : 0)};
}

std::int64_t ring_steps(std::int64_t workers) {
  return 2 * (workers - 1);
}

RingStep ring_step(std::int64_t workers, std::int64_t worker, std::int64_t step) {
  const bool add = step < workers - 1;
  const std::int64_t send = add ? worker - step : worker + 1 - (step - (workers - 1));
  return {.send = modulo(send, workers), .receive = modulo(send - 1, workers), .add = add};
}

std::int64_t ring_elements_sent(std::int64_t size, std::int64_t workers, std::int64_t worker) {
  std::int64_t elements = 0;
  for (std::int64_t step = 0; step < ring_steps(workers); ++step) {
    const ChunkRange chunk = ring_chunk(size, workers, ring_step(workers, worker, step).send);
    elements += chunk.end - chunk.begin;
  }
  return elements;
}

std::vector<std::int64_t> ring_all_reduce(std::span<const std::span<float>> vectors,
                                          const RingPacing& pacing) {
  if (vectors.empty()) return {};
  if (pacing.piece < 1 || pacing.lag < 1) {
    invariant_broken("ring_all_reduce: pieces and lag are over 0");
  }
  for (const std::span<float> vector : vectors) {
    if (vector.size() != vectors.front().size()) {
      invariant_broken("ring_all_reduce: vectors of different lengths");
    }
  }
  if (vectors.size() > 1) Ring(vectors, pacing).run();
  const auto workers = static_cast<std::int64_t>(vectors.size());
  std::vector<std::int64_t> taken;
  for (std::int64_t worker = 0; worker < workers; ++worker) {
    taken.push_back(ring_elements_sent(static_cast<std::int64_t>(vectors.front().size()), workers,
                                       modulo(worker - 1, workers)));
  }
  return taken;
}

}  // namespace muster
