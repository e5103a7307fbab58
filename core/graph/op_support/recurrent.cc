#include "core/graph/op_support/recurrent.h"

#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <string_view>

#include "core/base/invariant.h"
#include "core/graph/op_support/recurrent_recipe.h"

namespace muster::ops {
namespace {

constexpr std::int64_t kMostLayers = 64;
constexpr std::int64_t kMostUnits = std::int64_t{1} << 20;

void require(bool holds, std::string_view what) {
  if (!holds) invariant_broken(what);
}

// Hands out places of a call's work space on cache lines.
class Places {
 public:
  explicit Places(std::span<float> left) : left_(left) {}
  float* take(std::int64_t floats) {
    const auto size = static_cast<std::size_t>(RecurrentRecipe::rounded(floats));
    require(size <= left_.size(), "a recurrent op uses more scratch than it planned");
    float* place = left_.data();
    left_ = left_.subspan(size);
    return place;
  }

 private:
  std::span<float> left_;
};

// What a block of examples keeps of a layer.
template <typename Float>
RecurrentKept<Float> kept_of(const RecurrentRecipe& r, Float* saved, std::int64_t layer,
                             std::int64_t examples) {
  Float* gates = saved + layer * examples * r.kept();
  Float* h = gates + r.steps * examples * 4 * r.units;
  return {gates, h, r.cell->has_c ? h + (r.steps + 1) * examples * r.units : nullptr};
}

class Recurrent final : public Op {
 public:
  Recurrent(OpPlan plan, const RecurrentRecipe& recipe) : Op(std::move(plan)), recipe_(recipe) {}

  Json attributes() const override {
    return {{"units", recipe_.units},
            {"layers", recipe_.layers},
            {"bias", recipe_.bias},
            {"return_sequences", recipe_.sequences}};
  }

  std::int64_t multiply_adds() const override {
    std::int64_t sum = 0;
    for (std::int64_t layer = 0; layer < recipe_.layers; ++layer) {
      std::int64_t each = 0;
      if (__builtin_mul_overflow(recipe_.steps * recipe_.weight_rows(),
                                 recipe_.in_of(layer) + recipe_.units, &each) ||
          __builtin_add_overflow(sum, each, &sum)) {
        return std::numeric_limits<std::int64_t>::max();
      }
    }
    return sum;
  }

  void forward(const Forward& io) const override {
    const RecurrentRecipe& r = recipe_;
    const std::int64_t block = RecurrentRecipe::block_of(io.batch);
    Places places(io.scratch);
    const std::int64_t chunk = r.steps_of_chunk(block, RecurrentRecipe::kForwardRows);
    const ForwardScratch scratch{.chunk = chunk,
                                 .rows = chunk * block,
                                 .x = places.take(chunk * block * r.in),
                                 .packed = places.take(r.packed_below(r.layers)),
                                 .small = places.take(r.layers * r.small())};
    for (std::int64_t layer = 0; layer < r.layers; ++layer) {
      forward_layer(io, scratch, layer, 0, block).pack(weights(io.parameters, layer));
    }
    for (std::int64_t first = 0; first < io.batch; first += block) {
      forward_block(io, scratch, first, std::min(block, io.batch - first));
    }
  }

  void backward(const Backward& io) const override {
    const RecurrentRecipe& r = recipe_;
    const std::int64_t block = RecurrentRecipe::block_of(io.batch);
    const std::int64_t chunk = r.steps_of_chunk(block, RecurrentRecipe::kBackwardRows);
    const std::int64_t rows = chunk * block;
    Places places(io.scratch);
    const BackwardScratch scratch{
        .chunk = chunk,
        .rows = rows,
        .x = places.take(rows * r.widest()),
        .dhidden = places.take(rows * r.weight_rows()),
        .dinput = r.cell->has_c ? nullptr : places.take(rows * r.weight_rows()),
        .packed = places.take(r.packed_below(r.layers)),
        .small = places.take(r.layers * r.small()),
        .dstates = places.take(r.layers * r.states() * block * r.units)};
    std::fill_n(scratch.small, r.layers * r.small(), 0.0F);
    for (std::int64_t layer = 0; layer < r.layers; ++layer) {
      backward_layer(io, scratch, layer, 0, block).pack(weights(io.parameters, layer));
    }
    for (std::int64_t first = 0; first < io.batch; first += block) {
      backward_block(io, scratch, first, std::min(block, io.batch - first));
    }
    for (std::int64_t layer = 0; layer < r.layers && r.bias; ++layer) {
      const std::size_t p = parameter(layer) + 2;
      backward_layer(io, scratch, layer, 0, block)
          .bias_gradients(io.dparameters[p].data(), io.dparameters[p + 1].data(), io.accumulate);
    }
  }

