#include <string>

#include "core/graph/op_support/loops.h"
#include "core/graph/ops/registry.h"

namespace muster::ops {
namespace {

// Other dimensions for the same elements in the same order.
//
//   "shape": [16, -1]    of an example; one dimension may be -1: what is left for it
class Reshape final : public Op {
 public:
  explicit Reshape(Shape shape) : Op({.output = std::move(shape)}) {}

  Json attributes() const override { return {{"shape", plan().output}}; }

  void forward(const Forward& io) const override {
    copy_floats(io.workers, io.inputs[0], io.output);
  }

  void backward(const Backward& io) const override {
    copy_floats(io.workers, io.doutput, io.dinputs[0]);
  }
};

// The dimensions as written: 1 to 8, each at least 1 but for at most one -1.
bool read_shape(const Json& json, Shape& shape) {
  if (!json.is_array() || json.empty() || json.size() > 8) return false;
  int open = 0;
  for (const Json& dimension : json) {
    if (!dimension.is_number_integer()) return false;
    // An unsigned number over 2^63 turns negative here.
    const auto value = dimension.is_number_unsigned() && dimension.get<std::uint64_t>() >> 63 != 0
                           ? 0
                           : dimension.get<std::int64_t>();
    if (value < -1 || value == 0 || value > (std::int64_t{1} << 31)) return false;
    open += value == -1 ? 1 : 0;
    shape.push_back(value);
  }
  return open <= 1;
}

}  // namespace

Created create_reshape(JsonObject& attributes, std::span<const Shape> inputs) {
  const Json& json = attributes.value("shape");
  Shape shape;
  if (!attributes.ok() || !read_shape(json, shape)) {
    attributes.fail("shape", "found " + describe(json) +
                                 ", wanted 1 to 8 whole numbers from 1 to 2147483648, one of which "
                                 "may be -1 for what is left");
    return Error{ErrorCode::kInvalidArgument, "reshape wants a shape"};
  }
  const Shape written = shape;
  MUSTER_TRY(const std::int64_t size, element_count(inputs[0]));
  Shape known;
  for (const std::int64_t dimension : shape) {
    if (dimension > 0) known.push_back(dimension);
  }
  MUSTER_TRY(const std::int64_t count, element_count(known));
  const bool open = known.size() != shape.size();
  if (open ? size % count != 0 : size != count) {
    return Error{ErrorCode::kInvalidArgument, "reshape got the shape " + to_string(written) +
                                                  ", wanted one for the " + std::to_string(size) +
                                                  " elements of " + to_string(inputs[0])};
  }
  for (std::int64_t& dimension : shape) {
    if (dimension < 0) dimension = size / count;
  }
  return std::make_unique<Reshape>(std::move(shape));
}

}  // namespace muster::ops
