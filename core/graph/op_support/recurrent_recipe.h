#pragma once

#include <algorithm>
#include <cstdint>

#include "core/graph/op_support/recurrent_layer.h"

// What an lstm or gru node is, and the sizes that follow from it; for recurrent.cc only.
namespace muster::ops {

struct RecurrentRecipe {
  const RecurrentCell* cell = nullptr;
  std::int64_t steps = 0;
  std::int64_t in = 0;
  std::int64_t units = 0;
  std::int64_t layers = 0;
  bool bias = true;
  bool sequences = true;

  // Examples are worked off in blocks of at most kMostExamples, their steps in chunks of about so
  // many rows (steps times examples), all layers one after the other: so what one product leaves is
  // still in a cache when the next one reads it.
  static constexpr std::int64_t kMostExamples = 64;
  static constexpr std::int64_t kForwardRows = 256;
  static constexpr std::int64_t kBackwardRows = 512;
  static constexpr std::int64_t kMostFloats = std::int64_t{1} << 48;

  // Blocks of nearly equal length.
  static std::int64_t block_of(std::int64_t batch) {
    const std::int64_t blocks = (batch + kMostExamples - 1) / kMostExamples;
    return (batch + blocks - 1) / blocks;
  }
  // Of all blocks of a call, also the last, which may be shorter: so no block has more rows a chunk
  // than the first, for which the work space is shared out.
  std::int64_t steps_of_chunk(std::int64_t block, std::int64_t rows) const {
    return std::clamp(rows / block, std::int64_t{1}, steps);
  }

  std::int64_t in_of(std::int64_t layer) const { return layer == 0 ? in : units; }
  std::int64_t widest() const { return std::max(in, units); }
  std::int64_t weight_rows() const { return cell->gates * units; }
  std::int64_t states() const { return cell->has_c ? 2 : 1; }
  // Arrays of gradients by products: an LSTM's two are one.
  std::int64_t products() const { return cell->has_c ? 1 : 2; }

  static constexpr std::int64_t rounded(std::int64_t floats) { return (floats + 15) / 16 * 16; }

  // Floats that one example keeps in one layer.
  std::int64_t kept() const { return steps * 4 * units + states() * (steps + 1) * units; }
  std::int64_t packed_input(std::int64_t layer) const {
    return rounded(packed_input_size(*cell, in_of(layer), units));
  }
  // The packed weights of the layers below `layer`.
  std::int64_t packed_below(std::int64_t layer) const {
    std::int64_t floats = layer * rounded(packed_hidden_size(*cell, units));
    for (std::int64_t k = 0; k < layer; ++k) floats += packed_input(k);
    return floats;
  }
  // A layer's biases in forward, its two sums in backward.
  std::int64_t small() const { return rounded(8 * units); }

  // What backward takes; forward takes less. A row of a chunk has the input or its gradient and
  // the gradients by the products; every layer dh and dc.
  std::int64_t scratch() const {
    return packed_below(layers) + layers * small() +
           kBackwardRows * (widest() + products() * weight_rows()) +
           layers * states() * kMostExamples * units + 16 * 5;
  }

  // Whether all of these are under kMostFloats, so that none leaves the range.
  bool fits() const {
    const auto unit = static_cast<double>(units);
    const double weights = (static_cast<double>(in) + 10 * unit + 1024) * (9 * unit + 1024);
    const double all =
        static_cast<double>(layers) * (static_cast<double>(steps + 1) * 6 * unit + weights);
    return all < static_cast<double>(kMostFloats);
  }
};

static_assert(RecurrentRecipe::kMostExamples <= RecurrentRecipe::kForwardRows &&
              RecurrentRecipe::kForwardRows <= RecurrentRecipe::kBackwardRows);

}  // namespace muster::ops
