#pragma once

// Only headers without inline functions may be met here: this one is compiled for several
// instruction sets (see select.cc).
#include <stddef.h>  // NOLINT(modernize-deprecated-headers)
#include <stdint.h>  // NOLINT(modernize-deprecated-headers)

// The inner loops of training, compiled once for each instruction set and chosen at run time, so
// that one program runs on old and new processors.
//
// A result depends on values and sizes, not on where arrays lie, on how work is cut into parts or
// on the width of vectors: each element's terms are added in one fixed order, with fused
// multiply-adds. So instruction sets that have these (x86-64-v3, x86-64-v4, AArch64) give the same
// bits; the baseline of x86-64 rounds products and sums apart. Arrays are row-major and do not
// overlap unless it says so. Nothing here takes memory or fails.
namespace muster::kernels {

// C(i, j) = sum over p of A(i, p) B(p, j), in rising p; added to what is in C when `accumulate`.
struct Gemm {
  int64_t m = 0;             // rows of A and C
  int64_t n = 0;             // columns of B and C
  int64_t k = 0;             // terms
  const float* a = nullptr;  // A(i, p) = a[i * a_row + p * a_step]
  int64_t a_row = 0;
  int64_t a_step = 1;
  const float* b = nullptr;  // B(p, j) = b[p * b_step + j * b_column]; or
  int64_t b_step = 0;
  int64_t b_column = 1;
  const float* packed_b = nullptr;  // what pack_b made of B, when it serves many products
  float* c = nullptr;               // C(i, j) = c[i * c_row + j]
  int64_t c_row = 0;
  bool accumulate = false;
};

// Floats of work space that every `gemm` and `dense_forward` wants.
inline constexpr int64_t kGemmScratch = 163840;

// Floats that pack_b writes for a B of k by n.
constexpr int64_t packed_b_size(int64_t k, int64_t n) {
  return (n + 48) * k;
}

// y[rows, out] = x[rows, in] w[out, in]^T + bias[out]; `bias` may be null.
struct Dense {
  int64_t rows = 0;
  int64_t in = 0;
  int64_t out = 0;
  const float* x = nullptr;
  const float* w = nullptr;
  const float* bias = nullptr;
  float* y = nullptr;
  int64_t y_row = 0;  // y(r, o) = y[r * y_row + o]
};

// A two-dimensional convolution (cross-correlation, as torch.nn.Conv2d) of one example, within one
// group of channels.
struct Conv {
  int64_t in_channels = 0;  // of the group
  int64_t height = 0;
  int64_t width = 0;
  int64_t out_channels = 0;  // of the group
  int64_t out_height = 0;
  int64_t out_width = 0;
  int64_t kernel_height = 0;
  int64_t kernel_width = 0;
  int64_t stride_height = 1;
  int64_t stride_width = 1;
  int64_t pad_top = 0;
  int64_t pad_left = 0;
  // Of the padded image: what the windows cover, pad_top and pad_left included.
  int64_t padded_height = 0;
  int64_t padded_width = 0;

