#pragma once

#include <cmath>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

// torch.nn.LSTM and torch.nn.GRU in double precision, written down as their documentation has them,
// one example at a time.
namespace muster::recurrent_reference {

struct Sizes {
  bool lstm = true;
  std::size_t steps = 0;
  std::size_t in = 0;
  std::size_t units = 0;
  std::size_t layers = 1;
};

using Parameters = std::map<std::string, std::vector<double>>;

inline double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

// Row `row` of w times x, plus the bias if there is one.
inline double product(const Parameters& parameters, const std::string& weight,
                      const std::string& bias, std::size_t row, const std::vector<double>& x) {
  double sum = parameters.contains(bias) ? parameters.at(bias)[row] : 0;
  for (std::size_t i = 0; i < x.size(); ++i)
    sum += parameters.at(weight)[row * x.size() + i] * x[i];
  return sum;
}

// [steps][units] of the last layer from the steps' inputs [steps][in].
inline std::vector<std::vector<double>> outputs(const Sizes& sizes, const Parameters& parameters,
                                                std::vector<std::vector<double>> sequence) {
  const std::size_t n = sizes.units;
  for (std::size_t layer = 0; layer < sizes.layers; ++layer) {
    const std::string end = "_l" + std::to_string(layer);
    std::vector<double> h(n, 0.0);
    std::vector<double> c(n, 0.0);
    for (std::vector<double>& x : sequence) {
      const auto from_x = [&](std::size_t gate, std::size_t u) {
        return product(parameters, "weight_ih" + end, "bias_ih" + end, gate * n + u, x);
      };
      const auto from_h = [&](std::size_t gate, std::size_t u) {
        return product(parameters, "weight_hh" + end, "bias_hh" + end, gate * n + u, h);
      };
      std::vector<double> next(n);
      for (std::size_t u = 0; u < n; ++u) {
        if (sizes.lstm) {
          const double i = sigmoid(from_x(0, u) + from_h(0, u));
          const double f = sigmoid(from_x(1, u) + from_h(1, u));
          const double g = std::tanh(from_x(2, u) + from_h(2, u));
          const double o = sigmoid(from_x(3, u) + from_h(3, u));
          c[u] = f * c[u] + i * g;
          next[u] = o * std::tanh(c[u]);
        } else {
          const double r = sigmoid(from_x(0, u) + from_h(0, u));
          const double z = sigmoid(from_x(1, u) + from_h(1, u));
          const double candidate = std::tanh(from_x(2, u) + r * from_h(2, u));
          next[u] = (1 - z) * candidate + z * h[u];
        }
      }
      h = next;
      x = h;
    }
  }
  return sequence;
}

}  // namespace muster::recurrent_reference
