#include "core/train/data/text_windows.h"

#include <fmt/format.h>

#include <utility>

#include "core/base/bytes.h"
#include "core/base/file.h"

namespace muster {

Vocabulary Vocabulary::ascii() {
  Vocabulary result;
  result.ids_.fill(97);
  for (int c = 0x20; c <= 0x7E; ++c) {
    result.ids_[static_cast<std::size_t>(c)] = static_cast<std::uint8_t>(c - 0x20);
  }
  result.ids_['\n'] = 95;
  result.ids_['\t'] = 96;
  result.size_ = 98;
  return result;
}

Vocabulary Vocabulary::bytes() {
  Vocabulary result;
  for (std::size_t i = 0; i < 256; ++i) result.ids_[i] = static_cast<std::uint8_t>(i);
  result.size_ = 256;
  return result;
}

Result<Vocabulary> Vocabulary::from_bytes(std::string_view content, const std::string& name) {
  const auto bad = [&](std::size_t byte, const std::string& reason) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("vocabulary {}: byte {}: {}", name, byte, reason), "bad_vocabulary"};
  };
  if (content.empty()) return bad(0, "it is empty, at least one character is wanted");
  std::array<bool, 256> seen{};
  Vocabulary result;
  // With all bytes given this is past the last id, and given to none.
  result.ids_.fill(static_cast<std::uint8_t>(content.size()));
  for (std::size_t i = 0; i < content.size(); ++i) {
    const auto byte = static_cast<unsigned char>(content[i]);
    if (std::exchange(seen[byte], true)) {
      return bad(i, fmt::format("\"{}\" is there twice", printable(content.substr(i, 1))));
    }
    result.ids_[byte] = static_cast<std::uint8_t>(i);
  }
  result.size_ = static_cast<int>(content.size()) + (content.size() < 256 ? 1 : 0);
  return result;
}

Result<Dataset> text_windows(std::string_view text, const std::string& name,
                             const Vocabulary& vocabulary, const TextOptions& options,
                             const TextLimits& limits) {
  const auto bad = [&](const std::string& reason) {
    return Error{ErrorCode::kInvalidArgument, name + ": " + reason, "bad_text"};
  };
  if (options.window < 1 || options.window > limits.window) {
    return bad(fmt::format("a window of {} characters, 1 to {} are wanted", options.window,
                           limits.window));
  }
  if (options.stride < 0) return bad(fmt::format("the stride {} is negative", options.stride));
  if (std::cmp_less(text.size(), options.window + 1)) {
    return bad(
        fmt::format("byte {}: the text ends, at least {} characters are wanted for a window "
                    "and the character after it",
                    text.size(), options.window + 1));
  }
  DatasetRows rows;
  rows.shape = {options.window};
  rows.target_size = options.window;
  rows.byte_divisor = 1;
  rows.window_stride = options.stride == 0 ? options.window : options.stride;
  rows.bytes.resize(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) rows.bytes[i] = vocabulary.id(text[i]);
  return Dataset::create(std::move(rows));
}

Result<Dataset> load_text(const std::filesystem::path& path, const TextOptions& options,
                          const TextLimits& limits) {
  Vocabulary vocabulary = Vocabulary::ascii();
  if (options.vocabulary == "bytes") {
    vocabulary = Vocabulary::bytes();
  } else if (options.vocabulary != "ascii") {
    // One byte over the most that can be without one twice.
    MUSTER_TRY_IN("vocabulary", const std::string content, read_file(options.vocabulary, 257));
    MUSTER_TRY(vocabulary, Vocabulary::from_bytes(content, options.vocabulary));
  }
  MUSTER_TRY(const std::string text, read_file(path, limits.bytes));
  return text_windows(text, path.string(), vocabulary, options, limits);
}

}  // namespace muster
