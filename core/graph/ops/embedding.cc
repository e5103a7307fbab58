#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "core/graph/op_support/loops.h"
#include "core/graph/ops/registry.h"

namespace muster::ops {
namespace {

// Row lookup, as torch.nn.Embedding: an input of shape [...] holding whole numbers from 0 to
// vocabulary - 1 gives [..., units].
//
//   {"op": "embedding", "vocabulary": 80, "units": 8}
//
// The numbers are float32 as everything in a graph, which is exact up to 2^24, the most that a
// vocabulary may have. A value that is none of them (a fraction, negative, too large, NaN) gives a
// row of NaN, which the loss guard reports with this node's name, and no gradient. The numbers'
// own gradient is zero. The parameter "weight" [vocabulary, units] starts as N(0, 1).
class Embedding final : public Op {
 public:
  Embedding(OpPlan plan, std::int64_t vocabulary, std::int64_t units)
      : Op(std::move(plan)), vocabulary_(vocabulary), units_(units) {}

  Json attributes() const override { return {{"vocabulary", vocabulary_}, {"units", units_}}; }

  void forward(const Forward& io) const override {
    const std::span<const float> ids = io.inputs[0];
    const float* weight = io.parameters[0].data();
    const auto rows = static_cast<std::int64_t>(ids.size());
    io.workers.for_each(
        rows, grain_of(units_, kCheapPart), [&](std::int64_t i, std::int64_t end, int) {
          for (float* to = io.output.data() + i * units_; i < end; ++i, to += units_) {
            const std::int64_t id = row_of(ids[static_cast<std::size_t>(i)]);
            if (id < 0) {
              std::fill_n(to, units_, std::numeric_limits<float>::quiet_NaN());
            } else {
              std::copy_n(weight + id * units_, units_, to);
            }
          }
        });
  }

  // Workers share out the rows of the weight; each goes through all numbers, so that a row's sum
  // is in their order.
  void backward(const Backward& io) const override {
    const kernels::Table& table = kernels::best();
    if (!io.dinputs[0].empty()) std::fill(io.dinputs[0].begin(), io.dinputs[0].end(), 0.0F);
    float* dweight = io.dparameters[0].data();
    const std::span<const float> ids = io.inputs[0];
    const std::int64_t parts = io.workers.count();
    io.workers.for_each(vocabulary_, (vocabulary_ + parts - 1) / parts,
                        [&](std::int64_t begin, std::int64_t end, int) {
                          if (!io.accumulate)
                            table.fill((end - begin) * units_, 0, dweight + begin * units_);
                          const float* dy = io.doutput.data();
                          for (const float value : ids) {
                            const std::int64_t id = row_of(value);
                            if (id >= begin && id < end)
                              table.add(units_, dy, dweight + id * units_);
                            dy += units_;
                          }
                        });
  }

 private:
  std::int64_t row_of(float value) const {
    if (!(value >= 0 && value < static_cast<float>(vocabulary_))) return -1;
    const auto row = static_cast<std::int64_t>(value);
    return static_cast<float>(row) == value ? row : -1;
  }

  std::int64_t vocabulary_;
  std::int64_t units_;
};

}  // namespace

Created create_embedding(JsonObject& attributes, std::span<const Shape> inputs) {
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
