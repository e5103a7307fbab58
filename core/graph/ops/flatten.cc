#include <algorithm>

#include "core/graph/ops/registry.h"

namespace muster::ops {
namespace {

// All dimensions of an example become one.
class Flatten final : public Op {
 public:
  explicit Flatten(std::int64_t size) : Op({.output = {size}}) {}

  void forward(const Forward& io) const override {
    std::copy(io.inputs[0].begin(), io.inputs[0].end(), io.output.begin());
  }

  void backward(const Backward& io) const override {
    if (io.dinputs[0].empty()) return;
    std::copy(io.doutput.begin(), io.doutput.end(), io.dinputs[0].begin());
  }
};

}  // namespace

Created create_flatten(JsonObject&, std::span<const Shape> inputs) {
  MUSTER_TRY(const std::int64_t size, element_count(inputs[0]));
  return std::make_unique<Flatten>(size);
}

}  // namespace muster::ops
