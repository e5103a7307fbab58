#include "core/train/data/npy.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

#include "core/base/file.h"

namespace muster {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

struct DtypeRow {
  std::string_view code;  // without the byte order
  Dtype dtype;
};
constexpr std::array<DtypeRow, 12> kDtypes{{{"b1", Dtype::kBool},
                                            {"i1", Dtype::kI8},
                                            {"u1", Dtype::kU8},
                                            {"i2", Dtype::kI16},
                                            {"u2", Dtype::kU16},
                                            {"f2", Dtype::kF16},
                                            {"i4", Dtype::kI32},
                                            {"u4", Dtype::kU32},
                                            {"f4", Dtype::kF32},
                                            {"i8", Dtype::kI64},
                                            {"u8", Dtype::kU64},
                                            {"f8", Dtype::kF64}}};
constexpr std::string_view kKnownDtypes =
    "|b1, |i1, |u1, and i2, i4, i8, u2, u4, u8, f2, f4 or f8 with < or >";

// Reads the header's dictionary. `at_` counts bytes of the file.
class NpyReader {
 public:
  NpyReader(ByteView file, const std::string& name, const NpyLimits& limits)
      : file_(file), text_(as_text(file)), name_(name), limits_(limits) {}

  Result<FileArray> read() {
    MUSTER_TRY_STATUS(read_preamble());
    FileArray array;
    array.name = name_;
    MUSTER_TRY_STATUS(read_dictionary(array));
    MUSTER_TRY_STATUS(read_padding());
    array.begin = end_;
    array.data = file_.subspan(end_);
    MUSTER_TRY_STATUS(check_length(array));
    return array;
  }

 private:
  Error bad(std::size_t byte, const std::string& reason) const {
    return {ErrorCode::kInvalidArgument, fmt::format("{}: byte {}: {}", name_, byte, reason),
            "bad_npy"};
  }

  std::uint64_t little_endian(std::size_t at, std::size_t bytes) const {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < bytes; ++i) {
      value |= std::to_integer<std::uint64_t>(file_[at + i]) << (8 * i);
    }
    return value;
  }

  // Magic, version and length: at_ and end_ bound the header.
  Status read_preamble() {
    const std::string_view found = text_.substr(0, kMagic.size());
    if (found != kMagic) {
      return bad(0, fmt::format("\"{}\" found, the magic number \"{}\" is wanted", printable(found),
                                printable(kMagic)));
    }
    if (file_.size() < 8) return bad(file_.size(), "the file ends in the version");
    const auto major = std::to_integer<int>(file_[6]);
    const auto minor = std::to_integer<int>(file_[7]);
    if (major < 1 || major > 3 || minor != 0) {
      return bad(6, fmt::format("version {}.{} found, 1.0, 2.0 or 3.0 is wanted", major, minor));
    }
    const std::size_t length_bytes = major == 1 ? 2 : 4;
    at_ = 8 + length_bytes;
    if (file_.size() < at_) return bad(file_.size(), "the file ends in the header's length");
    const std::uint64_t length = little_endian(8, length_bytes);
    if (length > limits_.header_bytes) {
      return bad(
          8, fmt::format("header length {} is over the limit {}", length, limits_.header_bytes));
    }
    if (length > file_.size() - at_) {
      return bad(file_.size(), fmt::format("the file ends in the header: {} of {} bytes are there",
                                           file_.size() - at_, length));
    }
    end_ = at_ + static_cast<std::size_t>(length);
    return {};
  }

  char peek() const { return at_ < end_ ? text_[at_] : '\0'; }

  void skip_spaces() {
    while (peek() == ' ') ++at_;
  }

