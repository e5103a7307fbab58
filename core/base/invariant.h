#pragma once

#include <string_view>

namespace muster {

// Stops the process with a message on standard error. Only for an invariant of our own that does
// not hold (a caller broke a documented precondition, a library that cannot fail did); bytes from
// outside never lead here.
[[noreturn]] void invariant_broken(std::string_view what);

}  // namespace muster
