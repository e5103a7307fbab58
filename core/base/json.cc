#include "core/base/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "core/base/bytes.h"

namespace muster {
namespace {

Error bad_json(std::size_t position, std::string_view what) {
  return {ErrorCode::kInvalidArgument, fmt::format("JSON at byte {}: {}", position, what),
          "bad_json"};
}

// What the library found wrong, without the text it read (which comes from outside and may be
// long).
std::string reason_of(const nlohmann::detail::exception& failure) {
  constexpr int kNumberOverflow = 406;
  if (failure.id == kNumberOverflow) return "a number is beyond the range of a double";
  std::string_view what = failure.what();
  what = what.substr(0, what.find("; last read: '"));
  if (const std::size_t at = what.find(": syntax error"); at != what.npos)
    what.remove_prefix(at + 2);
  return std::string(what);
}

// Builds the value while it is read, so that depth, duplicates and integers are checked before
// anything is stored. The parser behind it keeps its own stack: depth costs no recursion.
class Builder final : public nlohmann::json_sax<Json> {
 public:
  explicit Builder(const JsonLimits& limits) : limits_(limits) {}

  Json take_root() { return std::move(root_); }
  const std::optional<std::string>& refusal() const { return refusal_; }
  const std::optional<Error>& parse_failure() const { return parse_failure_; }

  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(number_integer_t value) override { return put(value); }
  bool number_unsigned(number_unsigned_t value) override { return put(value); }
  bool string(string_t& value) override { return put(std::move(value)); }
  bool binary(binary_t&) override { return refuse("a binary value"); }

  bool number_float(number_float_t value, const string_t& spelling) override {
    // The library turns an integer beyond 64 bits into the nearest double.
    if (spelling.find_first_of(".eE") == spelling.npos) {
      return refuse("an integer is beyond the range of 64 bits");
    }
    return put(value);
  }

  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& value) override {
    if (open_.back()->contains(value)) {
      return refuse(fmt::format("the key \"{}\" occurs twice in one object", printable(value)));
    }
    key_ = std::move(value);
    return true;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& failure) override {
    parse_failure_ = bad_json(position, reason_of(failure));
    return false;
  }

 private:
  template <typename T>
  bool put(T&& value) {
    place(Json(std::forward<T>(value)));
    return true;
  }

  Json* place(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Json& parent = *open_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    Json& slot = parent[key_];
    slot = std::move(value);
    return &slot;
  }

  // A pointer on the stack stays valid: only the innermost container grows.
  bool open(Json container) {
    if (open_.size() >= static_cast<std::size_t>(std::max(0, limits_.depth))) {
      return refuse(fmt::format("nested deeper than the limit of {}", limits_.depth));
    }
    open_.push_back(place(std::move(container)));
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  bool refuse(std::string what) {
    refusal_ = std::move(what);
    return false;
  }

  JsonLimits limits_;
  Json root_;
  std::vector<Json*> open_;
  std::string key_;
  std::optional<std::string> refusal_;
  std::optional<Error> parse_failure_;
};

// Counts what the parser has consumed, so that a refusal of the builder has a position too.
class CountingIterator {
 public:
  using difference_type = std::ptrdiff_t;
  using value_type = char;
  using pointer = const char*;
  using reference = const char&;
  using iterator_category = std::input_iterator_tag;

  CountingIterator(const char* at, const char** furthest) : at_(at), furthest_(furthest) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    *furthest_ = ++at_;
    return *this;
  }
  void operator++(int) { ++*this; }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }
  bool operator!=(const CountingIterator& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  const char** furthest_;
};

}  // namespace

Result<Json> parse_json(std::string_view text, const JsonLimits& limits) {
  if (text.size() > limits.bytes) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("JSON of {} bytes is over the limit of {}", text.size(), limits.bytes),
                 "bad_json"};
  }
  if (text.starts_with("\xef\xbb\xbf")) return bad_json(0, "a byte order mark");
  // The library takes a zero byte for the end of the text.
  if (const std::size_t zero = text.find('\0'); zero != text.npos) {
    return bad_json(zero, "a zero byte");
  }
  Builder builder(limits);
  const char* furthest = text.data();
  const char* end = text.data() + text.size();
  bool complete = false;
  try {
    complete = Json::sax_parse(CountingIterator(text.data(), &furthest),
                               CountingIterator(end, &furthest), &builder);
  } catch (const std::exception& failure) {
    return Error{ErrorCode::kResourceExhausted,
                 fmt::format("JSON of {} bytes: {}", text.size(), failure.what()), "bad_json"};
  }
  if (builder.refusal()) {
    return bad_json(static_cast<std::size_t>(furthest - text.data()), *builder.refusal());
  }
  if (builder.parse_failure()) return *builder.parse_failure();
  if (!complete) return bad_json(text.size(), "not a JSON text");
  return builder.take_root();
}

std::string describe(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
      return "null";
    case Json::value_t::boolean:
      return value.get<bool>() ? "true" : "false";
    case Json::value_t::string: {
      return fmt::format("\"{}\"", printable(value.get_ref<const std::string&>(), 60));
    }
    case Json::value_t::array:
      return fmt::format("an array of {}", value.size());
    case Json::value_t::object:
      return fmt::format("an object of {} fields", value.size());
    case Json::value_t::number_integer:
      return fmt::format("{}", value.get<std::int64_t>());
    case Json::value_t::number_unsigned:
      return fmt::format("{}", value.get<std::uint64_t>());
    case Json::value_t::number_float: {
      // Json's form keeps the point of 1.0, but has none for NaN.
      const auto number = value.get<double>();
      return std::isfinite(number) ? value.dump() : fmt::format("{}", number);
    }
    default:
      return "a value that JSON does not have";
  }
}

}  // namespace muster
