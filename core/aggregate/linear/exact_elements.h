#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "core/aggregate/blocks.h"
#include "core/aggregate/linear/mean_sources.h"
#include "core/aggregate/long_accumulator.h"

namespace muster {

// Means of single elements from sums as long as it takes: about 10 ns a term. One worker's; keeps
// its memory between calls.
class ExactElements {
 public:
  // out[begin + place] for each of `places`, rising, within one block.
  void decide(const MeanOf& mean, const Sources& sources, std::int64_t begin,
              std::span<const std::int32_t> places, std::span<float> out);

 private:
  enum class Kind : std::uint8_t {
    kNegativeZero,  // nothing but -0.0 was added
    kSum,
    kNotANumber,  // the centre or the base is not finite
  };

  void add(const MeanOf& mean, const Source& source, std::int64_t begin,
           std::span<const std::int32_t> places);

  std::array<float, kBlock> scratch_;
  std::vector<LongAccumulator> sums_;
  std::vector<Kind> kinds_;
};

}  // namespace muster
