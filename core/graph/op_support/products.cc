#include "core/graph/op_support/products.h"

#include <algorithm>

namespace muster::ops {
namespace {

using kernels::Gemm;

// Multiply-adds below which sharing out costs more than it brings: about 20 microseconds.
constexpr std::int64_t kWorthSharing = 500'000;
// From so many rows and columns on, packing the weights pays.
constexpr std::int64_t kManyRows = 48;
constexpr std::int64_t kManyColumns = 32;

std::int64_t rounded_up(std::int64_t n, std::int64_t unit) {
  return (n + unit - 1) / unit * unit;
}

// The length of equal parts of n, one for each worker, in whole units.
std::int64_t part_of(const WorkerScratch& workers, std::int64_t n, std::int64_t unit,
                     std::int64_t multiply_adds) {
  if (workers.count() == 1 || multiply_adds < kWorthSharing) return n;
  return rounded_up((n + workers.count() - 1) / workers.count(), unit);
}

// As kernels::Table::gemm, for a B that is not packed yet.
void multiply(const WorkerScratch& workers, const Gemm& product) {
  constexpr std::int64_t kUnit = 48;  // a multiple of every instruction set's panel
  const kernels::Table& table = kernels::best();
  const std::int64_t work = product.m * product.n * product.k;
  if (product.n >= product.m) {
    workers.for_each(product.n, part_of(workers, product.n, kUnit, work),
                     [&](std::int64_t begin, std::int64_t end, int worker) {
                       Gemm part = product;
                       part.n = end - begin;
                       part.b += begin * part.b_column;
                       part.c += begin;
                       table.gemm(part, workers.of(worker, kProductScratch));
                     });
  } else {
    workers.for_each(product.m, part_of(workers, product.m, 8, work),
                     [&](std::int64_t begin, std::int64_t end, int worker) {
                       Gemm part = product;
                       part.m = end - begin;
                       part.a += begin * part.a_row;
                       part.c += begin * part.c_row;
                       table.gemm(part, workers.of(worker, kProductScratch));
                     });
  }
}

}  // namespace

void dense_forward(const WorkerScratch& workers, const DenseSizes& s, const float* x,
                   const float* w, const float* bias, float* y) {
  const kernels::Table& table = kernels::best();
  if (s.rows >= kManyRows && s.out >= kManyColumns) {
    if (bias != nullptr) {
      for (std::int64_t row = 0; row < s.rows; ++row) std::copy_n(bias, s.out, y + row * s.out);
    }
    multiply(workers, {.m = s.rows,
                       .n = s.out,
                       .k = s.in,
                       .a = x,
                       .a_row = s.in,
                       .b = w,
                       .b_step = 1,
                       .b_column = s.in,
                       .c = y,
                       .c_row = s.out,
                       .accumulate = bias != nullptr});
    return;
  }
  constexpr std::int64_t kUnit = 6;  // outputs that one tile computes
  workers.for_each(s.out, part_of(workers, s.out, kUnit, s.rows * s.in * s.out),
                   [&](std::int64_t begin, std::int64_t end, int worker) {
                     table.dense_forward({.rows = s.rows,
                                          .in = s.in,
                                          .out = end - begin,
                                          .x = x,
                                          .w = w + begin * s.in,
                                          .bias = bias == nullptr ? nullptr : bias + begin,
                                          .y = y + begin,
                                          .y_row = s.out},
                                         workers.of(worker, kProductScratch));
                   });
}

void dense_input_gradient(const WorkerScratch& workers, const DenseSizes& s, const float* dy,
                          const float* w, float* dx) {
  multiply(workers, {.m = s.rows,
                     .n = s.in,
                     .k = s.out,
                     .a = dy,
                     .a_row = s.out,
                     .b = w,
                     .b_step = s.in,
                     .c = dx,
                     .c_row = s.in});
}

void dense_weight_gradient(const WorkerScratch& workers, const DenseSizes& s, const float* dy,
                           const float* x, float* dw, bool accumulate) {
  multiply(workers, {.m = s.out,
                     .n = s.in,
                     .k = s.rows,
                     .a = dy,
                     .a_row = 1,
                     .a_step = s.out,
                     .b = x,
                     .b_step = s.in,
                     .c = dw,
                     .c_row = s.in,
                     .accumulate = accumulate});
}

void dense_bias_gradient(const DenseSizes& s, const float* dy, float* db, bool accumulate) {
  if (!accumulate) std::fill_n(db, s.out, 0.0F);
  kernels::best().add_rows(s.rows, s.out, dy, db);
}

}  // namespace muster::ops
