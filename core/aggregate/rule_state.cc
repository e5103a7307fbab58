#include "core/aggregate/rule_state.h"

#include <algorithm>
#include <utility>

#include "core/base/invariant.h"

namespace muster {

Result<LayoutPtr> rule_state_layout(const StateLayout& model,
                                    const std::vector<std::string>& slots) {
  // With the '/' behind them: that is how the tensors' names compare.
  const auto in_order = [](const std::string& a, const std::string& b) {
    return a + "/" < b + "/";
  };
  if (!std::is_sorted(slots.begin(), slots.end(), in_order)) {
    invariant_broken("the slots of a rule's state are not in order of their names");
  }
  std::vector<StateLayout::Entry> entries;
  entries.reserve(slots.size() * model.tensors().size());
  for (const std::string& slot : slots) {
    for (const TensorSpec& spec : model.tensors()) {
      entries.push_back({slot + "/" + spec.name, spec.shape});
    }
  }
  return StateLayout::create(std::move(entries));
}

std::span<float> slot_of(StateDict& rule_state, std::size_t index, const StateLayout& model) {
  const auto size = static_cast<std::size_t>(model.num_elements());
  return rule_state.values().subspan(index * size, size);
}

std::span<const float> slot_of(const StateDict& rule_state, std::size_t index,
                               const StateLayout& model) {
  const auto size = static_cast<std::size_t>(model.num_elements());
  return rule_state.values().subspan(index * size, size);
}

}  // namespace muster
