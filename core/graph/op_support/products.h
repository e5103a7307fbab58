#pragma once

#include <cstdint>

#include "core/graph/op.h"
#include "core/tensor/kernels/kernels.h"

// Matrix products for ops, shared out among workers. The bits are the same with any number of them.
namespace muster::ops {

// The three products of a dense layer over `rows` examples (or positions of examples).
struct DenseSizes {
  std::int64_t rows = 0;
  std::int64_t in = 0;
  std::int64_t out = 0;
};

// Floats that each worker needs for what is below.
inline constexpr std::int64_t kProductScratch = kernels::kGemmScratch;

// y[rows, out] = x[rows, in] w[out, in]^T + bias[out]; `bias` may be null.
void dense_forward(const WorkerScratch& workers, const DenseSizes& sizes, const float* x,
                   const float* w, const float* bias, float* y);

// dx[rows, in] = dy[rows, out] w[out, in].
void dense_input_gradient(const WorkerScratch& workers, const DenseSizes& sizes, const float* dy,
                          const float* w, float* dx);

// dw[out, in] (+)= dy[rows, out]^T x[rows, in]; added when `accumulate`.
void dense_weight_gradient(const WorkerScratch& workers, const DenseSizes& sizes, const float* dy,
                           const float* x, float* dw, bool accumulate);

// db[out] (+)= the sum of dy's rows, in order.
void dense_bias_gradient(const DenseSizes& sizes, const float* dy, float* db, bool accumulate);

}  // namespace muster::ops
