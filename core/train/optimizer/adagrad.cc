#include "core/train/optimizer/registry.h"

namespace muster::optimizers {
namespace {

struct Coefficients {
  float mu;
  float scale;
  float weight_decay;
  float lr;  // decayed
  float eps;
};

template <bool Proximal, bool Decay>
std::uint32_t pass(std::size_t n, const Coefficients& c, const float* __restrict gradient,
                   const float* __restrict global, float* __restrict v, float* __restrict w) {
  std::uint32_t watch = 0;
  for (std::size_t i = 0; i < n; ++i) {
    float g = gradient[i];
    if constexpr (Proximal) g += c.mu * (w[i] - global[i]);
    g *= c.scale;
    if constexpr (Decay) g += c.weight_decay * w[i];
    const float sum = v[i] + g * g;
    v[i] = sum;
    const float x = w[i] - c.lr * (g / (__builtin_sqrtf(sum) + c.eps));
    w[i] = x;
    watch |= watched(x) | watched(sum);
  }
  return watch;
}

class Adagrad final : public Optimizer {
 public:
  explicit Adagrad(const AdagradSettings& settings)
      : Optimizer({{.name = "sum",
                    .never_negative = true,
                    .initial = settings.initial_accumulator_value}}),
        settings_(settings) {}

 private:
  std::uint32_t run(const OptimizerArrays& arrays, const Numbers& numbers) const override {
    const double before = static_cast<double>(numbers.step - 1);
    const Coefficients coefficients{
        .mu = numbers.mu,
        .scale = numbers.scale,
        .weight_decay = static_cast<float>(settings_.weight_decay),
        .lr = static_cast<float>(numbers.lr / (1 + before * settings_.lr_decay)),
        .eps = static_cast<float>(settings_.eps)};
    const bool proximal = arrays.global != nullptr;
    const bool decay = settings_.weight_decay != 0;
    const auto chosen = proximal ? (decay ? pass<true, true> : pass<true, false>)
                                 : (decay ? pass<false, true> : pass<false, false>);
    return chosen(arrays.n, coefficients, arrays.gradient, arrays.global, arrays.moments[0],
                  arrays.w);
  }

  AdagradSettings settings_;
};

AdagradSettings read(JsonObject& object) {
  AdagradSettings settings;
  settings.lr_decay = object.number("lr_decay", settings.lr_decay, kDecay);
  settings.weight_decay = object.number("weight_decay", settings.weight_decay, kDecay);
  settings.initial_accumulator_value =
      object.number("initial_accumulator_value", settings.initial_accumulator_value, {0.0, 1e30});
  settings.eps = object.number("eps", settings.eps, kEps);
  return settings;
}

void write(const AdagradSettings& settings, Json& json) {
  json["lr_decay"] = settings.lr_decay;
  json["weight_decay"] = settings.weight_decay;
  json["initial_accumulator_value"] = settings.initial_accumulator_value;
  json["eps"] = settings.eps;
}

}  // namespace

OptimizerKind adagrad() {
  return kind_of<AdagradSettings, read, write, Adagrad>();
}

}  // namespace muster::optimizers
