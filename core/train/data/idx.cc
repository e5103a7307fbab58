#include "core/train/data/idx.h"

#include <zlib.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <span>

#include "core/base/file.h"

namespace muster {
namespace {

// Deflate makes at most 1032 bytes of one (zlib's technical notes, "Maximum Compression Factor").
constexpr std::uint64_t kMaxExpansion = 1032;

// Gives the bytes of a file in order, unpacked.
class Source {
 public:
  Source() = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;
  virtual ~Source() = default;
  // Fills `out` as far as there is content; how much it was. Errors: the content is damaged.
  virtual Result<std::size_t> read(std::span<std::uint8_t> out) = 0;
  // The most that can still come.
  virtual std::uint64_t most_left() const = 0;
  // Bytes after the end of the content; only after a read that came up short.
  virtual std::uint64_t left_over() const = 0;
};

class PlainSource final : public Source {
 public:
  explicit PlainSource(ByteView content) : content_(content) {}

  Result<std::size_t> read(std::span<std::uint8_t> out) override {
    const std::size_t count = std::min(out.size(), content_.size());
    if (count > 0) std::memcpy(out.data(), content_.data(), count);
    content_ = content_.subspan(count);
    return count;
  }
  std::uint64_t most_left() const override { return content_.size(); }
  std::uint64_t left_over() const override { return 0; }

 private:
  ByteView content_;
};

class GzipSource final : public Source {
 public:
  explicit GzipSource(ByteView content) : content_(content) {
    // 16: a gzip header and trailer are wanted, and the checksum is held to.
    usable_ = inflateInit2(&stream_, 16 + MAX_WBITS) == Z_OK;
  }
  ~GzipSource() override {
    if (usable_) inflateEnd(&stream_);
  }

  Result<std::size_t> read(std::span<std::uint8_t> out) override {
    if (!usable_) return Error{ErrorCode::kInternal, "zlib does not start"};
    std::size_t done = 0;
    while (done < out.size() && !ended_) {
      const std::size_t given =
          std::min<std::size_t>(content_.size(), std::numeric_limits<uInt>::max());
      const std::size_t room =
          std::min<std::size_t>(out.size() - done, std::numeric_limits<uInt>::max());
      // zlib does not write to its input.
      stream_.next_in =
          const_cast<Bytef*>(reinterpret_cast<const Bytef*>(content_.data()));  // NOLINT
      stream_.avail_in = static_cast<uInt>(given);
      stream_.next_out = out.data() + done;
      stream_.avail_out = static_cast<uInt>(room);
      const int code = inflate(&stream_, Z_NO_FLUSH);
      const std::size_t taken = given - stream_.avail_in;
      const std::size_t made = room - stream_.avail_out;
      content_ = content_.subspan(taken);
      taken_ += taken;
      done += made;
      if (code == Z_STREAM_END) {
        ended_ = true;
      } else if (code != Z_OK && code != Z_BUF_ERROR) {
        return damaged(stream_.msg != nullptr ? stream_.msg : "damaged");
      } else if (taken == 0 && made == 0) {
        return damaged("ends too early");
      }
    }
    return done;
  }
  std::uint64_t most_left() const override {
    // What zlib has taken in already may still be held back in its window.
    return ended_ ? 0 : (content_.size() + 1) * kMaxExpansion + (1 << 16);
  }
  std::uint64_t left_over() const override { return content_.size(); }

 private:
  Error damaged(const std::string& what) const {
    return {ErrorCode::kInvalidArgument,
            "gzip data at byte " + std::to_string(taken_) + ": " + what, "bad_idx"};
  }

  ByteView content_;
  z_stream stream_{};
  bool usable_ = false;
  bool ended_ = false;
  std::uint64_t taken_ = 0;
};

// Reads one array; `at` counts unpacked bytes.
class IdxReader {
 public:
  IdxReader(Source& source, const std::string& name, const IdxLimits& limits)
      : source_(source), name_(name), limits_(limits) {}

