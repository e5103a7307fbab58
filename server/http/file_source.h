#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/base/error.h"
#include "server/http/message.h"

namespace muster::http {

// A FileSlice being read piece by piece while it is sent. Opened only if the whole slice is there,
// so that a missing or short file is still an error response and not a broken one. One thread at a
// time. Errors: kInternal.
class FileSource {
 public:
  static Result<std::shared_ptr<FileSource>> open(const FileSlice& slice);
  ~FileSource();
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;

  std::uint64_t left() const { return left_; }
  // The next piece: `at_most` bytes or what is left.
  Result<std::string> read(std::size_t at_most);

 private:
  FileSource(int descriptor, std::uint64_t offset, std::uint64_t left)
      : descriptor_(descriptor), offset_(offset), left_(left) {}

  int descriptor_;
  std::uint64_t offset_;
  std::uint64_t left_;
};

}  // namespace muster::http
