#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "core/graph/loss.h"

// A new loss is a file beside this with a `create` function, its declaration here and its line in
// registry.cc.
namespace muster::losses {

using Created = Result<std::unique_ptr<Loss>>;

Created create_bce_with_logits(JsonObject& attributes, const Shape& prediction);
Created create_huber(JsonObject& attributes, const Shape& prediction);
Created create_mae(JsonObject& attributes, const Shape& prediction);
Created create_mse(JsonObject& attributes, const Shape& prediction);
Created create_softmax_cross_entropy(JsonObject& attributes, const Shape& prediction);

// The attribute "reduction", by default "mean".
Loss::Reduction read_reduction(JsonObject& attributes);
std::string_view to_string(Loss::Reduction reduction);

// An optional list of `count` weights of at least 0, not all 0; empty when the attribute is missing
// or wrong (then an error is recorded).
std::vector<double> read_weights(JsonObject& attributes, std::string_view key, std::int64_t count);

}  // namespace muster::losses
