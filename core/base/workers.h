#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <type_traits>
#include <vector>

namespace muster {

// Threads that share out the loops of one computation.
//
// Owned by whoever computes (a trainer, a benchmark) and passed down; lives as long as what it is
// passed to. One thread at a time may call `for_each`, and a body may not call it again. With one
// worker there are no threads and everything runs in the caller. Idle threads watch for the next
// loop for some microseconds, then sleep.
class Workers {
 public:
  // `count` workers, the caller among them; at least 1, and fewer where the system gives no more
  // threads.
  explicit Workers(int count = 1);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  int count() const { return static_cast<int>(threads_.size()) + 1; }

  // Calls body(begin, end, worker) for parts of [0, n) that are `grain` long (the last may be
  // shorter) until all are done; parts run at the same time on different workers, 0 to count() - 1,
  // and which worker takes which part is open. So a result may depend on a part's bounds, never on
  // its worker or order. The body may not throw. Takes no memory.
  template <typename Body>
  void for_each(std::int64_t n, std::int64_t grain, const Body& body) {
    if (threads_.empty() || n <= grain) {
      for (std::int64_t at = 0; at < n; at += grain) body(at, at + grain < n ? at + grain : n, 0);
      return;
    }
    run({.n = n,
         .grain = grain,
         .body = &body,
         .call = [](const void* what, std::int64_t begin, std::int64_t end, int worker) {
           (*static_cast<const Body*>(what))(begin, end, worker);
         }});
  }

 private:
  struct Loop {
    std::int64_t n = 0;
    std::int64_t grain = 1;
    const void* body = nullptr;
    void (*call)(const void*, std::int64_t, std::int64_t, int) = nullptr;
  };

  void run(const Loop& loop);
  void serve(int worker);
  void take_parts(int worker);

  const int looks_;  // before a waiting worker sleeps
  Loop loop_;
  std::atomic<std::int64_t> next_{0};     // where the next part begins
  std::atomic<std::uint32_t> turn_{0};    // counts loops, and the end
  std::atomic<std::int32_t> working_{0};  // threads not yet done with this loop
  std::atomic<bool> ending_{false};
  std::vector<std::jthread> threads_;
};

}  // namespace muster
