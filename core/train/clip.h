#pragma once

#include <span>

#include "core/train/optimizer/optimizer.h"

namespace muster {

// The Euclidean norm of the gradient of the local objective, F(w) + mu/2 |w - w_global|^2 (Li et
// al. 2020, equation 2): of gradient + mu * (w - w_global), with the bits of add_proximal_gradient,
// over the elements in `ranges`. The proximal gradient is part of it, so what clipping bounds is
// the whole step. Squares are added in double, in an order that depends on the ranges only. NaN or
// infinite when, and only when, an element is.
double gradient_norm(const StateDict& gradient, const StateDict& w,
                     std::span<const Graph::Range> ranges, const ProximalTerm& proximal);

// What torch.nn.utils.clip_grad_norm_ multiplies a gradient with: min(1, max_norm / (norm + 1e-6)).
double clip_scale(double norm, double max_norm);

}  // namespace muster