  // Takes one character, with the spaces before it.
  bool take(char c) {
    skip_spaces();
    if (at_ == end_ || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  Status want(char c, std::string_view where) {
    if (take(c)) return {};
    const std::string found =
        at_ < end_ ? "\"" + printable(text_.substr(at_, 1)) + "\"" : "the end of the header";
    return bad(at_, fmt::format("{} found, '{}' is wanted {}", found, c, where));
  }

  // A text between single or double quotes, without escapes.
  Result<std::string_view> read_text(std::string_view what) {
    skip_spaces();
    const char quote = peek();
    if (quote != '\'' && quote != '"') {
      return bad(at_, fmt::format("a text between quotes is wanted as {}", what));
    }
    const std::size_t begin = at_ + 1;
    const std::size_t end = text_.substr(0, end_).find(quote, begin);
    if (end == std::string_view::npos) return bad(at_, "the quote is not closed");
    const std::string_view text = text_.substr(begin, end - begin);
    if (text.find('\\') != std::string_view::npos) {
      return bad(begin, "a text with a backslash is not known here");
    }
    at_ = end + 1;
    return text;
  }

  Status read_dictionary(FileArray& array) {
    bool descr = false;
    bool order = false;
    bool shape = false;
    MUSTER_TRY_STATUS(want('{', "at the beginning of the header"));
    while (!take('}')) {
      skip_spaces();
      const std::size_t place = at_;
      MUSTER_TRY(const std::string_view key, read_text("a key"));
      MUSTER_TRY_STATUS(want(':', "after a key"));
      bool* seen = key == "descr"           ? &descr
                   : key == "fortran_order" ? &order
                   : key == "shape"         ? &shape
                                            : nullptr;
      if (seen == nullptr) {
        return bad(place, fmt::format("unknown key \"{}\", descr, fortran_order and shape are "
                                      "known",
                                      printable(key)));
      }
      if (std::exchange(*seen, true)) {
        return bad(place, fmt::format("the key \"{}\" is there twice", key));
      }
      if (seen == &descr) MUSTER_TRY_STATUS(read_dtype(array));
      if (seen == &order) MUSTER_TRY_STATUS(read_order(array));
      if (seen == &shape) MUSTER_TRY_STATUS(read_shape(array));
      if (take(',')) continue;
      MUSTER_TRY_STATUS(want('}', "or ',' after a value"));
      break;
    }
    for (const auto& [there, key] : {std::pair{descr, "descr"}, std::pair{order, "fortran_order"},
                                     std::pair{shape, "shape"}}) {
      if (!there) return bad(at_, fmt::format("the header has no key \"{}\"", key));
    }
    return {};
  }

  Status read_dtype(FileArray& array) {
    skip_spaces();
    const std::size_t place = at_;
    if (peek() == '[') {
      return bad(place, fmt::format("a structured dtype found, wanted is one of {}", kKnownDtypes));
    }
    MUSTER_TRY(const std::string_view text, read_text("the dtype"));
    const std::string_view code = text.substr(std::min<std::size_t>(1, text.size()));
    for (const DtypeRow& row : kDtypes) {
      if (row.code != code) continue;
      const char order = text.front();
      const bool byte = size_in_bytes(row.dtype) == 1;
      if (order != '<' && order != '>' && !(byte && order == '|')) break;
      array.dtype = row.dtype;
      array.big_endian = order == '>';
      return {};
    }
    return bad(place, fmt::format("dtype \"{}\" found, wanted is one of {}", printable(text),
                                  kKnownDtypes));
  }

  Status read_order(FileArray& array) {
    skip_spaces();
    const std::string_view rest = text_.substr(at_, end_ - at_);
    for (const auto& [word, value] :
         {std::pair{std::string_view("True"), true}, std::pair{std::string_view("False"), false}}) {
      if (!rest.starts_with(word)) continue;
      at_ += word.size();
      array.first_index_fastest = value;
      return {};
    }
    return bad(at_, "True or False is wanted as fortran_order");
  }

  // (), (3,), (3, 4) or (3, 4,); (3) is a number in Python, and no shape.
  Status read_shape(FileArray& array) {
    MUSTER_TRY_STATUS(want('(', "at the beginning of the shape"));
    while (!take(')')) {
      skip_spaces();
      if (array.shape.size() == limits_.rank) {
        return bad(at_, fmt::format("the shape has more than {} dimensions", limits_.rank));
      }
      MUSTER_TRY(const std::int64_t dimension, read_dimension());
      array.shape.push_back(dimension);
      if (take(',')) continue;
      if (array.shape.size() == 1) {
        return bad(at_, "',' is wanted after the only dimension of a shape");
      }
      MUSTER_TRY_STATUS(want(')', "or ',' after a dimension"));
      break;
    }
    return {};
  }

  Result<std::int64_t> read_dimension() {
    const std::size_t place = at_;
    while (peek() >= '0' && peek() <= '9') ++at_;
    const std::string_view digits = text_.substr(place, at_ - place);
    std::int64_t value = 0;
    const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (digits.empty() || code != std::errc() || (digits.size() > 1 && digits[0] == '0')) {
      return bad(place,
                 fmt::format("\"{}\" found, a whole number from 0 to 2^48 is wanted as a "
                             "dimension",
                             printable(digits.empty() ? text_.substr(place, 1) : digits, 40)));
    }
    return value;
  }

  Status read_padding() {
    skip_spaces();
    if (at_ + 1 == end_ && text_[at_] == '\n') return {};
    if (at_ == end_) return bad(at_, "the header does not end with a line end");
    return bad(at_, fmt::format("\"{}\" found, only spaces and one line end may follow the "
                                "dictionary",
                                printable(text_.substr(at_, 1))));
  }

  Status check_length(const FileArray& array) const {
    Result<std::int64_t> count = element_count(array.shape);
    if (!count) {
      return bad(end_, fmt::format("shape {} is too large: {}", to_string(array.shape),
                                   count.error().message));
    }
    // At most 2^48 * 8.
    const std::uint64_t wanted = static_cast<std::uint64_t>(*count) * size_in_bytes(array.dtype);
    if (array.data.size() < wanted) {
      return bad(file_.size(), fmt::format("the file ends in the data: {} of {} bytes are there",
                                           array.data.size(), wanted));
    }
    if (array.data.size() > wanted) {
      return bad(end_ + static_cast<std::size_t>(wanted),
                 fmt::format("{} bytes follow the last value", array.data.size() - wanted));
    }
    return {};
  }

  ByteView file_;
  std::string_view text_;
  const std::string& name_;
  const NpyLimits& limits_;
  std::size_t at_ = 0;
  std::size_t end_ = 0;  // of the header
};

}  // namespace

Result<FileArray> parse_npy(ByteView file, const std::string& name, const NpyLimits& limits) {
  return NpyReader(file, name, limits).read();
}

Result<Dataset> load_npy(const std::filesystem::path& features,
                         const std::filesystem::path& targets, const ArrayOptions& options,
                         const NpyLimits& limits) {
  MUSTER_TRY(const std::string x, read_file(features, limits.bytes));
  MUSTER_TRY(const std::string y, read_file(targets, limits.bytes));
  MUSTER_TRY(const FileArray x_array, parse_npy(as_bytes(x), features.string(), limits));
  MUSTER_TRY(const FileArray y_array, parse_npy(as_bytes(y), targets.string(), limits));
  return dataset_from_arrays(x_array, y_array, options, "bad_npy");
}

}  // namespace muster
