#pragma once

#include "core/tensor/kernels/kernels.h"

// The tables that table_*.cc make, for select.cc.
namespace muster::kernels {

namespace baseline {
const Table& table();
}
namespace x86_v3 {
const Table& table();
}
namespace x86_v4 {
const Table& table();
}

// Taps whose input gradients conv_input_gradient works out at a time: what fits a cache of 256 KiB.
constexpr int64_t conv_gradient_rows(const Conv& conv) {
  const int64_t rows = 49152 / (conv.positions() + 16) / 8 * 8;
  if (rows > 256) return 256;
  return rows < 8 ? 8 : rows;
}

}  // namespace muster::kernels
