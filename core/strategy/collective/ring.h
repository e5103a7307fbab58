#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace muster {

// Ring all-reduce (Patarasuk and Yuan 2009): every worker holds a vector, all end with the sum of
// all, and each sends 2 (n - 1) / n of a vector, the least there is. A vector is cut into n chunks;
// in the first n - 1 steps (reduce-scatter) partial sums go once around, in the last n - 1
// (all-gather) full ones. As pure functions of who sends what when, for whatever carries the bytes.

// Elements [begin, end) of chunk `index` of `chunks`: the first size % chunks have one element
// more.
struct ChunkRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool operator==(const ChunkRange&) const = default;
};
ChunkRange ring_chunk(std::int64_t size, std::int64_t chunks, std::int64_t index);

// What worker `worker` does in step `step` of 0 .. ring_steps - 1: sends `send` to its right
// neighbour, takes `receive` from its left one, and adds it to its own (reduce-scatter) or puts it
// in its place (all-gather).
struct RingStep {
  std::int64_t send = 0;
  std::int64_t receive = 0;
  bool add = false;
  bool operator==(const RingStep&) const = default;
};
std::int64_t ring_steps(std::int64_t workers);  // 2 (workers - 1)
RingStep ring_step(std::int64_t workers, std::int64_t worker, std::int64_t step);

// Elements that a worker sends in all steps.
std::int64_t ring_elements_sent(std::int64_t size, std::int64_t workers, std::int64_t worker);

// How the work of ring_all_reduce is cut up. It changes no bit of the result.
struct RingPacing {
  // A chunk is worked on in pieces of that many elements, over 0.
  std::int64_t piece = 65536;
  // A worker is that many pieces, over 0, further in the step before than in a step. With few, what
  // the neighbour hands on is still in its cache, but workers wait for each other all the time, and
  // where processors share no cache, lines that were just written are slow to fetch: 16 pieces took
  // a quarter of the time that one took.
  std::int64_t lag = 16;
  // Vectors of fewer elements than that, all together, are summed in the caller's thread: threads
  // would take longer to start.
  std::int64_t threads_from = 65536;
};

// The all-reduce of n vectors in this process, one thread a vector: each takes its chunk straight
// out of its neighbour's memory, in pieces, and waits only for that neighbour. All vectors have the
// same length and end with the same bits; the order of additions is the ring's, whatever the
// timing. Where the system gives no more threads, the caller's does all. Gives the elements that
// each worker took from its neighbour.
std::vector<std::int64_t> ring_all_reduce(std::span<const std::span<float>> vectors,
                                          const RingPacing& pacing = {});

}  // namespace muster
