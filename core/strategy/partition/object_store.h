#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <utility>

#include "core/base/bytes.h"
#include "core/base/digest.h"
#include "core/base/error.h"

namespace muster {

// Objects by the SHA-256 of their bytes, each for as many takers as were announced.
//
// Owned by the embedding program; outlives the runs that use it. Any thread may call.
class ObjectStore {
 public:
  virtual ~ObjectStore() = default;

  // Keeps the bytes for `takers` calls of `take`, 1 or more. Equal bytes are kept once, for all
  // that were announced. Errors: kResourceExhausted, reason "store_full" or "disk_full"; those of
  // the disk.
  virtual Result<Digest> put(ByteView bytes, std::int64_t takers) = 0;

  // The bytes; they are gone after the last taker.
  // Errors: kNotFound, reason "no_object"; kDataLoss, reason "damaged", when what is stored is not
  // what was put (it counts as taken).
  virtual Result<Bytes> take(const Digest& digest) = 0;

  // For takers that do not come. More than there are, or an unknown object, is nothing.
  virtual void drop(const Digest& digest, std::int64_t takers) = 0;
};

// In memory.
class MemoryObjectStore final : public ObjectStore {
 public:
  explicit MemoryObjectStore(std::uint64_t limit_bytes = std::uint64_t{1} << 34)
      : limit_bytes_(limit_bytes) {}

  Result<Digest> put(ByteView bytes, std::int64_t takers) override;
  Result<Bytes> take(const Digest& digest) override;
  void drop(const Digest& digest, std::int64_t takers) override;

  // How many objects there are, and their bytes.
  std::size_t size() const;
  std::uint64_t size_bytes() const;

 private:
  struct Object {
    Bytes bytes;
    std::int64_t takers = 0;
  };
  std::uint64_t limit_bytes_;
  mutable std::mutex mutex_;
  std::map<Digest, Object> objects_;  // guarded by mutex_
  std::uint64_t size_bytes_ = 0;      // guarded by mutex_
};

// As files of a folder, which are called by their digests: what does not fit memory. They are not
// meant to outlive the process, so nothing is flushed; the destructor removes those that are left.
class FolderObjectStore final : public ObjectStore {
 public:
  // The folder exists, and nobody else writes to it.
  explicit FolderObjectStore(std::filesystem::path folder) : folder_(std::move(folder)) {}
  ~FolderObjectStore() override;
  FolderObjectStore(const FolderObjectStore&) = delete;
  FolderObjectStore& operator=(const FolderObjectStore&) = delete;

  Result<Digest> put(ByteView bytes, std::int64_t takers) override;
  Result<Bytes> take(const Digest& digest) override;
  void drop(const Digest& digest, std::int64_t takers) override;

 private:
  struct Object {
    std::uint64_t size = 0;
    std::int64_t takers = 0;
  };
  std::filesystem::path path_of(const Digest& digest) const { return folder_ / digest.hex(); }

  std::filesystem::path folder_;
  std::mutex mutex_;
  std::map<Digest, Object> objects_;  // guarded by mutex_, as are their files
};

}  // namespace muster
