#include "core/train/optimizer/registry.h"

#include <array>

namespace muster {

std::span<const OptimizerKind> optimizer_kinds() {
  static const std::array kTable{optimizers::adagrad(), optimizers::adam(), optimizers::adamw(),
                                 optimizers::rmsprop(), optimizers::sgd()};
  return kTable;
}

}  // namespace muster
