#include "core/graph/op_support/recurrent.h"

namespace muster::ops {

// Gated recurrent unit (Cho et al. 2014) as torch.nn.GRU(batch_first=True) computes it, from a zero
// state; the reset gate acts on the state's product, biases included:
//
//   r = sigmoid(W_ir x + b_ir + W_hr h + b_hr)      z alike
//   n = tanh(W_in x + b_in + r (W_hn h + b_hn))
//   h' = (1 - z) n + z h
//
// Attributes and parameters are those of lstm (see lstm.cc), with weights of [3 units, ...] and the
// gates in the order r, z, n.
Created create_gru(JsonObject& attributes, std::span<const Shape> inputs) {
  return create_recurrent(gru_cell(), attributes, inputs);
}

}  // namespace muster::ops
