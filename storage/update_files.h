#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/base/digest.h"
#include "core/base/error.h"
#include "core/base/file.h"

namespace muster {

// The bodies of accepted updates while their round is open:
// <root>/<job>/<round>-<attempt>/<device>.<sha256>.safetensors. A file under its name is complete
// and durable. The whole folder goes once the round is committed or abandoned, so one job's
// clean-up can never touch what another job, or the state store, still needs.
//
// Owned by the server. Safe to call from any thread. Job and device are checked names
// (core/base/names.h).
class UpdateFiles {
 public:
  explicit UpdateFiles(std::filesystem::path root) : root_(std::move(root)) {}

  struct Key {
    std::string job;
    std::int64_t round = 0;
    std::int64_t attempt = 1;
    std::string device;
    Digest digest;
  };

  // Makes the folder of a round, durably; before its devices are invited.
  Status prepare_round(const std::string& job, std::int64_t round, std::int64_t attempt) const;
  // Flushes a spooled file, so that `adopt` takes no time.
  static Status flush(const std::filesystem::path& spooled);
  // Takes a spooled file of the same file system into a prepared round: fsync, rename, fsync of the
  // folder. Errors: kResourceExhausted, reason "disk_full"; kUnavailable.
  Status adopt(const std::filesystem::path& spooled, const Key& key) const;
  // Errors: kNotFound, reason "artefact_missing".
  Result<MappedFile> map(const Key& key) const;
  void remove(const Key& key) const;
  // Removes every round's folder but those named: what a server that was killed between a commit
  // and its clean-up left behind.
  struct OpenRound {
    std::string job;
    std::int64_t round = 0;
    std::int64_t attempt = 1;
  };
  void keep_only(const std::vector<OpenRound>& open) const;
  void remove_round(const std::string& job, std::int64_t round, std::int64_t attempt) const;

 private:
  std::filesystem::path folder_of(const std::string& job, std::int64_t round,
                                  std::int64_t attempt) const;
  std::filesystem::path path_of(const Key& key) const;
  std::filesystem::path root_;
};

}  // namespace muster
