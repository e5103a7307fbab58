#include "server/held_states.h"

#include <algorithm>
#include <utility>

namespace muster {

Result<std::shared_ptr<const StateDict>> HeldStates::get(const Digest& digest) {
  const std::lock_guard lock(mutex_);
  for (const Held& held : held_) {
    if (held.digest == digest) return held.state;
  }
  MUSTER_TRY(StateDict state, files_.read(digest));
  held_.push_back({digest, std::make_shared<const StateDict>(std::move(state))});
  return held_.back().state;
}

void HeldStates::keep_only(const std::vector<Digest>& digests) {
  const std::lock_guard lock(mutex_);
  std::erase_if(held_, [&](const Held& held) {
    return std::find(digests.begin(), digests.end(), held.digest) == digests.end();
  });
}

}  // namespace muster
