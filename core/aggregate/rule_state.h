#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/tensor/state.h"

namespace muster {

// What a rule keeps from round to round (a server optimiser's moments, SCAFFOLD's control variate)
// is one state: for each slot, in byte order of the slots' names, one value for each element of the
// model, as tensors "<slot>/<tensor>". So slot i is elements [i n, (i + 1) n) in the order of the
// model's layout.
//   slots  sorted by byte order, names without '/'
// Errors: as StateLayout::create (a tensor's name that becomes too long).
Result<LayoutPtr> rule_state_layout(const StateLayout& model,
                                    const std::vector<std::string>& slots);

// The values of slot `index` of a state with such a layout.
std::span<float> slot_of(StateDict& rule_state, std::size_t index, const StateLayout& model);
std::span<const float> slot_of(const StateDict& rule_state, std::size_t index,
                               const StateLayout& model);

}  // namespace muster
