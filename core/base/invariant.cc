#include "core/base/invariant.h"

#include <cstdio>
#include <cstdlib>

namespace muster {

void invariant_broken(std::string_view what) {
  std::fprintf(stderr, "muster: broken invariant: %.*s\n", static_cast<int>(what.size()),
               what.data());
  std::abort();
}

}  // namespace muster