 private:
  struct ForwardScratch {
    std::int64_t chunk = 0;  // steps
    std::int64_t rows = 0;   // steps times examples that there is room for
    float* x = nullptr;      // the input of a chunk's steps, time-major
    float* packed = nullptr;
    float* small = nullptr;
  };

  struct BackwardScratch {
    std::int64_t chunk = 0;
    std::int64_t rows = 0;
    float* x = nullptr;  // the same; and the gradient by a layer's input
    float* dhidden = nullptr;
    float* dinput = nullptr;
    float* packed = nullptr;
    float* small = nullptr;
    float* dstates = nullptr;
  };

  std::size_t parameter(std::int64_t layer) const {
    return static_cast<std::size_t>(layer) * (recipe_.bias ? 4 : 2);
  }

  RecurrentWeights weights(std::span<const std::span<const float>> parameters,
                           std::int64_t layer) const {
    const std::size_t p = parameter(layer);
    RecurrentWeights result{.ih = parameters[p].data(), .hh = parameters[p + 1].data()};
    if (recipe_.bias) {
      result.bias_ih = parameters[p + 2].data();
      result.bias_hh = parameters[p + 3].data();
    }
    return result;
  }

  // The parts are those of whole blocks, for which the weights are packed.
  RecurrentSizes sizes(std::int64_t layer, std::int64_t count, std::int64_t batch,
                       const WorkerScratch& workers) const {
    const RecurrentRecipe& r = recipe_;
    return {r.cell, count, r.in_of(layer), r.units,
            RecurrentParts::of(*r.cell, RecurrentRecipe::block_of(batch), r.units, workers)};
  }

  // A layer for examples [example, example + count).
  RecurrentForward forward_layer(const Forward& io, const ForwardScratch& scratch,
                                 std::int64_t layer, std::int64_t example,
                                 std::int64_t count) const {
    const RecurrentRecipe& r = recipe_;
    float* packed = scratch.packed + r.packed_below(layer);
    float* saved = io.saved.data() + example * plan().saved_per_example;
    return RecurrentForward(sizes(layer, count, io.batch, io.workers), io.workers,
                            {.packed_ih = packed,
                             .packed_hh = packed + r.packed_input(layer),
                             .bias = scratch.small + layer * r.small(),
                             .kept = kept_of(r, saved, layer, count)});
  }

  RecurrentBackward backward_layer(const Backward& io, const BackwardScratch& scratch,
                                   std::int64_t layer, std::int64_t example,
                                   std::int64_t count) const {
    const RecurrentRecipe& r = recipe_;
    const bool wants_input = layer > 0 || !io.dinputs[0].empty();
    float* packed = scratch.packed + r.packed_below(layer);
    float* dh = scratch.dstates + layer * r.states() * count * r.units;
    const float* saved = io.saved.data() + example * plan().saved_per_example;
    return RecurrentBackward(sizes(layer, count, io.batch, io.workers), io.workers,
                             {.packed_ih = wants_input ? packed : nullptr,
                              .packed_hh = packed + r.packed_input(layer),
                              .dh = dh,
                              .dc = r.cell->has_c ? dh + count * r.units : nullptr,
                              .dinput = scratch.dinput,
                              .dhidden = scratch.dhidden,
                              .bias_sums = scratch.small + layer * r.small(),
                              .kept = kept_of(r, saved, layer, count)});
  }

