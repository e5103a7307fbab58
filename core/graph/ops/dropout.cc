#include <algorithm>
#include <cstddef>

#include "core/base/random.h"
#include "core/graph/op_support/loops.h"
#include "core/graph/ops/registry.h"

namespace muster::ops {
namespace {

// In training each element is 0 with probability p, else scaled by 1 / (1 - p) (Srivastava et al.
// 2014, in the inverted form); in evaluation the identity. The mask is fixed by the run's seed and
// the element's place: each kBlock elements have their own stream.
class Dropout final : public Op {
 public:
  Dropout(const Shape& shape, std::int64_t size, double p)
      : Op({.output = shape, .saved_per_example = (size + 3) / 4}), p_(p) {}

  Json attributes() const override { return {{"p", p_}}; }

  // saved: a byte for each element, 1 where it stays.
  void forward(const Forward& io) const override {
    if (!io.training || p_ == 0) {
      copy_floats(io.workers, io.inputs[0], io.output);
      return;
    }
    auto* stays = reinterpret_cast<std::uint8_t*>(io.saved.data());
    // Of 2^32 equally likely numbers.
    const auto dropped = static_cast<std::uint64_t>(p_ * 4294967296.0);
    for_each_float(io.workers, io.output.size(), kBlock, [&](std::int64_t at, std::int64_t count) {
      Random random(io.seed + static_cast<std::uint64_t>(at / kBlock) * 0xD1B54A32D192ED03ULL);
      for (std::int64_t i = at; i < at + count; i += 2) {
        const std::uint64_t bits = random.next();
        stays[i] = (bits & 0xFFFFFFFF) >= dropped ? 1 : 0;
        if (i + 1 < at + count) stays[i + 1] = bits >> 32 >= dropped ? 1 : 0;
      }
      apply(stays + at, count, io.inputs[0].data() + at, io.output.data() + at);
    });
  }

  void backward(const Backward& io) const override {
    if (!io.training || p_ == 0) {
      copy_floats(io.workers, io.doutput, io.dinputs[0]);
      return;
    }
    const auto* stays = reinterpret_cast<const std::uint8_t*>(io.saved.data());
    for_each_float(io.workers, io.dinputs[0].size(), kCheapPart,
                   [&](std::int64_t at, std::int64_t count) {
                     apply(stays + at, count, io.doutput.data() + at, io.dinputs[0].data() + at);
                   });
  }

 private:
  static constexpr std::int64_t kBlock = 8192;

  // A NaN stays one.
  void apply(const std::uint8_t* stays, std::int64_t count, const float* from, float* to) const {
    const auto scale = static_cast<float>(1.0 / (1.0 - p_));
    for (std::int64_t i = 0; i < count; ++i) {
      to[i] = from[i] * (scale * static_cast<float>(stays[i]));
    }
  }

  double p_;
};

}  // namespace

Created create_dropout(JsonObject& attributes, std::span<const Shape> inputs) {
  const double p = attributes.number("p", 0.5, {0.0, 0.999});
  MUSTER_TRY(const std::int64_t size, element_count(inputs[0]));
  return std::make_unique<Dropout>(inputs[0], size, p);
}

}  // namespace muster::ops
