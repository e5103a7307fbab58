#pragma once

#include <string_view>

#include "core/base/error.h"

namespace muster {

// Names that may appear in paths, logs and URLs (devices, jobs, tags, node ids): 1 to 64 of
// letters, digits,
// '.', '_' and '-', the first a letter or digit.
bool is_name(std::string_view text);

// Errors: kInvalidArgument, reason "bad_name"; `what` says which name it is ("device name").
Status check_name(std::string_view what, std::string_view text);

}  // namespace muster
