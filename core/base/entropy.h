#pragma once

#include <cstddef>
#include <string>

#include "core/base/error.h"

namespace muster {

// `bytes` bytes from the system's random source (getrandom), as lower-case hexadecimal: for
// identifiers that nobody may guess. Errors: kInternal when the system has none.
Result<std::string> random_hex(std::size_t bytes);

}  // namespace muster
