#include <algorithm>
#include <string>

#include "core/base/random.h"
#include "edge_client/agent.h"

namespace muster {

Backoff::Backoff(std::chrono::milliseconds first, std::chrono::milliseconds most,
                 std::uint64_t seed)
    : first_(first), most_(std::max(first, most)), current_(first), seed_(seed) {}

std::chrono::milliseconds Backoff::next() {
  const auto whole = current_.count();
  current_ = std::min(current_ * 2, most_);
  Random random(derive_seed(seed_, {"backoff", std::to_string(draws_++)}));
  const auto half = whole / 2;
  return std::chrono::milliseconds(
      half + static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(whole - half + 1))));
}

void Backoff::reset() {
  current_ = first_;
}

}  // namespace muster
