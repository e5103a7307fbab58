#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/base/digest.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/tensor/state.h"

namespace muster {

// States as content-addressed files beside the database: <root>/<sha256>.safetensors, and a spool
// folder for bodies that are still arriving. A file under its digest is complete and durable, or
// not there: it is written under spool/, flushed and renamed, and the row that names it comes
// after.
//
// Owned by the server, one object a root. Safe to call from any thread.
class StateFiles {
 public:
  // Makes the folders where missing and empties the spool (what is there belongs to requests that
  // died).
  // Errors: kFailedPrecondition, reason "insecure_folder" when others may write to root or spool.
  static Result<StateFiles> open(const std::filesystem::path& root);

  // The canonical file of a state, streamed from its buffer; returns the digest of the bytes
  // written. What is there already is not flushed again.
  // Errors: kResourceExhausted, reason "disk_full"; kUnavailable, "store_unavailable" (read-only
  // disk); kDataLoss, "store_sync_failed". After an error the spool file is gone.
  Result<Digest> write(const StateDict& state) const;

  // For files that are being written and for those without a name; emptied by `open`.
  std::filesystem::path spool_folder() const;
  // A fresh path in the spool for one arriving body.
  std::filesystem::path spool_path() const;
  // Takes a spooled file into the store under `digest`, which the caller has computed over its
  // bytes: fsync, rename, fsync of folder. The spooled file is gone afterwards, also on an error.
  // Errors: as write.
  Status adopt(const std::filesystem::path& spooled, const Digest& digest) const;

  bool has(const Digest& digest) const;
  std::filesystem::path path_of(const Digest& digest) const;
  // Errors: kNotFound, reason "artefact_missing".
  Result<MappedFile> map(const Digest& digest) const;
  // Size in bytes. Errors: as map.
  Result<std::uint64_t> size_of(const Digest& digest) const;
  // Reads a state and checks that its bytes have the digest they are named by.
  // Errors: as map; kDataLoss, reason "state_damaged"; as read_state (core/tensor/safetensors.h).
  Result<StateDict> read(const Digest& digest) const;
  // Errors: as map.
  Status remove(const Digest& digest) const;

 private:
  explicit StateFiles(std::filesystem::path root) : root_(std::move(root)) {}
  std::filesystem::path root_;
};

}  // namespace muster
