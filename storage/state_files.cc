#include "storage/state_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <span>
#include <utility>

#include "core/base/descriptor.h"
#include "core/tensor/safetensors.h"
#include "storage/folders.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

static_assert(std::endian::native == std::endian::little,
              "a state's buffer is written as it is, and safetensors is little-endian");

constexpr std::size_t kPieceBytes = std::size_t{4} << 20;  // hashed while it is in the cache

// Unlinks a spool file when it goes, unless it was moved away.
class SpoolFile {
 public:
  explicit SpoolFile(fs::path path) : path_(std::move(path)) {}
  ~SpoolFile() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  SpoolFile(const SpoolFile&) = delete;
  SpoolFile& operator=(const SpoolFile&) = delete;
  const fs::path& path() const { return path_; }
  void moved() { path_.clear(); }

 private:
  fs::path path_;
};

Status write_hashed(int descriptor, ByteView bytes, const fs::path& path, Sha256& hash) {
  for (std::size_t begin = 0; begin < bytes.size(); begin += kPieceBytes) {
    const ByteView piece = bytes.subspan(begin, std::min(kPieceBytes, bytes.size() - begin));
    hash.update(piece);
    if (const int error = write_all(descriptor, piece); error != 0) {
      return error_of_errno("write", path, error);
    }
  }
  return {};
}

// Flushes a file and takes the right to write to it away: what a digest names does not change.
Status seal(const fs::path& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (file.number() < 0) return error_of_errno("open", path, errno);
  if (::fchmod(file.number(), 0400) != 0) return error_of_errno("protect", path, errno);
  if (::fsync(file.number()) != 0) return error_of_errno("flush", path, errno);
  return {};
}

Result<std::uint64_t> regular_file_size(const fs::path& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) return error_of_errno("look at", path, errno);
  if (!S_ISREG(found.st_mode)) return error_of_errno("look at", path, ENOENT);
  return static_cast<std::uint64_t>(found.st_size);
}

Error missing(const fs::path& path) {
  return {ErrorCode::kNotFound,
          fmt::format("the state {} is not on the disk any more; restore its file from a back-up",
                      path.stem().string()),
          "artefact_missing"};
}

Error missing_if_not_found(Error error, const fs::path& path) {
  return error.code == ErrorCode::kNotFound ? missing(path) : std::move(error);
}

}  // namespace

Result<StateFiles> StateFiles::open(const fs::path& root) {
  const fs::path spool = root / "spool";
  MUSTER_TRY_STATUS(make_private_folder(root));
  MUSTER_TRY_STATUS(check_not_writable_by_others(root));
  MUSTER_TRY_STATUS(make_private_folder(spool));
  MUSTER_TRY_STATUS(check_not_writable_by_others(spool));
  MUSTER_TRY_STATUS(sync_folder(root));
  std::error_code error;
  for (fs::directory_iterator entry(spool, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code of_entry;
    fs::remove_all(entry->path(), of_entry);
    if (of_entry) return error_of_errno("remove", entry->path(), of_entry.value());
  }
  if (error) return error_of_errno("empty", spool, error.value());
  return StateFiles(root);
}

fs::path StateFiles::spool_folder() const {
  return root_ / "spool";
}

fs::path StateFiles::spool_path() const {
  std::array<std::byte, 16> name{};
  // Reads of up to 256 bytes are never cut short (getrandom(2)).
  while (::getrandom(name.data(), name.size(), 0) != static_cast<ssize_t>(name.size())) {
  }
  return spool_folder() / hex_encode(name);
}

Result<Digest> StateFiles::write(const StateDict& state) const {
  SpoolFile spooled(spool_path());
  Sha256 hash;
  {
    const Descriptor file(
        ::open(spooled.path().c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600));
    if (file.number() < 0) return error_of_errno("make", spooled.path(), errno);
    const std::string header = safetensors_header(state.layout());
    MUSTER_TRY_STATUS(write_hashed(file.number(), as_bytes(header), spooled.path(), hash));
    MUSTER_TRY_STATUS(
        write_hashed(file.number(), std::as_bytes(state.values()), spooled.path(), hash));
  }
  const Digest digest = hash.finish();
  const fs::path path = spooled.path();
  spooled.moved();
  MUSTER_TRY_STATUS(adopt(path, digest));
  return digest;
}

Status StateFiles::adopt(const fs::path& spooled_path, const Digest& digest) const {
  SpoolFile spooled(spooled_path);
  const fs::path target = path_of(digest);
  MUSTER_TRY(const std::uint64_t bytes, regular_file_size(spooled.path()));
  const Result<std::uint64_t> present = regular_file_size(target);
  // A file of another length under this name is damage: the new one takes its place.
  if (!present || *present != bytes) {
    MUSTER_TRY_STATUS(seal(spooled.path()));
    if (::rename(spooled.path().c_str(), target.c_str()) != 0) {
      return error_of_errno("move into place", target, errno);
    }
    spooled.moved();
  }
  // Also for a file that was there: who renamed it may have died before this line.
  return sync_folder(root_);
}

bool StateFiles::has(const Digest& digest) const {
  return regular_file_size(path_of(digest)).has_value();
}

fs::path StateFiles::path_of(const Digest& digest) const {
  return root_ / (digest.hex() + ".safetensors");
}

Result<MappedFile> StateFiles::map(const Digest& digest) const {
  const fs::path path = path_of(digest);
  if (!has(digest)) return missing(path);
  Result<MappedFile> file = MappedFile::open(path);
  if (!file) return missing_if_not_found(std::move(file).error(), path);
  return file;
}

Result<std::uint64_t> StateFiles::size_of(const Digest& digest) const {
  const fs::path path = path_of(digest);
  Result<std::uint64_t> size = regular_file_size(path);
  if (!size) return missing_if_not_found(std::move(size).error(), path);
  return size;
}

Result<StateDict> StateFiles::read(const Digest& digest) const {
  MUSTER_TRY(const MappedFile file, map(digest));
  const Digest found = sha256(file.bytes());
  if (found != digest) {
    return Error{ErrorCode::kDataLoss,
                 fmt::format("the state file {} is damaged: its bytes have the SHA-256 {}; restore "
                             "it from a back-up",
                             path_of(digest).string(), found.hex()),
                 "state_damaged"};
  }
  return read_state(file.bytes());
}

Status StateFiles::remove(const Digest& digest) const {
  const fs::path path = path_of(digest);
  if (::unlink(path.c_str()) != 0) {
    return missing_if_not_found(error_of_errno("remove", path, errno), path);
  }
  return sync_folder(root_);
}

}  // namespace muster
