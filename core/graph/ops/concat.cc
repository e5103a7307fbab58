#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "core/graph/op_support/loops.h"
#include "core/graph/ops/registry.h"

namespace muster::ops {
namespace {

// Its inputs one after the other along one dimension; the others must agree.
//
//   "axis": 0    counted without the batch, from the end when negative
class Concat final : public Op {
 public:
  Concat(Shape output, std::int64_t axis, std::int64_t rows, std::vector<std::int64_t> runs)
      : Op({.output = std::move(output)}), axis_(axis), rows_(rows), runs_(std::move(runs)) {
    for (const std::int64_t run : runs_) width_ += run;
  }

  Json attributes() const override { return {{"axis", axis_}}; }

  void forward(const Forward& io) const override {
    each_run(io.workers, io.batch,
             [&](std::size_t k, std::int64_t in, std::int64_t out, std::int64_t run) {
               std::copy_n(io.inputs[k].data() + in, run, io.output.data() + out);
             });
  }

  void backward(const Backward& io) const override {
    each_run(io.workers, io.batch,
             [&](std::size_t k, std::int64_t in, std::int64_t out, std::int64_t run) {
               if (io.dinputs[k].empty()) return;
               std::copy_n(io.doutput.data() + out, run, io.dinputs[k].data() + in);
             });
  }

 private:
  // copy(input, place in the input, place in the output, floats) for all contiguous pieces.
  template <typename Copy>
  void each_run(const WorkerScratch& workers, std::int64_t batch, const Copy& copy) const {
    const auto body = [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t row = begin; row < end; ++row) {
        std::int64_t out = row * width_;
        for (std::size_t k = 0; k < runs_.size(); ++k) {
          copy(k, row * runs_[k], out, runs_[k]);
          out += runs_[k];
        }
      }
    };
    workers.for_each(batch * rows_, grain_of(width_, kCheapPart), body);
  }

  std::int64_t axis_;
  std::int64_t rows_;               // of one example: the product of the dimensions before the axis
  std::vector<std::int64_t> runs_;  // floats of a row by input
  std::int64_t width_ = 0;
};

Error misfit(const Shape& first, const Shape& other, std::int64_t axis) {
  return {ErrorCode::kInvalidArgument, "concat wants inputs that differ in dimension " +
                                           std::to_string(axis) + " only, got " + to_string(first) +
                                           " and " + to_string(other)};
}

}  // namespace

Created create_concat(JsonObject& attributes, std::span<const Shape> inputs) {
  const auto rank = static_cast<std::int64_t>(inputs[0].size());
  std::int64_t axis = attributes.integer("axis", 0, {-rank, rank - 1});
  if (!attributes.ok() || rank == 0) {
    return Error{ErrorCode::kInvalidArgument,
                 "concat wants inputs with a dimension, got " + to_string(inputs[0])};
  }
  if (axis < 0) axis += rank;
  const auto place = static_cast<std::size_t>(axis);
  Shape output = inputs[0];
  std::vector<std::int64_t> runs;
  output[place] = 0;
  for (const Shape& shape : inputs) {
    if (shape.size() != inputs[0].size()) return misfit(inputs[0], shape, axis);
    for (std::size_t i = 0; i < shape.size(); ++i) {
      if (i != place && shape[i] != inputs[0][i]) return misfit(inputs[0], shape, axis);
    }
    output[place] += shape[place];
    MUSTER_TRY(const std::int64_t run,
               element_count({shape.begin() + static_cast<std::ptrdiff_t>(place), shape.end()}));
    runs.push_back(run);
  }
  const auto end = inputs[0].begin() + static_cast<std::ptrdiff_t>(place);
  MUSTER_TRY(const std::int64_t rows, element_count({inputs[0].begin(), end}));
  return std::make_unique<Concat>(std::move(output), axis, rows, std::move(runs));
}

}  // namespace muster::ops
