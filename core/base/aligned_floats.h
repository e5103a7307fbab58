#pragma once

#include <cstdint>
#include <memory>

namespace muster {

struct FreeFloats {
  void operator()(float* floats) const;
};

// An array of floats that begins on a cache line (64 bytes).
using AlignedFloats = std::unique_ptr<float[], FreeFloats>;

// `count` floats >= 0, not set to anything; null when there is no memory. Large arrays are mapped
// by themselves, so that they go back to the system when they are freed: a program that trains for
// weeks takes and frees them in every round, and the heap of glibc before 2.38 does not use an
// aligned block again.
AlignedFloats make_aligned_floats(std::int64_t count);

}  // namespace muster
