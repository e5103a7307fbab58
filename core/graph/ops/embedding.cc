#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "core/graph/ops/registry.h"

namespace muster::ops {
namespace {

// Row lookup: an input of shape [...] holding whole numbers from 0 to vocabulary - 1 gives [...,
// units]. A value that is none of these gives a row of NaN, which the loss guard reports with this
// node's name.
class Embedding final : public Op {
 public:
  Embedding(OpPlan plan, std::int64_t vocabulary, std::int64_t units)
      : Op(std::move(plan)), vocabulary_(vocabulary), units_(units) {}

  Json attributes() const override { return {{"vocabulary", vocabulary_}, {"units", units_}}; }

  void forward(const Forward& io) const override {
    const std::span<const float> ids = io.inputs[0];
    const auto width = static_cast<std::size_t>(units_);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      float* row = io.output.data() + i * width;
      const std::int64_t id = row_of(ids[i]);
      if (id < 0) {
        std::fill_n(row, width, std::numeric_limits<float>::quiet_NaN());
      } else {
        std::copy_n(io.parameters[0].data() + static_cast<std::size_t>(id) * width, width, row);
      }
    }
  }

  void backward(const Backward& io) const override {
    // Numbers of rows have no gradient.
    if (!io.dinputs[0].empty()) std::fill(io.dinputs[0].begin(), io.dinputs[0].end(), 0.0F);
    const std::span<float> dw = io.dparameters[0];
    if (!io.accumulate) std::fill(dw.begin(), dw.end(), 0.0F);
    const std::span<const float> ids = io.inputs[0];
    const auto width = static_cast<std::size_t>(units_);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const std::int64_t id = row_of(ids[i]);
      if (id < 0) continue;
      float* row = dw.data() + static_cast<std::size_t>(id) * width;
      const float* dy = io.doutput.data() + i * width;
      for (std::size_t k = 0; k < width; ++k) row[k] += dy[k];
    }
  }

 private:
  std::int64_t row_of(float value) const {
    const bool usable =
        value >= 0 && value < static_cast<float>(vocabulary_) && value == std::floor(value);
    return usable ? static_cast<std::int64_t>(value) : -1;
  }

  std::int64_t vocabulary_;
  std::int64_t units_;
};

}  // namespace

Created create_embedding(JsonObject& attributes, std::span<const Shape> inputs) {
  // Row numbers travel as float32, which is exact up to 2^24.
  const std::int64_t vocabulary = attributes.integer("vocabulary", {1, 1 << 24});
  const std::int64_t units = attributes.integer("units", {1, 1 << 24});
  OpPlan plan{.output = inputs[0],
              .parameters = {{.name = "weight",
                              .shape = {vocabulary, units},
                              .init = {Initializer::Kind::kNormal, 1.0}}}};
  plan.output.push_back(units);
  return std::make_unique<Embedding>(std::move(plan), vocabulary, units);
}

}  // namespace muster::ops
