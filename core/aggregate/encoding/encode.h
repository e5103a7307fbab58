#pragma once

#include <cstdint>
#include <optional>

#include "core/aggregate/encoding/update_encoding.h"
#include "core/base/bytes.h"
#include "core/tensor/state.h"

namespace muster {

struct EncodedUpdate {
  Bytes body;                         // what travels
  StateDict sent;                     // the state that the body stands for, as the server reads it
  std::optional<StateDict> residual;  // top_k: what was left out, to be added to the next update
};

// An update on its way out.
//   global    the state that was trained from; `trained` has its layout
//   residual  what the device's last update of this job left out; null: nothing
//   seed      of stochastic rounding
// The same arguments give the same bytes.
// Errors: kFailedPrecondition, reason "not_encodable": a value that the format cannot hold (in
// float16 from 65520, which rounds to infinity), naming the tensor; kInvalidArgument: layouts
// differ.
Result<EncodedUpdate> encode_update(const UpdateEncoding& encoding, const StateDict& global,
                                    const StateDict& trained, const StateDict* residual,
                                    std::uint64_t seed);

}  // namespace muster
