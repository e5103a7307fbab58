#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "core/base/digest.h"
#include "core/base/error.h"
#include "server/http/message.h"

namespace muster::http {

// A body on its way into a file. One object is one new file of mode 0600 in the spool folder,
// removed with the object unless `finish` handed it on. Order of calls: open, append*, finish. One
// thread at a time. Errors: kResourceExhausted, reason "disk_full" (no space, quota or file size
// limit); kUnavailable, reason "spool_failed" (anything else). Messages name the call and its errno
// text, never a path.
class SpoolFile {
 public:
  static Result<std::shared_ptr<SpoolFile>> open(const std::filesystem::path& folder,
                                                 const std::string& name);
  ~SpoolFile();
  SpoolFile(const SpoolFile&) = delete;
  SpoolFile& operator=(const SpoolFile&) = delete;

  Status append(std::string_view bytes);
  // Closes the file. Not flushed to the disk: that is for whoever keeps it.
  Result<std::shared_ptr<SpooledBody>> finish();

 private:
  SpoolFile(std::filesystem::path path, int descriptor)
      : path_(std::move(path)), descriptor_(descriptor) {}

  std::filesystem::path path_;
  int descriptor_;
  std::uint64_t bytes_ = 0;
  Sha256 hash_;
};

}  // namespace muster::http