  constexpr int64_t taps() const { return in_channels * kernel_height * kernel_width; }
  constexpr int64_t positions() const { return out_height * out_width; }
  constexpr int64_t padded_size() const { return in_channels * padded_height * padded_width; }
};

// Floats of work space for each worker in a convolution's functions.
int64_t conv_scratch(const Conv& conv);
// Floats of a convolution's packed weights.
constexpr int64_t conv_packed_size(const Conv& conv) {
  const int64_t low = conv.taps() * (conv.out_channels + 8);
  const int64_t high = (conv.taps() + 8) * conv.out_channels;
  return low > high ? low : high;
}

// Pooling of planes of height by width, as torch.nn.MaxPool2d and AvgPool2d. Windows may reach over
// all sides, but each has an element.
struct Pool {
  int64_t height = 0;
  int64_t width = 0;
  int64_t out_height = 0;
  int64_t out_width = 0;
  int64_t kernel_height = 0;
  int64_t kernel_width = 0;
  int64_t stride_height = 1;
  int64_t stride_width = 1;
  int64_t pad_height = 0;         // above
  int64_t pad_width = 0;          // to the left
  bool count_include_pad = true;  // of averages
};

// Windows of up to that many elements have the place of their maximum noted in a byte.
inline constexpr int64_t kPoolMarks = 256;

// The elementwise part of one time step of a recurrent layer, for units [begin, end) of `units`.
// Arrays are [rows, units], rows are examples.
struct RecurrentStep {
  int64_t rows = 0;
  int64_t units = 0;
  int64_t begin = 0;
  int64_t end = 0;
  // [rows, 4 units]. In: the products without biases. Out: what the gradient wants.
  //   LSTM  i, f, g, o; in and out
  //   GRU   in: r and z, the input's part of n, the state's part of n; out: r, z, n, the state's
  //   part
  float* gates = nullptr;
  const float* bias = nullptr;      // [4 units], in the order of `gates`
  const float* h_before = nullptr;  // GRU only
  const float* c_before = nullptr;  // LSTM only
  float* c = nullptr;               // LSTM only
  float* h = nullptr;
};

// Its gradient.
struct RecurrentGradient {
  int64_t rows = 0;
  int64_t units = 0;
  int64_t begin = 0;
  int64_t end = 0;
  const float* gates = nullptr;     // as RecurrentStep left them
  const float* h_before = nullptr;  // GRU only
  const float* c_before = nullptr;  // LSTM only
  const float* c = nullptr;         // LSTM only
  const float* dy = nullptr;  // by this step's h, from above: dy[row * dy_row + unit]; may be null
  int64_t dy_row = 0;
  // In: by this step's h, from the next step. Out, GRU only: the part that goes to the step before
  // past the weights.
  float* dh = nullptr;
  float* dc = nullptr;  // LSTM only. In: by this step's c. Out: by the c before.
  // By the products with the input and with the state before: [rows, 4 units] for an LSTM, whose
  // two are the same and go to dhidden; [rows, 3 units] for a GRU.
  float* dinput = nullptr;
  float* dhidden = nullptr;
};

// How `combine` makes float32 of its sums: each quotient by the divisor as the two ends of an
// interval that holds what the exact quotient rounds to.
struct Rounding {
  double divisor = 1;         // over 0
  bool power_of_two = false;  // the divisor is one, exactly
  bool decides_ties = false;  // the divisor is exact and has at most 28 significant bits
  // A sum is exact where the exponents of its largest and smallest magnitude are this far apart at
  // most; below 0: none is known to be.
  int32_t exact_span = -1;
  double error = 0;         // most that a quotient is off for each unit of the largest magnitude
  float* low = nullptr;     // [n]
  int32_t* open = nullptr;  // what is not 0 here: the ends differ. Place as for Combine's results
};

// Arrays that `combine` takes at once.
inline constexpr int kCombined = 8;

// Weighted sums of several arrays, element by element, with what it takes to tell how exact they
// are. All arrays have n elements.
struct Combine {
  int64_t n = 0;
  int terms = 0;                       // 1 to kCombined
  const float* const* x = nullptr;     // [terms] arrays
  const double* weights = nullptr;     // [terms]
  const float* const* next = nullptr;  // [terms] arrays that are wanted next, to be fetched
  const float* centre = nullptr;       // taken from every x; null: nothing
  bool begin = false;                  // whether the results begin here, or are added to
  const Rounding* round = nullptr;     // the last arrays: round the sums
  // Results, with places for kCombineUnit more than n elements; those of one call are what the
  // next adds to. Not touched by a call that begins and rounds.
  double* sums = nullptr;    // of weight * (x - centre), -0.0 to begin with
  double* far = nullptr;     // the largest |x - centre|; only with a centre
  int32_t* most = nullptr;   // the bits of the largest |x|, of the centre too
  int32_t* least = nullptr;  // those of the smallest but 0, plus 2^31 - 1 (wrapping)
};
inline constexpr int64_t kCombineUnit = 64;
// What `combine` answers when it rounds, added up.
inline constexpr uint32_t kOpenQuotients = 1;   // some ends differ
inline constexpr uint32_t kNonFiniteTerms = 2;  // some x was NaN or infinite

// Columns that are sorted side by side: a row of them is a cache line.
inline constexpr int64_t kSortStrip = 16;
// Rows that are sorted without comparators: [0, kSortGroup), [kSortGroup, 2 kSortGroup), ...
inline constexpr int64_t kSortGroup = 16;

// One step of a sorting network: afterwards row `low` has the smaller of the two values.
struct Comparator {
  int32_t low = 0;
  int32_t high = 0;
};

// A mean over some of the sorted values of each column.
struct SortedColumns {
  int64_t rows = 0;
  int64_t columns = 0;
  const float* const* from = nullptr;  // [rows] rows of `columns` values
  // What sorts the rows once each group is sorted. Rows that the mean does not need may come out
  // unsorted.
  int64_t num_comparators = 0;
  const Comparator* comparators = nullptr;
  // The mean of sorted rows [first, last); or, when near > 0, of the `near` rows that are closest
  // to the median (the mean of the two middle rows when there are two), on a tie the smaller ones.
  int64_t first = 0;
  int64_t last = 0;
  int64_t near = 0;
  float* strip = nullptr;  // scratch: rows * kSortStrip floats
  double* y = nullptr;     // [columns]
};

// The functions for one instruction set.
struct Table {
  const char* name = "";  // "x86-64-v3"
  bool fused = false;     // has fused multiply-adds

