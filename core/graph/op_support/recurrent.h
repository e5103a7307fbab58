#pragma once

#include <span>

#include "core/graph/op_support/recurrent_layer.h"
#include "core/graph/ops/registry.h"

namespace muster::ops {

// The op of a cell: `create` of lstm.cc and gru.cc, which describe it.
Created create_recurrent(const RecurrentCell& cell, JsonObject& attributes,
                         std::span<const Shape> inputs);

}  // namespace muster::ops
