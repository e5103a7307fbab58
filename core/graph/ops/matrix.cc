#include "core/graph/ops/matrix.h"

#include <Eigen/Core>
#include <algorithm>

namespace muster::ops {
namespace {

// Eigen's packets: the widest vector of the build's instruction set, whatever the processor.
using Packet = Eigen::internal::packet_traits<float>::type;
using Eigen::internal::padd;
using Eigen::internal::ploadu;
using Eigen::internal::pmadd;
using Eigen::internal::predux;
using Eigen::internal::pset1;
using Eigen::internal::pstoreu;
constexpr std::int64_t kLanes = Eigen::internal::packet_traits<float>::size;

// The register tile of `dense_forward`: kRows examples by kOuts outputs, one accumulator each.
constexpr int kForwardRows = 3;
constexpr int kForwardOuts = 4;
// The register tile of `outer_tile`: kTileRows rows by kTileColumns packets of columns.
constexpr int kTileRows = 4;
constexpr int kTileColumns = 3;

// Rows x Outs dot products of length n: whole packets first, then what is left, one by one.
template <int Rows, int Outs>
void dot_tile(std::int64_t n, std::int64_t out, const float* x, const float* w, const float* bias,
              float* y) {
  Packet sums[Rows][Outs];
  for (auto& row : sums) {
    for (Packet& sum : row) sum = pset1<Packet>(0.0F);
  }
  std::int64_t k = 0;
  for (; k + kLanes <= n; k += kLanes) {
    Packet b[Outs];
#pragma GCC unroll 8
    for (int j = 0; j < Outs; ++j) b[j] = ploadu<Packet>(w + j * n + k);
#pragma GCC unroll 8
    for (int i = 0; i < Rows; ++i) {
      const Packet a = ploadu<Packet>(x + i * n + k);
#pragma GCC unroll 8
      for (int j = 0; j < Outs; ++j) sums[i][j] = pmadd(a, b[j], sums[i][j]);
    }
  }
  for (int i = 0; i < Rows; ++i) {
    for (int j = 0; j < Outs; ++j) {
      float sum = predux(sums[i][j]);
      for (std::int64_t t = k; t < n; ++t) sum += x[i * n + t] * w[j * n + t];
      y[i * out + j] = bias == nullptr ? sum : sum + bias[j];
    }
  }
}

template <int Outs>
void dot_rows(const MatrixSizes& s, const float* x, const float* w, const float* bias, float* y) {
  std::int64_t r = 0;
  for (; r + kForwardRows <= s.rows; r += kForwardRows) {
    dot_tile<kForwardRows, Outs>(s.in, s.out, x + r * s.in, w, bias, y + r * s.out);
  }
  if (s.rows - r == 2) dot_tile<2, Outs>(s.in, s.out, x + r * s.in, w, bias, y + r * s.out);
  if (s.rows - r == 1) dot_tile<1, Outs>(s.in, s.out, x + r * s.in, w, bias, y + r * s.out);
}

// c[i, j] (+)= sum over k of a(k, i) * b[k, j], for Rows rows i and Columns packets of columns j.
// a(k, i) = a[k * a_step + i * a_row]: the same tile serves a matrix and its transpose.
struct OuterTile {
  std::int64_t terms = 0;
  std::int64_t a_step = 0;
  std::int64_t a_row = 0;
  std::int64_t b_step = 0;
  std::int64_t c_row = 0;
  bool accumulate = false;
};

template <int Rows, int Columns>
void outer_tile(const OuterTile& t, const float* a, const float* b, float* c) {
  Packet sums[Rows][Columns];
  for (auto& row : sums) {
    for (Packet& sum : row) sum = pset1<Packet>(0.0F);
  }
  for (std::int64_t k = 0; k < t.terms; ++k) {
    Packet bs[Columns];
#pragma GCC unroll 8
    for (int j = 0; j < Columns; ++j) bs[j] = ploadu<Packet>(b + k * t.b_step + j * kLanes);
#pragma GCC unroll 8
    for (int i = 0; i < Rows; ++i) {
      const Packet factor = pset1<Packet>(a[k * t.a_step + i * t.a_row]);
#pragma GCC unroll 8
      for (int j = 0; j < Columns; ++j) sums[i][j] = pmadd(factor, bs[j], sums[i][j]);
    }
  }
  for (int i = 0; i < Rows; ++i) {
    for (int j = 0; j < Columns; ++j) {
      float* place = c + i * t.c_row + j * kLanes;
      pstoreu(place, t.accumulate ? padd(ploadu<Packet>(place), sums[i][j]) : sums[i][j]);
    }
  }
}

// One row strip over all columns.
template <int Rows>
void outer_strip(const OuterTile& t, std::int64_t columns, const float* a, const float* b,
                 float* c) {
  std::int64_t j = 0;
  for (; j + kTileColumns * kLanes <= columns; j += kTileColumns * kLanes) {
    outer_tile<Rows, kTileColumns>(t, a, b + j, c + j);
  }
  for (; j + kLanes <= columns; j += kLanes) outer_tile<Rows, 1>(t, a, b + j, c + j);
  for (; j < columns; ++j) {
    for (int i = 0; i < Rows; ++i) {
      float sum = 0;
      for (std::int64_t k = 0; k < t.terms; ++k) {
        sum += a[k * t.a_step + i * t.a_row] * b[k * t.b_step + j];
      }
      float& place = c[i * t.c_row + j];
      place = t.accumulate ? place + sum : sum;
    }
  }
}

void outer_product(const OuterTile& t, std::int64_t rows, std::int64_t columns, const float* a,
                   const float* b, float* c) {
  std::int64_t i = 0;
  for (; i + kTileRows <= rows; i += kTileRows) {
    outer_strip<kTileRows>(t, columns, a + i * t.a_row, b, c + i * t.c_row);
  }
  for (; i < rows; ++i) outer_strip<1>(t, columns, a + i * t.a_row, b, c + i * t.c_row);
}

}  // namespace

void dense_forward(const MatrixSizes& sizes, const float* x, const float* w, const float* bias,
                   float* y) {
  std::int64_t o = 0;
  for (; o + kForwardOuts <= sizes.out; o += kForwardOuts) {
    dot_rows<kForwardOuts>(sizes, x, w + o * sizes.in, bias == nullptr ? nullptr : bias + o, y + o);
  }
  for (; o < sizes.out; ++o) {
    dot_rows<1>(sizes, x, w + o * sizes.in, bias == nullptr ? nullptr : bias + o, y + o);
  }
}

void dense_input_gradient(const MatrixSizes& sizes, const float* dy, const float* w, float* dx) {
  const OuterTile tile{
      .terms = sizes.out, .a_step = 1, .a_row = sizes.out, .b_step = sizes.in, .c_row = sizes.in};
  outer_product(tile, sizes.rows, sizes.in, dy, w, dx);
}

void dense_weight_gradient(const MatrixSizes& sizes, const float* dy, const float* x, float* dw,
                           bool accumulate) {
  const OuterTile tile{.terms = sizes.rows,
                       .a_step = sizes.out,
                       .a_row = 1,
                       .b_step = sizes.in,
                       .c_row = sizes.in,
                       .accumulate = accumulate};
  outer_product(tile, sizes.out, sizes.in, dy, x, dw);
}

}  // namespace muster::ops
