#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/graph/op.h"
#include "core/tensor/kernels/kernels.h"

// Small things that many ops need.
//
// How ops cut their loops into parts for workers: at least about 20 microseconds of work a part.
// Results never depend on the cut.
namespace muster::ops {

// Floats whose cheap processing (a copy, a maximum) takes that long; dear functions (exp) take it
// for a quarter of them.
inline constexpr std::int64_t kCheapPart = 32768;
inline constexpr std::int64_t kDearPart = kCheapPart / 4;

// Items of `floats` floats each in a part.
constexpr std::int64_t grain_of(std::int64_t floats, std::int64_t part) {
  return std::max<std::int64_t>(1, part / std::max<std::int64_t>(1, floats));
}

// An op's scratch, which is to write `floats` of it: no more than were planned.
inline float* planned(std::span<float> scratch, std::int64_t floats) {
  if (floats > static_cast<std::int64_t>(scratch.size())) {
    invariant_broken("an op uses more scratch than it planned");
  }
  return scratch.data();
}

// body(begin, count) over all of n floats.
template <typename Body>
void for_each_float(const WorkerScratch& workers, std::size_t n, std::int64_t part,
                    const Body& body) {
  workers.for_each(static_cast<std::int64_t>(n), part,
                   [&](std::int64_t begin, std::int64_t end, int) { body(begin, end - begin); });
}

inline void copy_floats(const WorkerScratch& workers, std::span<const float> from,
                        std::span<float> to) {
  for_each_float(workers, to.size(), kCheapPart, [&](std::int64_t begin, std::int64_t count) {
    std::copy_n(from.data() + begin, count, to.data() + begin);
  });
}

inline Status check_one_shape(std::string_view op, std::span<const Shape> inputs) {
  for (const Shape& shape : inputs) {
    if (shape == inputs[0]) continue;
    return Error{ErrorCode::kInvalidArgument, std::string(op) + " wants inputs of one shape, got " +
                                                  to_string(inputs[0]) + " and " +
                                                  to_string(shape)};
  }
  return {};
}

}  // namespace muster::ops
