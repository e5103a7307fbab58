#pragma once

#include <cstdint>

// The three matrix products of a dense layer, single-threaded, on row-major arrays without packing
// and without work space. Made for small batches, where packing costs more than it brings. Which
// element is added to which, and in what order, depends on the sizes only: equal inputs give equal
// bits wherever the arrays lie. Arrays must not overlap.
namespace muster::ops {

struct MatrixSizes {
  std::int64_t rows = 0;  // examples
  std::int64_t in = 0;
  std::int64_t out = 0;
};

// y[rows, out] = x[rows, in] * w[out, in]^T + bias[out]; `bias` may be null.
void dense_forward(const MatrixSizes& sizes, const float* x, const float* w, const float* bias,
                   float* y);

// dx[rows, in] = dy[rows, out] * w[out, in].
void dense_input_gradient(const MatrixSizes& sizes, const float* dy, const float* w, float* dx);

// dw[out, in] (+)= dy[rows, out]^T * x[rows, in]; added when `accumulate`.
void dense_weight_gradient(const MatrixSizes& sizes, const float* dy, const float* x, float* dw,
                           bool accumulate);

}  // namespace muster::ops
