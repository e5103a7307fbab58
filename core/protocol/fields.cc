#include "core/protocol/fields.h"

#include <fmt/format.h>

#include <charconv>
#include <utility>

#include "core/base/names.h"
#include "core/protocol/messages.h"

namespace muster::protocol::fields {

std::string name(JsonObject& object, std::string_view key) {
  std::string text = object.text(key);
  if (!object.ok()) return {};
  if (auto status = check_name("name", text); !status) {
    object.fail(key, std::move(status).error().message);
    return {};
  }
  return text;
}

std::string bounded_text(JsonObject& object, std::string_view key, std::size_t limit) {
  std::string text = object.text(key);
  if (!object.ok()) return {};
  if (text.empty() || text.size() > limit) {
    object.fail(key, fmt::format("{} bytes, wanted 1 to {}", text.size(), limit));
    return {};
  }
  return text;
}

Digest digest(JsonObject& object, std::string_view key) {
  const std::string text = object.text(key);
  if (!object.ok()) return {};
  auto digest = Digest::from_hex(text);
  if (digest) return *digest;
  object.fail(key, std::move(digest).error().message);
  return {};
}

std::uint64_t decimal(JsonObject& object, std::string_view key) {
  const std::string text = object.text(key);
  if (!object.ok()) return 0;
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && std::to_string(value) == text) return value;
  object.fail(key, fmt::format("{} found, a 64-bit number in decimal digits is wanted",
                               describe(Json(text))));
  return 0;
}

Status check_version(JsonObject& object) {
  const std::int64_t version = object.integer("protocol");
  if (!object.ok()) return object.finish();
  if (version == kVersion) return {};
  return Error{
      ErrorCode::kInvalidArgument,
      fmt::format("protocol version {} is not supported; supported: {}", version, kVersion),
      "version_unsupported"};
}

}  // namespace muster::protocol::fields
