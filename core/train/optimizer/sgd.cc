#include "core/train/optimizer/registry.h"

namespace muster::optimizers {
namespace {

// How the buffer of momentum is used in a step.
enum class Momentum { kNone, kFirst, kLater };

struct Coefficients {
  float mu;
  float scale;
  float weight_decay;
  float momentum;
  float keep;  // 1 - dampening
  float lr;
};

// What is not asked for is compiled out, so that plain SGD is one fused loop; the order of
// operations is the same in all forms.
template <bool Proximal, bool Decay, Momentum Kind, bool Nesterov>
std::uint32_t pass(std::size_t n, const Coefficients& c, const float* __restrict gradient,
                   const float* __restrict global, float* __restrict buffer, float* __restrict w) {
  std::uint32_t watch = 0;
  for (std::size_t i = 0; i < n; ++i) {
    float g = gradient[i];
    if constexpr (Proximal) g += c.mu * (w[i] - global[i]);
    g *= c.scale;
    if constexpr (Decay) g += c.weight_decay * w[i];
    if constexpr (Kind != Momentum::kNone) {
      const float b = Kind == Momentum::kFirst ? g : c.momentum * buffer[i] + c.keep * g;
      buffer[i] = b;
      g = Nesterov ? g + c.momentum * b : b;
    }
    const float x = w[i] - c.lr * g;
    w[i] = x;
    watch |= watched(x);
  }
  return watch;
}

using Pass = std::uint32_t (*)(std::size_t, const Coefficients&, const float*, const float*, float*,
                               float*);

template <bool Proximal, bool Decay>
Pass choose(Momentum kind, bool nesterov) {
  if (kind == Momentum::kNone) return pass<Proximal, Decay, Momentum::kNone, false>;
  if (kind == Momentum::kFirst) {
    return nesterov ? pass<Proximal, Decay, Momentum::kFirst, true>
                    : pass<Proximal, Decay, Momentum::kFirst, false>;
  }
  return nesterov ? pass<Proximal, Decay, Momentum::kLater, true>
                  : pass<Proximal, Decay, Momentum::kLater, false>;
}

Pass choose(bool proximal, bool decay, Momentum kind, bool nesterov) {
  if (proximal) {
    return decay ? choose<true, true>(kind, nesterov) : choose<true, false>(kind, nesterov);
  }
  return decay ? choose<false, true>(kind, nesterov) : choose<false, false>(kind, nesterov);
}

class Sgd final : public Optimizer {
 public:
  explicit Sgd(const SgdSettings& settings)
      : Optimizer(settings.momentum == 0 ? std::vector<Moment>{}
                                         : std::vector<Moment>{{"momentum_buffer"}}),
        settings_(settings) {}

 private:
  std::uint32_t run(const OptimizerArrays& arrays, const Numbers& numbers) const override {
    Momentum kind = Momentum::kNone;
    if (settings_.momentum != 0) kind = numbers.step == 1 ? Momentum::kFirst : Momentum::kLater;
    const Coefficients coefficients{.mu = numbers.mu,
                                    .scale = numbers.scale,
                                    .weight_decay = static_cast<float>(settings_.weight_decay),
                                    .momentum = static_cast<float>(settings_.momentum),
                                    .keep = static_cast<float>(1.0 - settings_.dampening),
                                    .lr = static_cast<float>(numbers.lr)};
    const Pass pass =
        choose(arrays.global != nullptr, settings_.weight_decay != 0, kind, settings_.nesterov);
    return pass(arrays.n, coefficients, arrays.gradient, arrays.global, arrays.moments[0],
                arrays.w);
  }

  SgdSettings settings_;
};

SgdSettings read(JsonObject& object) {
  SgdSettings settings;
  settings.momentum = object.number("momentum", settings.momentum, kRate);
  settings.dampening = object.number("dampening", settings.dampening, {0.0, 1.0});
  settings.weight_decay = object.number("weight_decay", settings.weight_decay, kDecay);
  settings.nesterov = object.boolean("nesterov", settings.nesterov);
  // As torch.optim.SGD demands.
  if (settings.nesterov && (settings.momentum == 0 || settings.dampening != 0)) {
    object.fail("nesterov", "true found, which wants a momentum above 0 and a dampening of 0");
  }
  return settings;
}

void write(const SgdSettings& settings, Json& json) {
  json["momentum"] = settings.momentum;
  json["dampening"] = settings.dampening;
  json["weight_decay"] = settings.weight_decay;
  json["nesterov"] = settings.nesterov;
}

}  // namespace

OptimizerKind sgd() {
  return kind_of<SgdSettings, read, write, Sgd>();
}

}  // namespace muster::optimizers
