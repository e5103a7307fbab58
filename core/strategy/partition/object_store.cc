#include "core/strategy/partition/object_store.h"

#include <fmt/format.h>

#include <fstream>
#include <string>
#include <system_error>
#include <utility>

#include "core/base/file.h"

namespace muster {
namespace {

Error no_object(const Digest& digest) {
  return {ErrorCode::kNotFound, "object store: there is no object " + digest.hex(), "no_object"};
}

Status check_bytes(const Digest& digest, ByteView bytes) {
  const Digest found = sha256(bytes);
  if (found == digest) return {};
  return Error{ErrorCode::kDataLoss,
               fmt::format("object store: the object {} has bytes whose digest is {}", digest.hex(),
                           found.hex()),
               "damaged"};
}

Status write_file(const std::filesystem::path& path, ByteView bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(as_text(bytes).data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (file) return {};
  return Error{ErrorCode::kResourceExhausted,
               fmt::format("object store: {} bytes cannot be written to {}", bytes.size(),
                           path.parent_path().string()),
               "disk_full"};
}

}  // namespace

Result<Digest> MemoryObjectStore::put(ByteView bytes, std::int64_t takers) {
  const Digest digest = sha256(bytes);
  const std::lock_guard lock(mutex_);
  const auto found = objects_.find(digest);
  if (found != objects_.end()) {
    found->second.takers += takers;
    return digest;
  }
  if (bytes.size() > limit_bytes_ - size_bytes_) {
    return Error{ErrorCode::kResourceExhausted,
                 fmt::format("object store: {} bytes more than its {} are over the limit {}",
                             bytes.size(), size_bytes_, limit_bytes_),
                 "store_full"};
  }
  size_bytes_ += bytes.size();
  objects_[digest] = {.bytes = {bytes.begin(), bytes.end()}, .takers = takers};
  return digest;
}

Result<Bytes> MemoryObjectStore::take(const Digest& digest) {
  const std::lock_guard lock(mutex_);
  const auto found = objects_.find(digest);
  if (found == objects_.end()) return no_object(digest);
  if (--found->second.takers > 0) return found->second.bytes;
  Bytes bytes = std::move(found->second.bytes);
  size_bytes_ -= bytes.size();
  objects_.erase(found);
  return bytes;
}

void MemoryObjectStore::drop(const Digest& digest, std::int64_t takers) {
  const std::lock_guard lock(mutex_);
  const auto found = objects_.find(digest);
  if (found == objects_.end()) return;
  found->second.takers -= takers;
  if (found->second.takers > 0) return;
  size_bytes_ -= found->second.bytes.size();
  objects_.erase(found);
}

std::size_t MemoryObjectStore::size() const {
  const std::lock_guard lock(mutex_);
  return objects_.size();
}
std::uint64_t MemoryObjectStore::size_bytes() const {
  const std::lock_guard lock(mutex_);
  return size_bytes_;
}

FolderObjectStore::~FolderObjectStore() {
  std::error_code ignored;
  for (const auto& [digest, object] : objects_) std::filesystem::remove(path_of(digest), ignored);
}

Result<Digest> FolderObjectStore::put(ByteView bytes, std::int64_t takers) {
  const Digest digest = sha256(bytes);
  const std::lock_guard lock(mutex_);
  const auto found = objects_.find(digest);
  if (found != objects_.end()) {
    found->second.takers += takers;
    return digest;
  }
  if (Status written = write_file(path_of(digest), bytes); !written) {
    std::error_code ignored;
    std::filesystem::remove(path_of(digest), ignored);
    return std::move(written).error();
  }
  objects_[digest] = {.size = bytes.size(), .takers = takers};
  return digest;
}

Result<Bytes> FolderObjectStore::take(const Digest& digest) {
  const std::lock_guard lock(mutex_);
  const auto found = objects_.find(digest);
  if (found == objects_.end()) return no_object(digest);
  const Result<std::string> text = read_file(path_of(digest), found->second.size);
  if (--found->second.takers == 0) {
    std::error_code ignored;
    std::filesystem::remove(path_of(digest), ignored);
    objects_.erase(found);
  }
  if (!text) {
    return Error{ErrorCode::kDataLoss, "object store: " + text.error().message, "damaged"};
  }
  const ByteView bytes = as_bytes(*text);
  MUSTER_TRY_STATUS(check_bytes(digest, bytes));
  return Bytes(bytes.begin(), bytes.end());
}

void FolderObjectStore::drop(const Digest& digest, std::int64_t takers) {
  const std::lock_guard lock(mutex_);
  const auto found = objects_.find(digest);
  if (found == objects_.end()) return;
  found->second.takers -= takers;
  if (found->second.takers > 0) return;
  std::error_code ignored;
  std::filesystem::remove(path_of(digest), ignored);
  objects_.erase(found);
}

}  // namespace muster
