#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "core/base/bytes.h"
#include "core/base/error.h"

namespace muster {

// A whole file, refused when longer than `limit_bytes`.
Result<std::string> read_file(const std::filesystem::path& path, std::uint64_t limit_bytes);

// Replaces a file so that after a power cut either the old or the new content is there: temporary
// file in the same folder with `mode`, write, fsync, rename, fsync of the folder.
Status write_file_durably(const std::filesystem::path& path, ByteView content, mode_t mode = 0644);

// Flushes a folder's entries to the disk.
Status sync_folder(const std::filesystem::path& folder);

// Refuses a private file (key, token) that is no regular file, is owned by another user, or that
// others can read. The message names the file and the wanted mode.
Status check_private_file(const std::filesystem::path& path);

// A read-only memory map of a file; empty files give an empty view. Movable; unmaps when destroyed.
class MappedFile {
 public:
  static Result<MappedFile> open(const std::filesystem::path& path);
  // Of a file that is open, whatever its name; the descriptor stays the caller's.
  //   name  for error messages
  static Result<MappedFile> of_descriptor(int descriptor, const std::filesystem::path& name);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  ByteView bytes() const { return {data_, size_}; }
  // The pages of [begin, begin + count), and what touching them brought in around them, are not
  // needed soon: they no longer count to the process and are mapped again when they are touched.
  // Any thread.
  void release(std::size_t begin, std::size_t count) const;

 private:
  MappedFile(const std::byte* data, std::size_t size) : data_(data), size_(size) {}
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// An exclusive lock on a file, held while the object lives (flock); the kernel frees it when the
// process ends. Errors: kFailedPrecondition, reason "locked", when another process holds it.
class FileLock {
 public:
  static Result<FileLock> acquire(const std::filesystem::path& path);
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&& other) noexcept;
  ~FileLock();

 private:
  explicit FileLock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_ = -1;
};

}  // namespace muster
