#include "core/graph/initializers.h"

#include <cmath>

namespace muster {

WeightInit WeightInit::read(JsonObject& attributes) {
  WeightInit init;
  if (attributes.find("init") == nullptr) return init;
  init.name_ = attributes.choice(
      "init", {"pytorch", "glorot_uniform", "glorot_normal", "he_uniform", "he_normal", "zeros"});
  return init;
}

Initializer WeightInit::weight(std::int64_t fan_in, std::int64_t fan_out) const {
  using Kind = Initializer::Kind;
  const auto in = static_cast<double>(fan_in);
  const double both = in + static_cast<double>(fan_out);
  if (name_ == "pytorch") return {Kind::kUniform, 1.0 / std::sqrt(in)};
  if (name_ == "glorot_uniform") return {Kind::kUniform, std::sqrt(6.0 / both)};
  if (name_ == "glorot_normal") return {Kind::kNormal, std::sqrt(2.0 / both)};
  if (name_ == "he_uniform") return {Kind::kUniform, std::sqrt(6.0 / in)};
  if (name_ == "he_normal") return {Kind::kNormal, std::sqrt(2.0 / in)};
  return {Kind::kConstant, 0.0};
}

Initializer WeightInit::bias(std::int64_t fan_in) const {
  if (name_ == "pytorch") return weight(fan_in, 1);
  return {Initializer::Kind::kConstant, 0.0};
}

}  // namespace muster
