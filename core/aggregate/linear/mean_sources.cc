#include "core/aggregate/linear/mean_sources.h"

#include <algorithm>
#include <array>

#include "core/aggregate/blocks.h"
#include "core/tensor/state.h"

namespace muster {

Sources::Sources(std::span<const WeightedValues> terms) {
  for (std::size_t i = 0; i < terms.size(); ++i) {
    if (terms[i].weight == 0) continue;
    all_.push_back({.values = terms[i].values, .weight = terms[i].weight, .term = i});
  }
}

Sources::Sources(const MeanOf& mean) : Sources(std::span<const WeightedValues>(mean.terms)) {
  if (mean.base == nullptr) return;
  for (const double weight : {mean.base_weight.high, mean.base_weight.low}) {
    if (weight == 0) continue;
    all_.push_back({.plain = mean.base->values().data(), .weight = weight});
  }
}

void Sources::release(std::int64_t begin, std::int64_t count) const {
  for (const Source& source : all_) {
    if (source.values != nullptr) source.values->release(begin, count);
  }
}

bool Sources::look_for_non_finite(std::int64_t begin, std::int64_t count) {
  std::array<float, kBlock> scratch;
  for (const Source& source : all_) {
    if (source.values == nullptr) continue;
    const float* values = source.values->read(begin, count, scratch.data());
    if (find_non_finite({values, static_cast<std::size_t>(count)}) < 0) continue;
    const std::lock_guard lock(mutex_);
    if (block_ < 0 || begin < block_) {
      block_ = begin;
      term_ = source.term;
    }
    return true;
  }
  return false;
}

std::optional<NonFinite> Sources::non_finite() const {
  const std::lock_guard lock(mutex_);
  if (block_ < 0) return std::nullopt;
  return NonFinite{term_};
}

std::int64_t part_size(std::size_t num_sources) {
  return kBlock * blocks_at_once(static_cast<std::int64_t>(std::max<std::size_t>(num_sources, 1)));
}

}  // namespace muster
