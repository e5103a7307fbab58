#pragma once

#include <cstdint>
#include <string_view>

#include "core/graph/op.h"
#include "core/tensor/kernels/kernels.h"

// One layer of an LSTM or a GRU, forward and backward through time.
//
// Sequences are time-major here, [steps, batch, width], so that a step's examples lie together and
// the products with the input and those for the weights' gradients are taken over many steps at
// once. The steps may be worked off in chunks, forward from the first to the last, backward from
// the last to the first. Only the order in which the gradients by parameters are summed depends on
// the chunks; nothing depends on the number of workers (each element is one sum in a fixed order).
// Nothing here takes memory.
namespace muster::ops {

// What tells an LSTM from a GRU.
struct RecurrentCell {
  std::string_view name;
  std::int64_t gates = 0;  // weights are [gates * units, ...]
  bool has_c = false;      // a second state beside h
  void (*kernels::Table::*step)(const kernels::RecurrentStep&) = nullptr;
  void (*kernels::Table::*step_gradient)(const kernels::RecurrentGradient&) = nullptr;
};

const RecurrentCell& lstm_cell();
const RecurrentCell& gru_cell();

// How workers share out the steps of a chunk: either examples, each worker going through all steps
// with its own, or the units of every step, when there are few examples. The other one is whole.
struct RecurrentParts {
  std::int64_t examples = 0;  // of a part
  std::int64_t units = 0;     // of a part; at least kLeastUnits, or all

  static constexpr std::int64_t kLeastUnits = 48;
  static RecurrentParts of(const RecurrentCell& cell, std::int64_t batch, std::int64_t units,
                           const WorkerScratch& workers);
};

// What of a step one worker does.
struct RecurrentPart {
  std::int64_t first = 0;  // example
  std::int64_t examples = 0;
  std::int64_t begin = 0;  // unit
  std::int64_t end = 0;
};

struct RecurrentSizes {
  const RecurrentCell* cell = nullptr;
  std::int64_t batch = 0;
  std::int64_t in = 0;
  std::int64_t units = 0;
  RecurrentParts parts = {};

  std::int64_t weight_rows() const { return cell->gates * units; }
  std::int64_t kept_width() const { return 4 * units; }
};

// Floats that the packed weights take, forward or backward.
std::int64_t packed_input_size(const RecurrentCell& cell, std::int64_t in, std::int64_t units);
std::int64_t packed_hidden_size(const RecurrentCell& cell, std::int64_t units);

// What forward keeps (Float is float) for backward (const float). Block 0 of h and c is the state
// before the first step, which the caller sets; block t + 1 the state after step t.
template <typename Float>
struct RecurrentKept {
  Float* gates = nullptr;  // [steps, batch, 4 units]
  Float* h = nullptr;      // [steps + 1, batch, units]
  Float* c = nullptr;      // [steps + 1, batch, units], LSTM only
};

struct RecurrentWeights {
  const float* ih = nullptr;       // [gates units, in]
  const float* hh = nullptr;       // [gates units, units]
  const float* bias_ih = nullptr;  // [gates units]; both null: without biases
  const float* bias_hh = nullptr;
};

// Call pack once, then run for [0, t1), [t1, t2) ...
class RecurrentForward {
 public:
  struct Memory {
    float* packed_ih = nullptr;  // packed_input_size
    float* packed_hh = nullptr;  // packed_hidden_size
    float* bias = nullptr;       // [4 units]
    RecurrentKept<float> kept = {};
  };

  RecurrentForward(const RecurrentSizes& sizes, const WorkerScratch& workers, const Memory& memory)
      : sizes_(sizes), workers_(workers), memory_(memory) {}

  void pack(const RecurrentWeights& weights) const;
  // `x` [last - first, batch, in] is the input of these steps.
  void run(std::int64_t first, std::int64_t last, const float* x) const;

 private:
  // The products with the input for rows of a chunk.
  void project(std::int64_t rows, const float* x, float* gates, float* scratch) const;
  void step(std::int64_t t, const RecurrentPart& part, float* scratch) const;

  RecurrentSizes sizes_;
  WorkerScratch workers_;
  Memory memory_;
};

// The gradient by a layer's output: that by h after step t of example b begins at
// at + (t - first) * step + b * row. Steps before `first` have none.
struct RecurrentOutputGradient {
  const float* at = nullptr;
  std::int64_t first = 0;
  std::int64_t step = 0;
  std::int64_t row = 0;
};

// Call pack once, set dh and dc to the gradients by the last state (zeros, when only the output
// has one) and the bias sums to zero; then, for chunks from the last to the first, run, and after
// it weight_gradients and input_gradient for the same chunk.
class RecurrentBackward {
 public:
  struct Memory {
    float* packed_ih = nullptr;  // packed_input_size; may be null without input_gradient
    float* packed_hh = nullptr;  // packed_hidden_size
    // [batch, units]: by the state before the chunk, after run. dh leaves out step 0's products
    // unless `initial_gradient`.
    float* dh = nullptr;
    float* dc = nullptr;         // LSTM only
    float* dinput = nullptr;     // [steps of a chunk, batch, gates units]; not for an LSTM
    float* dhidden = nullptr;    // the same
    float* bias_sums = nullptr;  // [2, gates units]
    RecurrentKept<const float> kept = {};  // as forward left it
    bool initial_gradient = false;
  };

  RecurrentBackward(const RecurrentSizes& sizes, const WorkerScratch& workers, const Memory& memory)
      : sizes_(sizes), workers_(workers), memory_(memory) {}

  void pack(const RecurrentWeights& weights) const;
  void run(std::int64_t first, std::int64_t last, const RecurrentOutputGradient& dy) const;
  // Writes (adds when `accumulate`) the chunk's part of the gradients by the weights, and adds that
  // of the biases to the bias sums, bias_ih's first. `x` [last - first, batch, in].
  void weight_gradients(std::int64_t first, std::int64_t last, const float* x, float* dih,
                        float* dhh, bool accumulate) const;
  // dx [last - first, batch, in].
  void input_gradient(std::int64_t first, std::int64_t last, float* dx) const;
  // db_ih and db_hh (+)= the bias sums.
  void bias_gradients(float* dbias_ih, float* dbias_hh, bool accumulate) const;

 private:
  // Step t of the chunk that begins with `first`.
  void step(std::int64_t t, std::int64_t first, const RecurrentPart& part,
            const RecurrentOutputGradient& dy) const;
  // dh (+)= the gradient that goes from its products to the state before it.
  void carry(std::int64_t t, std::int64_t first, const RecurrentPart& part, float* scratch) const;
  const float* by_input() const { return sizes_.cell->has_c ? memory_.dhidden : memory_.dinput; }

  RecurrentSizes sizes_;
  WorkerScratch workers_;
  Memory memory_;
};

// The length of the parts in which `workers` share out a loop of n: multiples of `unit`.
std::int64_t share(const WorkerScratch& workers, std::int64_t n, std::int64_t unit);

}  // namespace muster::ops
