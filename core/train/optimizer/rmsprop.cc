#include "core/train/optimizer/registry.h"

namespace muster::optimizers {
namespace {

struct Coefficients {
  float mu;
  float scale;
  float weight_decay;
  float alpha;
  float keep;  // 1 - alpha
  float eps;
  float momentum;
  float lr;
};

// Arrays that a form does not use are null.
template <bool Proximal, bool Decay, bool Centered, bool Momentum>
std::uint32_t pass(std::size_t n, const Coefficients& c, const float* __restrict gradient,
                   const float* __restrict global, float* __restrict v, float* __restrict a,
                   float* __restrict b, float* __restrict w) {
  std::uint32_t watch = 0;
  for (std::size_t i = 0; i < n; ++i) {
    float g = gradient[i];
    if constexpr (Proximal) g += c.mu * (w[i] - global[i]);
    g *= c.scale;
    if constexpr (Decay) g += c.weight_decay * w[i];
    const float square = c.alpha * v[i] + c.keep * (g * g);
    v[i] = square;
    float spread = square;
    if constexpr (Centered) {
      const float mean = c.alpha * a[i] + c.keep * g;
      a[i] = mean;
      spread -= mean * mean;
      // Negative becomes 0, without a branch that would keep the loop from being cut into vectors.
      spread = 0.5F * spread + 0.5F * __builtin_fabsf(spread);
    }
    float move = g / (__builtin_sqrtf(spread) + c.eps);
    if constexpr (Momentum) {
      move = c.momentum * b[i] + move;
      b[i] = move;
    }
    const float x = w[i] - c.lr * move;
    w[i] = x;
    watch |= watched(x) | watched(square);
  }
  return watch;
}

using Pass = std::uint32_t (*)(std::size_t, const Coefficients&, const float*, const float*, float*,
                               float*, float*, float*);

template <bool Proximal, bool Decay>
Pass choose(bool centered, bool momentum) {
  if (centered) {
    return momentum ? pass<Proximal, Decay, true, true> : pass<Proximal, Decay, true, false>;
  }
  return momentum ? pass<Proximal, Decay, false, true> : pass<Proximal, Decay, false, false>;
}

Pass choose(bool proximal, bool decay, bool centered, bool momentum) {
  if (proximal) {
    return decay ? choose<true, true>(centered, momentum) : choose<true, false>(centered, momentum);
  }
  return decay ? choose<false, true>(centered, momentum) : choose<false, false>(centered, momentum);
}

std::vector<Moment> moments_of(const RmspropSettings& settings) {
  std::vector<Moment> moments{{.name = "square_avg", .never_negative = true}};
  if (settings.centered) moments.push_back({"grad_avg"});
  if (settings.momentum != 0) moments.push_back({"momentum_buffer"});
  return moments;
}

class Rmsprop final : public Optimizer {
 public:
  explicit Rmsprop(const RmspropSettings& settings)
      : Optimizer(moments_of(settings)), settings_(settings) {}

 private:
  std::uint32_t run(const OptimizerArrays& arrays, const Numbers& numbers) const override {
    const Coefficients coefficients{.mu = numbers.mu,
                                    .scale = numbers.scale,
                                    .weight_decay = static_cast<float>(settings_.weight_decay),
                                    .alpha = static_cast<float>(settings_.alpha),
                                    .keep = static_cast<float>(1 - settings_.alpha),
                                    .eps = static_cast<float>(settings_.eps),
                                    .momentum = static_cast<float>(settings_.momentum),
                                    .lr = static_cast<float>(numbers.lr)};
    const bool momentum = settings_.momentum != 0;
    const Pass pass =
        choose(arrays.global != nullptr, settings_.weight_decay != 0, settings_.centered, momentum);
    return pass(arrays.n, coefficients, arrays.gradient, arrays.global, arrays.moments[0],
                settings_.centered ? arrays.moments[1] : nullptr,
                momentum ? arrays.moments[settings_.centered ? 2 : 1] : nullptr, arrays.w);
  }

  RmspropSettings settings_;
};

RmspropSettings read(JsonObject& object) {
  RmspropSettings settings;
  settings.alpha = object.number("alpha", settings.alpha, kRate);
  settings.eps = object.number("eps", settings.eps, kEps);
  settings.weight_decay = object.number("weight_decay", settings.weight_decay, kDecay);
  settings.momentum = object.number("momentum", settings.momentum, kRate);
  settings.centered = object.boolean("centered", settings.centered);
  return settings;
}

void write(const RmspropSettings& settings, Json& json) {
  json["alpha"] = settings.alpha;
  json["eps"] = settings.eps;
  json["weight_decay"] = settings.weight_decay;
  json["momentum"] = settings.momentum;
  json["centered"] = settings.centered;
}

}  // namespace

OptimizerKind rmsprop() {
  return kind_of<RmspropSettings, read, write, Rmsprop>();
}

}  // namespace muster::optimizers
