#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "core/base/error.h"
#include "core/train/data/dataset.h"

namespace muster {

// Which id each byte of a text has. All devices of a job use the same one, else equal ids would
// mean different characters. A character that is several bytes in UTF-8 is as many ids.
class Vocabulary {
 public:
  // 98 ids: 0 to 94 are the printable characters of ASCII from ' ' (0x20) to '~' (0x7E) in their
  // order, 95 is '\n', 96 is '\t', and 97 is "unknown", every other byte.
  static Vocabulary ascii();
  // 256 ids: each byte is its own, so there is no "unknown".
  static Vocabulary bytes();
  // The bytes of `content` in their order, from id 0; then one id more for "unknown", unless all
  // 256 bytes are there. All of `content` counts, a line end at its end too. Errors:
  // kInvalidArgument, reason "bad_vocabulary", with `name` and byte: none, or one twice.
  static Result<Vocabulary> from_bytes(std::string_view content, const std::string& name);

  std::uint8_t id(char byte) const { return ids_[static_cast<unsigned char>(byte)]; }
  // How many ids there are, "unknown" included; at most 256.
  int size() const { return size_; }

 private:
  Vocabulary() = default;
  std::array<std::uint8_t, 256> ids_{};
  int size_ = 0;
};

struct TextOptions {
  std::int64_t window = 80;          // ids of an example
  std::int64_t stride = 0;           // from the beginning of one example to the next; 0: the window
  std::string vocabulary = "ascii";  // or "bytes", or a file for Vocabulary::from_bytes
};

struct TextLimits {
  std::uint64_t bytes = std::uint64_t{1} << 31;
  std::int64_t window = 1'000'000;
};

// Cuts a text into windows: example i has the shape [window] and holds the ids of the characters
// from i * stride on; its targets are as many labels, at each position the id of the next
// character. What is too short for a last window is left out. The text is held once, a byte for
// each character, however much the windows overlap. Errors: kInvalidArgument, reason "bad_text":
// fewer than window + 1 characters; options out of range.
Result<Dataset> text_windows(std::string_view text, const std::string& name,
                             const Vocabulary& vocabulary, const TextOptions& options,
                             const TextLimits& limits = {});

// The same of a file, with the vocabulary that the options name.
// Errors: as above, read_file and Vocabulary::from_bytes.
Result<Dataset> load_text(const std::filesystem::path& path, const TextOptions& options,
                          const TextLimits& limits = {});

}  // namespace muster
