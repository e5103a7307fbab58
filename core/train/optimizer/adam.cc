#include <cmath>

#include "core/base/exact_math.h"
#include "core/train/optimizer/registry.h"

namespace muster::optimizers {
namespace {

struct Coefficients {
  float mu;
  float scale;
  float weight_decay;
  float shrink;  // of the weights, before the step
  float beta1;
  float keep1;  // 1 - beta1
  float beta2;
  float keep2;  // 1 - beta2
  float step;   // lr / (1 - beta1^s)
  float root;   // sqrt(1 - beta2^s)
  float eps;
};

enum class Decay { kNone, kGradient, kWeights };

template <bool Proximal, Decay Kind>
std::uint32_t pass(std::size_t n, const Coefficients& c, const float* __restrict gradient,
                   const float* __restrict global, float* __restrict m, float* __restrict v,
                   float* __restrict w) {
  std::uint32_t watch = 0;
  for (std::size_t i = 0; i < n; ++i) {
    float x = w[i];
    float g = gradient[i];
    if constexpr (Proximal) g += c.mu * (x - global[i]);
    g *= c.scale;
    if constexpr (Kind == Decay::kGradient) g += c.weight_decay * x;
    if constexpr (Kind == Decay::kWeights) x *= c.shrink;
    const float mean = c.beta1 * m[i] + c.keep1 * g;
    const float square = c.beta2 * v[i] + c.keep2 * (g * g);
    m[i] = mean;
    v[i] = square;
    x -= c.step * (mean / (__builtin_sqrtf(square) / c.root + c.eps));
    w[i] = x;
    watch |= watched(x) | watched(square);
  }
  return watch;
}

using Pass = std::uint32_t (*)(std::size_t, const Coefficients&, const float*, const float*, float*,
                               float*, float*);

Pass choose(bool proximal, Decay kind) {
  switch (kind) {
    case Decay::kGradient:
      return proximal ? pass<true, Decay::kGradient> : pass<false, Decay::kGradient>;
    case Decay::kWeights:
      return proximal ? pass<true, Decay::kWeights> : pass<false, Decay::kWeights>;
    case Decay::kNone:
      break;
  }
  return proximal ? pass<true, Decay::kNone> : pass<false, Decay::kNone>;
}

// Adam and AdamW differ in where the weight decay goes.
template <typename Settings, Decay WithDecay>
class AdamRecipe final : public Optimizer {
 public:
  explicit AdamRecipe(const Settings& settings)
      : Optimizer({{"exp_avg"}, {.name = "exp_avg_sq", .never_negative = true}}),
        settings_(settings) {}

 private:
  std::uint32_t run(const OptimizerArrays& arrays, const Numbers& numbers) const override {
    const double correction1 = 1 - integer_power(settings_.beta1, numbers.step);
    const double correction2 = 1 - integer_power(settings_.beta2, numbers.step);
    const Coefficients coefficients{
        .mu = numbers.mu,
        .scale = numbers.scale,
        .weight_decay = static_cast<float>(settings_.weight_decay),
        .shrink = static_cast<float>(1 - numbers.lr * settings_.weight_decay),
        .beta1 = static_cast<float>(settings_.beta1),
        .keep1 = static_cast<float>(1 - settings_.beta1),
        .beta2 = static_cast<float>(settings_.beta2),
        .keep2 = static_cast<float>(1 - settings_.beta2),
        .step = static_cast<float>(numbers.lr / correction1),
        .root = static_cast<float>(std::sqrt(correction2)),
        .eps = static_cast<float>(settings_.eps)};
    const Decay kind = settings_.weight_decay == 0 ? Decay::kNone : WithDecay;
    return choose(arrays.global != nullptr, kind)(arrays.n, coefficients, arrays.gradient,
                                                  arrays.global, arrays.moments[0],
                                                  arrays.moments[1], arrays.w);
  }

  Settings settings_;
};

// {"betas": [0.9, 0.999]}
template <typename Settings>
void read_betas(JsonObject& object, Settings& settings) {
  const Json* betas = object.find("betas");
  if (betas == nullptr) return;
  const auto is_rate = [](const Json& value) {
    return value.is_number() && value.get<double>() >= kRate.low &&
           value.get<double>() <= kRate.high;
  };
  if (!betas->is_array() || betas->size() != 2 || !is_rate((*betas)[0]) || !is_rate((*betas)[1])) {
    object.fail("betas", describe(*betas) + " found, two numbers from 0 to 0.9999999 are wanted");
    return;
  }
  settings.beta1 = (*betas)[0].template get<double>();
  settings.beta2 = (*betas)[1].template get<double>();
}

template <typename Settings>
Settings read(JsonObject& object) {
  Settings settings;
  read_betas(object, settings);
  settings.eps = object.number("eps", settings.eps, kEps);
  settings.weight_decay = object.number("weight_decay", settings.weight_decay, kDecay);
  return settings;
}

template <typename Settings>
void write(const Settings& settings, Json& json) {
  json["betas"] = {settings.beta1, settings.beta2};
  json["eps"] = settings.eps;
  json["weight_decay"] = settings.weight_decay;
}

template <typename Settings, Decay WithDecay>
OptimizerKind kind() {
  return kind_of<Settings, read<Settings>, write<Settings>, AdamRecipe<Settings, WithDecay>>();
}

}  // namespace

OptimizerKind adam() {
  return kind<AdamSettings, Decay::kGradient>();
}

OptimizerKind adamw() {
  return kind<AdamWSettings, Decay::kWeights>();
}

}  // namespace muster::optimizers
