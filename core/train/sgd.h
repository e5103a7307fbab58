#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/error.h"
#include "core/graph/graph.h"
#include "core/tensor/state.h"
#include "core/train/settings.h"

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

// What a run of SGD carries from step to step.
struct SgdState {
  std::int64_t steps = 0;
  std::vector<StateDict> momentum;  // one, once a step with momentum is done; else none
};

// The recipe of `OptimizerSettings` (settings.h): immutable, apart from the state of a run.
class Sgd {
 public:
  // Settings as local_settings_from_json lets through.
  explicit Sgd(const OptimizerSettings& settings);

  // One step of `w` against `gradient`, in one pass; the proximal term joins the gradient first,
  // with the bits of add_proximal_gradient. Only the elements in `ranges` move. All states have one
  // layout. The first step with momentum takes memory for it, later ones take none.
  void step(StateDict& w, const StateDict& gradient, std::span<const Graph::Range> ranges,
            const ProximalTerm& proximal, SgdState& state) const;

 private:
  float lr_;
  float momentum_;
  float keep_;  // 1 - dampening
  float weight_decay_;
  bool nesterov_;
};

}  // namespace muster
