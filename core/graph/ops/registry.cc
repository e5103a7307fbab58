#include "core/graph/ops/registry.h"

#include <array>

namespace muster {

std::span<const OpKind> builtin_ops() {
  static constexpr std::array kTable{
      OpKind{"add", 2, 64, ops::create_add},
      OpKind{"dense", 1, 1, ops::create_dense},
      OpKind{"dropout", 1, 1, ops::create_dropout},
      OpKind{"embedding", 1, 1, ops::create_embedding},
      OpKind{"flatten", 1, 1, ops::create_flatten},
      OpKind{"layer_norm", 1, 1, ops::create_layer_norm},
      OpKind{"relu", 1, 1, ops::create_relu},
      OpKind{"sigmoid", 1, 1, ops::create_sigmoid},
      OpKind{"tanh", 1, 1, ops::create_tanh},
  };
  return kTable;
}

}  // namespace muster