  void (*gemm)(const Gemm&, float* scratch) = nullptr;
  // packed: packed_b_size(k, n) floats. Its form is the table's own.
  void (*pack_b)(int64_t k, int64_t n, const float* b, int64_t b_step, int64_t b_column,
                 float* packed) = nullptr;
  // As products of rows of x and w, without packing: for few rows. Its order of terms is fixed too,
  // but another than gemm's (16 partial sums).
  void (*dense_forward)(const Dense&, float* scratch) = nullptr;

  // Weights [out_channels, taps] in the forms that the two functions below them want.
  void (*conv_pack_forward)(const Conv&, const float* weight, float* packed) = nullptr;
  // y[out_channels, positions] of one example x[in_channels, height, width]; `bias` may be null.
  void (*conv_forward)(const Conv&, const float* packed, const float* bias, const float* x,
                       float* y, float* scratch) = nullptr;
  void (*conv_pack_backward)(const Conv&, const float* weight, float* packed) = nullptr;
  // dx[in_channels, height, width] of one example from dy[out_channels, positions].
  void (*conv_input_gradient)(const Conv&, const float* packed, const float* dy, float* dx,
                              float* scratch) = nullptr;
  // Adds one example's part of taps [begin, end) to the gradient dw[taps, out_channels] (the
  // weight's transpose). begin is a multiple of 8.
  void (*conv_weight_gradient)(const Conv&, int64_t begin, int64_t end, const float* x,
                               const float* dy, float* dw, float* scratch) = nullptr;
  // to[columns, rows] = from[rows, columns]; added when `accumulate`.
  void (*transpose)(int64_t rows, int64_t columns, const float* from, float* to,
                    bool accumulate) = nullptr;

  // Elementwise; y may be x.
  void (*fill)(int64_t n, float value, float* y) = nullptr;
  void (*add)(int64_t n, const float* x, float* y) = nullptr;  // y += x
  void (*add_rows)(int64_t rows, int64_t n, const float* x,
                   float* y) = nullptr;  // y[n] += rows of x
  void (*relu)(int64_t n, const float* x, float* y) = nullptr;
  void (*relu_gradient)(int64_t n, const float* y, const float* dy, float* dx) = nullptr;
  void (*tanh)(int64_t n, const float* x, float* y) = nullptr;
  void (*tanh_gradient)(int64_t n, const float* y, const float* dy, float* dx) = nullptr;
  void (*sigmoid)(int64_t n, const float* x, float* y) = nullptr;
  void (*sigmoid_gradient)(int64_t n, const float* y, const float* dy, float* dx) = nullptr;
  // In double, as 16 partial sums.
  double (*sum)(int64_t n, const float* x) = nullptr;

  void (*add_pair)(int64_t n, const float* a, const float* b, float* y) = nullptr;  // y = a + b
  void (*multiply)(int64_t n, const float* x, float* y) = nullptr;                  // y *= x

  // Activations (activation.inc); gradients from the input x.
  void (*leaky_relu)(int64_t n, float slope, const float* x, float* y) = nullptr;
  void (*leaky_relu_gradient)(int64_t n, float slope, const float* x, const float* dy,
                              float* dx) = nullptr;
  void (*gelu)(int64_t n, const float* x, float* y) = nullptr;
  void (*gelu_gradient)(int64_t n, const float* x, const float* dy, float* dx) = nullptr;
  void (*gelu_tanh)(int64_t n, const float* x, float* y) = nullptr;
  void (*gelu_tanh_gradient)(int64_t n, const float* x, const float* dy, float* dx) = nullptr;

  // Pooling (pool.inc) of planes one after another. `where` notes the place of each maximum in its
  // window, row by row; null when windows have more than kPoolMarks elements: then the gradient
  // looks for it again. Of equal ones the first; a NaN is the maximum.
  void (*max_pool)(const Pool&, int64_t planes, const float* x, float* y, uint8_t* where) = nullptr;
  void (*max_pool_gradient)(const Pool&, int64_t planes, const float* x, const float* y,
                            const uint8_t* where, const float* dy, float* dx) = nullptr;
  void (*avg_pool)(const Pool&, int64_t planes, const float* x, float* y) = nullptr;
  // scratch: out_width floats.
  void (*avg_pool_gradient)(const Pool&, int64_t planes, const float* dy, float* dx,
                            float* scratch) = nullptr;

