#pragma once

#include <cstdint>
#include <string>

#include "core/base/json.h"
#include "core/graph/op.h"

namespace muster {

// How the weights of a dense layer or a convolution begin, by its attribute "init". fan_in and
// fan_out are the inputs that meet in an output and the outputs that an input goes to: a dense
// layer's [out, in] has `in` and `out`; a convolution's [out, in / groups, kh, kw] has
// in / groups * kh * kw and out / groups * kh * kw.
//
//   "pytorch"         weight and bias uniform in +-1 / sqrt(fan_in) (torch.nn.Linear, Conv2d)
//   "glorot_uniform"  uniform in +-sqrt(6 / (fan_in + fan_out))    (Glorot and Bengio 2010, eq. 16)
//   "glorot_normal"   standard deviation sqrt(2 / (fan_in + fan_out))               (eq. 12)
//   "he_uniform"      uniform in +-sqrt(6 / fan_in)
//   "he_normal"       standard deviation sqrt(2 / fan_in)          (He et al. 2015, eq. 10)
//   "zeros"
//
// Normal ones are not truncated. With all but "pytorch" the bias begins at zero.
class WeightInit {
 public:
  // Reads "init"; left out it is "pytorch".
  static WeightInit read(JsonObject& attributes);

  const std::string& name() const { return name_; }
  Initializer weight(std::int64_t fan_in, std::int64_t fan_out) const;
  Initializer bias(std::int64_t fan_in) const;

 private:
  std::string name_ = "pytorch";
};

}  // namespace muster
