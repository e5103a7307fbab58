#include "core/graph/ops/registry.h"

#include <array>

namespace muster {

std::span<const OpKind> builtin_ops() {
  static constexpr std::array kTable{
      OpKind{"add", 2, 64, ops::create_add},
      OpKind{"avg_pool2d", 1, 1, ops::create_avg_pool2d},
      OpKind{"batch_norm", 1, 1, ops::create_batch_norm},
      OpKind{"concat", 2, 64, ops::create_concat},
      OpKind{"conv2d", 1, 1, ops::create_conv2d},
      OpKind{"dense", 1, 1, ops::create_dense},
      OpKind{"dropout", 1, 1, ops::create_dropout},
      OpKind{"embedding", 1, 1, ops::create_embedding},
      OpKind{"flatten", 1, 1, ops::create_flatten},
      OpKind{"gelu", 1, 1, ops::create_gelu},
      OpKind{"global_avg_pool", 1, 1, ops::create_global_avg_pool},
      OpKind{"group_norm", 1, 1, ops::create_group_norm},
      OpKind{"gru", 1, 1, ops::create_gru},
      OpKind{"layer_norm", 1, 1, ops::create_layer_norm},
      OpKind{"leaky_relu", 1, 1, ops::create_leaky_relu},
      OpKind{"lstm", 1, 1, ops::create_lstm},
      OpKind{"max_pool2d", 1, 1, ops::create_max_pool2d},
      OpKind{"multiply", 2, 64, ops::create_multiply},
      OpKind{"relu", 1, 1, ops::create_relu},
      OpKind{"reshape", 1, 1, ops::create_reshape},
      OpKind{"sigmoid", 1, 1, ops::create_sigmoid},
      OpKind{"softmax", 1, 1, ops::create_softmax},
      OpKind{"standardize", 1, 1, ops::create_standardize},
      OpKind{"tanh", 1, 1, ops::create_tanh},
  };
  return kTable;
}

}  // namespace muster
