#pragma once

#include <string_view>

#include "core/graph/op.h"
#include "core/graph/op_support/image.h"
#include "core/tensor/kernels/kernels.h"

// What max_pool2d and avg_pool2d have in common.
namespace muster::ops {

struct Pooling {
  Window window;
  std::int64_t channels = 0;
  kernels::Pool pool;

  // Floats of one channel of the input and of the output.
  std::int64_t plane() const { return pool.height * pool.width; }
  std::int64_t positions() const { return pool.out_height * pool.out_width; }
  Shape output() const { return {channels, pool.out_height, pool.out_width}; }
};

// Reads the attributes of the windows over an input [channels, height, width]: "kernel", "stride"
// (left out: the kernel) and "padding" of image.h, this at most half the kernel. Rows and columns
// that do not fill a window are dropped (PyTorch's ceil_mode false), except with padding "same".
// Errors: kInvalidArgument.
Result<Pooling> read_pooling(std::string_view op, JsonObject& attributes, const Shape& input);

}  // namespace muster::ops
