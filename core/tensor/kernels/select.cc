#include "core/tensor/kernels/kernels.h"

#include "core/tensor/kernels/tables.h"

namespace muster::kernels {
namespace {

struct Available {
  const Table* tables[4] = {};

  Available() {
    int count = 0;
#if defined(MUSTER_KERNELS_X86)
    __builtin_cpu_init();
    // All that the level has, as far as the compiler knows how to ask.
    const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2")
#if !defined(__clang__)
                    && __builtin_cpu_supports("x86-64-v3")
#endif
        ;
    const bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                    __builtin_cpu_supports("avx512cd");
    if (v4) tables[count++] = &x86_v4::table();
    if (v3) tables[count++] = &x86_v3::table();
#endif
    tables[count] = &baseline::table();
  }
};

}  // namespace

const Table* const* available() {
  static const Available kAvailable;
  return kAvailable.tables;
}

const Table& best() {
  return *available()[0];
}

int64_t conv_scratch(const Conv& conv) {
  // The padded image, a panel of its windows or of their gradients, and what vectors reach over.
  constexpr int64_t kPanel = 64;
  constexpr int64_t kSlack = 64;
  const int64_t forward = conv.taps() * kPanel;
  const int64_t backward = conv.positions() * (conv.out_channels + 16);
  const int64_t columns =
      conv_gradient_rows(conv) * (conv.positions() + 16) + conv.out_channels * 16;
  int64_t most = forward > backward ? forward : backward;
  if (columns > most) most = columns;
  return conv.padded_size() + most + 3 * kSlack;
}

}  // namespace muster::kernels
