#include "core/graph/op_support/recurrent.h"

namespace muster::ops {

// Long short-term memory (Hochreiter & Schmidhuber 1997, with the forget gate of Gers et al. 2000)
// as torch.nn.LSTM(batch_first=True) computes it, from a zero state:
//
//   i = sigmoid(W_ii x + b_ii + W_hi h + b_hi)      f, o alike
//   g = tanh(W_ig x + b_ig + W_hg h + b_hg)
//   c' = f c + i g,  h' = o tanh(c')
//
//   {"op": "lstm", "units": 256}      [T, F] -> [T, 256]
//     units             size of h and c
//     layers            1 (default) to 64, each one's sequence the next one's input
//     bias              true (default)
//     return_sequences  true (default): h after every step; false: after the last, [units]
//
// Parameters are torch's, for each layer k = 0, 1 ...: weight_ih_l<k> [4 units, F or units],
// weight_hh_l<k> [4 units, units], bias_ih_l<k> and bias_hh_l<k> [4 units], the gates in the order
// i, f, g, o; all start uniform in +-1/sqrt(units).
Created create_lstm(JsonObject& attributes, std::span<const Shape> inputs) {
  return create_recurrent(lstm_cell(), attributes, inputs);
}

}  // namespace muster::ops
