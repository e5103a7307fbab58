#pragma once

#include <span>

#include "core/graph/op.h"

// The ops that Muster brings. A new one is a file beside this with a `create` function, its
// declaration here and its line in registry.cc.
namespace muster {

std::span<const OpKind> builtin_ops();

namespace ops {

using Created = Result<std::unique_ptr<Op>>;

Created create_add(JsonObject& attributes, std::span<const Shape> inputs);
Created create_avg_pool2d(JsonObject& attributes, std::span<const Shape> inputs);
Created create_batch_norm(JsonObject& attributes, std::span<const Shape> inputs);
Created create_concat(JsonObject& attributes, std::span<const Shape> inputs);
Created create_conv2d(JsonObject& attributes, std::span<const Shape> inputs);
Created create_dense(JsonObject& attributes, std::span<const Shape> inputs);
Created create_dropout(JsonObject& attributes, std::span<const Shape> inputs);
Created create_embedding(JsonObject& attributes, std::span<const Shape> inputs);
Created create_flatten(JsonObject& attributes, std::span<const Shape> inputs);
Created create_gelu(JsonObject& attributes, std::span<const Shape> inputs);
Created create_global_avg_pool(JsonObject& attributes, std::span<const Shape> inputs);
Created create_group_norm(JsonObject& attributes, std::span<const Shape> inputs);
Created create_gru(JsonObject& attributes, std::span<const Shape> inputs);
Created create_layer_norm(JsonObject& attributes, std::span<const Shape> inputs);
Created create_leaky_relu(JsonObject& attributes, std::span<const Shape> inputs);
Created create_lstm(JsonObject& attributes, std::span<const Shape> inputs);
Created create_max_pool2d(JsonObject& attributes, std::span<const Shape> inputs);
Created create_multiply(JsonObject& attributes, std::span<const Shape> inputs);
Created create_relu(JsonObject& attributes, std::span<const Shape> inputs);
Created create_reshape(JsonObject& attributes, std::span<const Shape> inputs);
Created create_sigmoid(JsonObject& attributes, std::span<const Shape> inputs);
Created create_softmax(JsonObject& attributes, std::span<const Shape> inputs);
Created create_standardize(JsonObject& attributes, std::span<const Shape> inputs);
Created create_tanh(JsonObject& attributes, std::span<const Shape> inputs);

}  // namespace ops
}  // namespace muster
