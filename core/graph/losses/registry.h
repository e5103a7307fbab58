#pragma once

#include <memory>
#include <string_view>

#include "core/graph/loss.h"

// A new loss is a file beside this with a `create` function, its declaration here and its line in
// registry.cc.
namespace muster::losses {

using Created = Result<std::unique_ptr<Loss>>;

Created create_bce_with_logits(JsonObject& attributes, const Shape& prediction);
Created create_mse(JsonObject& attributes, const Shape& prediction);
Created create_softmax_cross_entropy(JsonObject& attributes, const Shape& prediction);

// The attribute "reduction", by default "mean".
Loss::Reduction read_reduction(JsonObject& attributes);
std::string_view to_string(Loss::Reduction reduction);

}  // namespace muster::losses
