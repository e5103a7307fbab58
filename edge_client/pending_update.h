#pragma once

#include <filesystem>
#include <optional>
#include <span>

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/protocol/messages.h"
#include "edge_client/kept_states.h"

namespace muster {

// The one trained update that the server has not acknowledged yet, on disk, so that it outlives the
// process: its body as it travels, what the device keeps once the server has it (KeptStates), and
// statement.json, written last and removed first. One object a folder. After an error the folder
// holds the update whole or none.
//
// With the receipt, `accept` first renames the statement to accepted.json, then moves the kept
// states to their job, then removes the rest. Whatever a crash interrupts is gone on with by
// `read`: before the rename the update is sent again and gets its receipt again, after it only the
// moving is left.
class PendingUpdate {
 public:
  // Makes the folder where needed.
  //   kept  where states go that are kept; on the same file system
  static Result<PendingUpdate> open(const std::filesystem::path& folder, KeptStates kept);

  // What waits in a folder, for whoever only wants to know; changes nothing.
  static std::optional<protocol::UpdateStatement> look(const std::filesystem::path& folder);

  // What is there and is to be sent. Ends an `accept` that was interrupted. A body that is missing
  // or does not have the statement's digest: everything is removed and nothing comes back.
  std::optional<protocol::UpdateStatement> read() const;

  // Replaces what is there. Fills in the statement's digest, that of the body. Durable when it
  // returns.
  //   kept  at most one of each kind
  Status write(protocol::UpdateStatement& statement, ByteView body,
               std::span<const KeptState> kept = {}) const;

  // The server has the update of this job. Errors: the states could not be kept; then nothing is
  // left here, and nothing is kept of the job, as what was kept before has been used.
  Status accept(const std::string& job) const;

  std::filesystem::path body() const;
  // Drops the update and what was to be kept with it; what was kept before stays.
  void remove() const;

 private:
  PendingUpdate(std::filesystem::path folder, KeptStates kept)
      : folder_(std::move(folder)), kept_(std::move(kept)) {}
  Status finish_accept(const std::string& job) const;

  std::filesystem::path folder_;
  KeptStates kept_;
};

// Keeps the `keep` newest states of a folder and removes the others, and what broken downloads
// left.
void remove_old_states(const std::filesystem::path& folder, std::size_t keep);

}  // namespace muster
