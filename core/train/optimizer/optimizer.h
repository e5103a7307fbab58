#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "core/base/workers.h"
#include "core/graph/graph.h"
#include "core/tensor/state.h"
#include "core/train/optimizer/optimizer_settings.h"

namespace muster {

// The proximal term mu/2 |w - w_global|^2 of FedProx (Li et al. 2020, equation 2). Off when
// `global` is null.
struct ProximalTerm {
  double mu = 0;
  const StateDict* global = nullptr;  // the layout of w

  bool active() const { return global != nullptr && mu != 0; }
};

// gradient += mu * (w - w_global), each operation rounded to float32. All of one length.
void add_proximal_gradient(std::span<float> gradient, std::span<const float> w,
                           std::span<const float> w_global, double mu);

// What a run carries from step to step beside its weights.
struct OptimizerState {
  std::int64_t steps = 0;          // done
  std::vector<StateDict> moments;  // as Optimizer::moments() lists them, in the layout of w
};

// One of the tensors that a recipe keeps for each weight.
struct Moment {
  std::string_view name;        // as torch.optim calls it: "exp_avg"
  bool never_negative = false;  // a mean or sum of squares
  double initial = 0;
};

// What the loops of a step get: arrays of `n` floats, `global` null without a proximal term.
struct OptimizerArrays {
  std::size_t n = 0;
  float* w = nullptr;
  const float* gradient = nullptr;
  const float* global = nullptr;
  float* moments[3] = {nullptr, nullptr, nullptr};
};

// The recipe of OptimizerSettings: immutable, apart from the state of a run, so one recipe may
// serve any number of runs in any threads. Weights, gradients and moments have one layout.
class Optimizer {
 public:
  static std::unique_ptr<Optimizer> create(const OptimizerSettings& settings);
  virtual ~Optimizer() = default;

  // At most 3.
  const std::vector<Moment>& moments() const { return moments_; }

  // The state of a run before its first step: all the memory that steps need.
  OptimizerState start(const LayoutPtr& layout) const;

  struct Step {
    double lr = 0;     // of this step
    double scale = 1;  // on the gradient, proximal term included: what clipping asks for
    ProximalTerm proximal = {};
    Workers* workers = nullptr;  // share out the loop; null: the caller alone
  };

  // One step of `w` against `gradient`, in one pass: g = scale * (gradient + mu * (w - w_global))
  // with the bits of add_proximal_gradient, then the recipe. Only the elements in `ranges` move.
  // Takes no memory. `state` is what `start` made, or one that is checked to be like it. False when
  // a weight or moment is no longer finite; w and state are then of no further use.
  bool step(StateDict& w, const StateDict& gradient, std::span<const Graph::Range> ranges,
            const Step& step, OptimizerState& state) const;

 protected:
  explicit Optimizer(std::vector<Moment> moments) : moments_(std::move(moments)) {}

  // The numbers of one step, in the precision that settings have.
  struct Numbers {
    std::int64_t step = 1;  // 1 for the first
    double lr = 0;
    float mu = 0;
    float scale = 1;
  };
  // Does the step for some elements; any thread. The result's top bit is set when a weight or
  // moment that was written is not finite (see `watched`).
  virtual std::uint32_t run(const OptimizerArrays& arrays, const Numbers& numbers) const = 0;

 private:
  std::vector<Moment> moments_;
};

// Sets the top bit when x is NaN or infinite; to be or-ed over a loop.
inline std::uint32_t watched(float x) {
  return (__builtin_bit_cast(std::uint32_t, x) & 0x7fffffffU) + 0x00800000U;
}

// One line of the table of optimisers.
struct OptimizerKind {
  std::string_view name;
  double lr;  // default
  // Reads the fields beside "type" and "lr"; the caller refuses the rest.
  OptimizerSettings::Rule (*read)(JsonObject& object);
  void (*write)(const OptimizerSettings::Rule& rule, Json& json);
  std::unique_ptr<Optimizer> (*create)(const OptimizerSettings::Rule& rule);
};

std::span<const OptimizerKind> optimizer_kinds();

}  // namespace muster