  // That a block's chunks fit the rows there is room for, and what it keeps the memory for that.
  void check_block(std::int64_t rows, std::int64_t chunk, std::size_t saved, std::int64_t example,
                   std::int64_t count) const {
    require(chunk * count <= rows, "a recurrent op has more rows in a chunk than it planned");
    require((example + count) * plan().saved_per_example <= static_cast<std::int64_t>(saved),
            "a recurrent op keeps more than it planned");
  }

  void forward_block(const Forward& io, const ForwardScratch& scratch, std::int64_t example,
                     std::int64_t count) const {
    const RecurrentRecipe& r = recipe_;
    const std::int64_t state = count * r.units;
    float* saved = io.saved.data() + example * plan().saved_per_example;
    for (std::int64_t layer = 0; layer < r.layers; ++layer) {
      const RecurrentKept<float> start = kept_of(r, saved, layer, count);
      std::fill_n(start.h, state, 0.0F);
      if (r.cell->has_c) std::fill_n(start.c, state, 0.0F);
    }
    const std::int64_t chunk = scratch.chunk;
    check_block(scratch.rows, chunk, io.saved.size(), example, count);
    const float* input = io.inputs[0].data() + example * r.steps * r.in;
    const float* top = kept_of(r, saved, r.layers - 1, count).h + state;
    for (std::int64_t first = 0; first < r.steps; first += chunk) {
      const std::int64_t last = std::min(first + chunk, r.steps);
      time_major(io.workers, count, first, last, input, scratch.x);
      for (std::int64_t layer = 0; layer < r.layers; ++layer) {
        const float* below = scratch.x;
        if (layer > 0) below = kept_of(r, saved, layer - 1, count).h + (first + 1) * state;
        forward_layer(io, scratch, layer, example, count).run(first, last, below);
      }
      if (!r.sequences) continue;
      batch_major(io.workers, count, r.units, first, last, top + first * state,
                  io.output.data() + example * r.steps * r.units);
    }
    if (!r.sequences) {
      std::copy_n(top + (r.steps - 1) * state, state, io.output.data() + example * r.units);
    }
  }

  void backward_block(const Backward& io, const BackwardScratch& scratch, std::int64_t example,
                      std::int64_t count) const {
    const RecurrentRecipe& r = recipe_;
    const std::int64_t state = count * r.units;
    const float* saved = io.saved.data() + example * plan().saved_per_example;
    const float* input = io.inputs[0].data() + example * r.steps * r.in;
    const bool wants_input = !io.dinputs[0].empty();
    std::fill_n(scratch.dstates, r.layers * r.states() * state, 0.0F);
    // By the output of the top layer: of every step, or of the last.
    RecurrentOutputGradient dtop{io.doutput.data() + example * r.units, r.steps - 1, 0, r.units};
    if (r.sequences) {
      dtop = {io.doutput.data() + example * r.steps * r.units, 0, r.units, r.steps * r.units};
    }
    const std::int64_t chunk = scratch.chunk;
    check_block(scratch.rows, chunk, io.saved.size(), example, count);
    bool accumulate = io.accumulate || example > 0;
    for (std::int64_t first = (r.steps - 1) / chunk * chunk; first >= 0; first -= chunk) {
      const std::int64_t last = std::min(first + chunk, r.steps);
      RecurrentOutputGradient dy = dtop;
      for (std::int64_t layer = r.layers - 1; layer >= 0; --layer) {
        const RecurrentBackward at = backward_layer(io, scratch, layer, example, count);
        at.run(first, last, dy);
        const float* below = scratch.x;
        if (layer > 0) {
          below = kept_of(r, saved, layer - 1, count).h + (first + 1) * state;
        } else {
          time_major(io.workers, count, first, last, input, scratch.x);
        }
        const std::size_t p = parameter(layer);
        at.weight_gradients(first, last, below, io.dparameters[p].data(),
                            io.dparameters[p + 1].data(), accumulate);
        if (layer == 0 && !wants_input) break;
        at.input_gradient(first, last, scratch.x);
        dy = {scratch.x, first, state, r.units};
      }
      accumulate = true;
      if (!wants_input) continue;
      batch_major(io.workers, count, r.in, first, last, scratch.x,
                  io.dinputs[0].data() + example * r.steps * r.in);
    }
  }

