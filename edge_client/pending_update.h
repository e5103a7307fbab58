#pragma once

#include <filesystem>
#include <optional>

#include "core/base/error.h"
#include "core/protocol/messages.h"
#include "core/tensor/state.h"

namespace muster {

// The one trained update that the server has not acknowledged yet, on disk, so that it outlives the
// process: its body (the canonical safetensors file) and statement.json, written last and removed
// first. One object a folder. After an error the folder holds the update whole or none.
class PendingUpdate {
 public:
  // Makes the folder where needed.
  static Result<PendingUpdate> open(const std::filesystem::path& folder);

  // What waits in a folder, for whoever only wants to know; changes nothing.
  static std::optional<protocol::UpdateStatement> look(const std::filesystem::path& folder);

  // What is there. A body that is missing or does not have the statement's digest: everything is
  // removed and nothing comes back.
  std::optional<protocol::UpdateStatement> read() const;

  // Replaces what is there. Fills in the statement's digest. Durable when it returns.
  Status write(protocol::UpdateStatement& statement, const StateDict& state);

  std::filesystem::path body() const;
  void remove() const;

 private:
  explicit PendingUpdate(std::filesystem::path folder) : folder_(std::move(folder)) {}
  std::filesystem::path folder_;
};

// Keeps the `keep` newest states of a folder and removes the others, and what broken downloads
// left.
void remove_old_states(const std::filesystem::path& folder, std::size_t keep);

}  // namespace muster