  Result<IdxArray> read() {
    std::uint8_t magic[4] = {};
    MUSTER_TRY_STATUS(fill(magic, "the magic number"));
    if (magic[0] != 0 || magic[1] != 0) return bad(0, "the first two bytes are not 0");
    if (magic[2] != 0x08) {
      return bad(2, "type " + std::to_string(magic[2]) + " found, 8 (unsigned byte) is wanted");
    }
    if (magic[3] < 1 || magic[3] > limits_.rank) {
      return bad(3, std::to_string(magic[3]) + " dimensions found, 1 to " +
                        std::to_string(limits_.rank) + " are wanted");
    }
    IdxArray array;
    std::uint64_t total = 1;
    for (int i = 0; i < magic[3]; ++i) {
      const std::uint64_t at = at_;
      std::uint8_t b[4] = {};
      MUSTER_TRY_STATUS(fill(b, "dimension " + std::to_string(i)));
      const std::uint64_t size = std::uint64_t{b[0]} << 24 | std::uint64_t{b[1]} << 16 |
                                 std::uint64_t{b[2]} << 8 | std::uint64_t{b[3]};
      array.shape.push_back(static_cast<std::int64_t>(size));
      // total <= 2^32 and size < 2^32 before the product.
      total *= size;
      if (total > limits_.bytes) {
        return bad(at, "shape " + to_string(array.shape) + " is over the limit of " +
                           std::to_string(limits_.bytes) + " bytes");
      }
    }
    if (total > source_.most_left()) {
      return bad(at_, "the header promises " + std::to_string(total) + " bytes, at most " +
                          std::to_string(source_.most_left()) + " can follow");
    }
    array.bytes.resize(static_cast<std::size_t>(total));
    MUSTER_TRY_STATUS(fill(array.bytes, "the values"));
    std::uint8_t more = 0;
    MUSTER_TRY_IN(name_, const std::size_t extra, source_.read({&more, 1}));
    if (extra > 0 || source_.left_over() > 0) {
      return bad(at_, "the file goes on after the last value");
    }
    return array;
  }

 private:
  Status fill(std::span<std::uint8_t> out, const std::string& what) {
    MUSTER_TRY_IN(name_, const std::size_t count, source_.read(out));
    if (count < out.size()) {
      return bad(at_ + count, "the file ends in " + what + ": " + std::to_string(count) + " of " +
                                  std::to_string(out.size()) + " bytes are there");
    }
    at_ += count;
    return {};
  }

  Error bad(std::uint64_t byte, const std::string& reason) const {
    return {ErrorCode::kInvalidArgument, name_ + ": byte " + std::to_string(byte) + ": " + reason,
            "bad_idx"};
  }

  Source& source_;
  const std::string& name_;
  const IdxLimits& limits_;
  std::uint64_t at_ = 0;
};

Result<IdxArray> load_array(const std::filesystem::path& path) {
  MUSTER_TRY(const std::string content, read_file(path, IdxLimits{}.bytes + (1 << 16)));
  return parse_idx(as_bytes(content), path.string());
}

}  // namespace

Result<IdxArray> parse_idx(ByteView content, const std::string& name, const IdxLimits& limits) {
  const bool packed =
      content.size() >= 2 && content[0] == std::byte{0x1f} && content[1] == std::byte{0x8b};
  if (packed) {
    GzipSource source(content);
    return IdxReader(source, name, limits).read();
  }
  PlainSource source(content);
  return IdxReader(source, name, limits).read();
}

Result<Dataset> load_idx(const std::filesystem::path& images, const std::filesystem::path& labels,
                         float scale) {
  MUSTER_TRY(IdxArray features, load_array(images));
  MUSTER_TRY(const IdxArray targets, load_array(labels));
  const auto bad = [](const std::filesystem::path& path, const std::string& reason) {
    return Error{ErrorCode::kInvalidArgument, path.string() + ": byte 3: " + reason, "bad_idx"};
  };
  if (features.shape.size() < 2) {
    return bad(images, "shape " + to_string(features.shape) +
                           " found, images want at least two dimensions");
  }
  if (targets.shape.size() != 1) {
    return bad(labels, "shape " + to_string(targets.shape) + " found, labels want one dimension");
  }
  if (features.shape[0] != targets.shape[0]) {
    return Error{ErrorCode::kInvalidArgument,
                 images.string() + " has " + std::to_string(features.shape[0]) + " images, but " +
                     labels.string() + " has " + std::to_string(targets.shape[0]) + " labels",
                 "bad_idx"};
  }
  if (features.bytes.empty()) return bad(images, "it has no images");
  DatasetRows rows;
  rows.shape.assign(features.shape.begin() + 1, features.shape.end());
  rows.bytes = std::move(features.bytes);
  rows.byte_divisor = scale;
  rows.labels.assign(targets.bytes.begin(), targets.bytes.end());
  return Dataset::create(std::move(rows));
}

}  // namespace muster