  // to [last - first, count, in] = these steps of from [count, steps, in].
  void time_major(const WorkerScratch& workers, std::int64_t count, std::int64_t first,
                  std::int64_t last, const float* from, float* to) const {
    const std::int64_t in = recipe_.in;
    workers.for_each(count, share(workers, count, 1), [&](std::int64_t b, std::int64_t end, int) {
      for (; b < end; ++b) {
        for (std::int64_t t = first; t < last; ++t) {
          std::copy_n(from + (b * recipe_.steps + t) * in, in, to + ((t - first) * count + b) * in);
        }
      }
    });
  }

  // The way back, for rows of `width`.
  void batch_major(const WorkerScratch& workers, std::int64_t count, std::int64_t width,
                   std::int64_t first, std::int64_t last, const float* from, float* to) const {
    workers.for_each(count, share(workers, count, 1), [&](std::int64_t b, std::int64_t end, int) {
      for (; b < end; ++b) {
        for (std::int64_t t = first; t < last; ++t) {
          std::copy_n(from + ((t - first) * count + b) * width, width,
                      to + (b * recipe_.steps + t) * width);
        }
      }
    });
  }

  RecurrentRecipe recipe_;
};

std::vector<ParameterSpec> parameters_of(const RecurrentRecipe& recipe) {
  const Initializer init{Initializer::Kind::kUniform,
                         1.0 / std::sqrt(static_cast<double>(recipe.units))};
  std::vector<ParameterSpec> parameters;
  for (std::int64_t layer = 0; layer < recipe.layers; ++layer) {
    const std::string end = "_l" + std::to_string(layer);
    const std::int64_t rows = recipe.weight_rows();
    parameters.push_back({"weight_ih" + end, {rows, recipe.in_of(layer)}, init});
    parameters.push_back({"weight_hh" + end, {rows, recipe.units}, init});
    if (!recipe.bias) continue;
    parameters.push_back({"bias_ih" + end, {rows}, init});
    parameters.push_back({"bias_hh" + end, {rows}, init});
  }
  return parameters;
}

}  // namespace

Created create_recurrent(const RecurrentCell& cell, JsonObject& attributes,
                         std::span<const Shape> inputs) {
  RecurrentRecipe recipe{.cell = &cell};
  recipe.units = attributes.integer("units", {1, kMostUnits});
  recipe.layers = attributes.integer("layers", 1, {1, kMostLayers});
  recipe.bias = attributes.boolean("bias", true);
  recipe.sequences = attributes.boolean("return_sequences", true);
  const Shape& input = inputs[0];
  const std::string name(cell.name);
  if (input.size() != 2) {
    return Error{ErrorCode::kInvalidArgument,
                 name + " wants an input of [steps, features], got " + to_string(input)};
  }
  recipe.steps = input[0];
  recipe.in = input[1];
  if (!recipe.fits()) {
    return Error{ErrorCode::kInvalidArgument,
                 name + " of " + std::to_string(recipe.layers) + " layers of " +
                     std::to_string(recipe.units) + " units on " + to_string(input) +
                     " is too large: it wants over 2^48 values for an example"};
  }
  OpPlan plan{.output = recipe.sequences ? Shape{recipe.steps, recipe.units} : Shape{recipe.units},
              .parameters = parameters_of(recipe),
              .saved_per_example = recipe.layers * recipe.kept(),
              .scratch_fixed = recipe.scratch(),
              .scratch_per_worker = kernels::kGemmScratch};
  return std::make_unique<Recurrent>(std::move(plan), recipe);
}

}  // namespace muster::ops
