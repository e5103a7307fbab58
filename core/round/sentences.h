#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "core/round/round_settings.h"
#include "core/round/selection.h"

// The pieces of the sentences in which a round explains itself to a person.
namespace muster::sentences {

// "120 s", "0.25 s", "0 s" for a time that is over.
std::string seconds(std::chrono::milliseconds time);

// "1 device", "3 devices".
std::string counted(std::size_t count, std::string_view noun);

// "device-01, device-02", the first ten and "and 90 more"; "none".
std::string listed(std::vector<DeviceId> devices);

// " with the tags gpu, arm" for ByCapability, else empty.
std::string tags_wanted(const ClientSelection& selection);

}  // namespace muster::sentences