  // Normalisation (normalise.inc). The mean, and the sum of the squares of x - mean.
  void (*moments)(int64_t n, const float* x, double* mean, double* squares) = nullptr;
  void (*channel_means)(int64_t channels, int64_t n, const float* x, float* y) = nullptr;
  // y[channels, n] = (x - mean) scale + shift, each by channel.
  void (*normalise)(int64_t channels, int64_t n, const float* mean, const float* scale,
                    const float* shift, const float* x, float* y) = nullptr;
  // sums[channels, 2] = the sums of dy and of dy (x - mean).
  void (*normalise_sums)(int64_t channels, int64_t n, const float* mean, const float* x,
                         const float* dy, float* sums) = nullptr;
  // dx[channels, n] = a dy + b (x - mean) + c, each by channel.
  void (*normalise_gradient)(int64_t channels, int64_t n, const float* mean, const float* a,
                             const float* b, const float* c, const float* x, const float* dy,
                             float* dx) = nullptr;
  // y = (x - mean) scale weight + bias, the last two by element, or both null.
  void (*normalise_row)(int64_t n, float mean, float scale, const float* weight, const float* bias,
                        const float* x, float* y) = nullptr;
  // Its gradient by x, when mean and scale are those of x.
  void (*normalise_row_gradient)(int64_t n, float mean, float scale, const float* weight,
                                 const float* x, const float* dy, float* dx) = nullptr;
  // Its gradients by elements [begin, end) of weight and bias, over rows of `width` with their mean
  // and scale in statistics[rows, 2].
  void (*normalise_row_columns)(int64_t rows, int64_t width, int64_t begin, int64_t end,
                                const float* statistics, const float* x, const float* dy,
                                float* dweight, float* dbias, bool accumulate) = nullptr;
  void (*softmax)(int64_t rows, int64_t n, const float* x, float* y) = nullptr;
  void (*softmax_gradient)(int64_t rows, int64_t n, const float* y, const float* dy,
                           float* dx) = nullptr;

  void (*lstm_step)(const RecurrentStep&) = nullptr;
  void (*lstm_step_gradient)(const RecurrentGradient&) = nullptr;
  void (*gru_step)(const RecurrentStep&) = nullptr;
  void (*gru_step_gradient)(const RecurrentGradient&) = nullptr;

  // Values of encoded updates as float32 (decode.inc); x at any alignment of its type. Exact for
  // IEEE 754 half precision and bfloat16; x * scale rounded once for bytes.
  void (*half_to_float)(int64_t n, const uint16_t* x, float* y) = nullptr;
  void (*bfloat_to_float)(int64_t n, const uint16_t* x, float* y) = nullptr;
  void (*int8_to_float)(int64_t n, float scale, const int8_t* x, float* y) = nullptr;

  // Means (combine.inc).
  uint32_t (*combine)(const Combine&) = nullptr;
  // low and open as of a Rounding, for sums / divisor that are off by their share of `slack`.
  uint32_t (*round_quotients)(int64_t n, const double* sums, double divisor, double slack,
                              float* low, int32_t* open) = nullptr;
  // (high, low) += x * weight in double-double. Exact products: weights of at most 29 significant
  // bits.
  void (*add_products)(int64_t n, double weight, const float* x, double* high,
                       double* low) = nullptr;
  // (high, low) += (x_high, x_low) in double-double, error below 3 * 2^-106 of the sum.
  void (*add_pairs)(int64_t n, const double* x_high, const double* x_low, double* high,
                    double* low) = nullptr;

  // Robust rules (robust.inc). False when a value is not finite. -0 counts as 0. No products, so
  // the bits are those of every table.
  bool (*sorted_columns)(const SortedColumns&) = nullptr;
  // sums[4 i + j] = the sum over n elements of (a[i] - b[j])^2, for four rows each. In float32 over
  // short runs, so infinite or too small where squares do not fit a float32; else right to 1e-6.
  // a and b may be exchanged without changing a bit of any pair.
  void (*squared_differences)(int64_t n, const float* const* a, const float* const* b,
                              double* sums) = nullptr;
  // In double, as 16 partial sums: of (x - y)^2, x^2, (x - y)^2.
  double (*squared_difference)(int64_t n, const float* x, const float* y) = nullptr;
  double (*sum_squares)(int64_t n, const float* x) = nullptr;
  double (*squared_distance_to)(int64_t n, const float* x, const double* y) = nullptr;
  void (*add_scaled)(int64_t n, double factor, const float* x, double* y) = nullptr;  // y += f x
};

// The widest that this processor runs.
const Table& best();

// All that this processor runs, best first, ended by null; for tests and benchmarks.
const Table* const* available();

}  // namespace muster::kernels
