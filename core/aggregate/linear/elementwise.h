#pragma once

#include <cstdint>

#include "core/base/workers.h"
#include "core/tensor/state.h"

namespace muster {

// Calls body(begin, end) for parts of [0, n), shared out among the workers; null: in the caller.
// Every element must be worked on by itself, so that the parts make no difference.
template <typename Body>
void for_elements(std::int64_t n, Workers* workers, const Body& body) {
  constexpr std::int64_t kPart = std::int64_t{1} << 16;
  const auto part = [&](std::int64_t begin, std::int64_t end, int /*worker*/) { body(begin, end); };
  if (workers != nullptr) {
    workers->for_each(n, kPart, part);
  } else {
    part(0, n, 0);
  }
}

}  // namespace muster
