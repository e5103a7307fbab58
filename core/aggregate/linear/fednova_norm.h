#pragma once

#include <cstdint>

namespace muster {

// ||a||_1 of FedNova: the number of gradients that `steps` local steps amount to, each step being
//   buffer <- momentum buffer + gradient + mu (w - x);  w <- w - lr buffer
// run on a constant gradient. For plain SGD it is `steps`; with momentum rho and without a proximal
// term (tau - rho (1 - rho^tau) / (1 - rho)) / (1 - rho); with a proximal term and without momentum
// (1 - (1 - lr mu)^tau) / (lr mu).
//   steps   1 or more
//   shrink  lr * mu
double fednova_norm(std::int64_t steps, double momentum, double shrink);

}  // namespace muster
