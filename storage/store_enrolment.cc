#include <fmt/format.h>

#include <algorithm>

#include "storage/store_impl.h"

namespace muster {
namespace {

constexpr std::string_view kSelectToken =
    "SELECT secret_hash, batch, created_at_ms, expires_at_ms, tags, created_by, used_at_ms, "
    "used_by FROM tokens WHERE secret_hash = ?";

Result<TokenRow> token_of(const Query& query) {
  TokenRow row;
  MUSTER_TRY(row.secret_hash, query.digest(0));
  row.batch = query.text(1);
  row.created_at_ms = query.integer(2);
  row.expires_at_ms = query.integer(3);
  MUSTER_TRY(row.tags, query.texts(4));
  row.created_by = query.text(5);
  if (!query.is_null(6)) row.used_at_ms = query.integer(6);
  row.used_by = query.text(7);
  return row;
}

Result<DeviceRow> device_of(const Query& query) {
  DeviceRow row;
  row.device = query.text(0);
  row.certificate = query.text(1);
  row.public_key_hash = query.text(2);
  MUSTER_TRY(row.tags, query.texts(3));
  row.enrolled_at_ms = query.integer(4);
  row.last_seen_at_ms = query.integer(5);
  row.examples = query.integer(6);
  return row;
}

Error refused(std::string_view reason, std::string message) {
  return {ErrorCode::kUnauthenticated, std::move(message), std::string(reason)};
}

// The token, when it may be redeemed at `now_ms`.
Result<TokenRow> usable_token(Connection& connection, const Digest& secret_hash,
                              std::int64_t now_ms) {
  Query query(connection, kSelectToken, secret_hash);
  if (!query.next()) {
    return refused("token_unknown", "the enrolment code is not known here; ask for a new one");
  }
  MUSTER_TRY(TokenRow token, token_of(query));
  if (token.used_at_ms) {
    return refused("token_used", "the enrolment code was used already; ask for a new one");
  }
  if (now_ms >= token.expires_at_ms) {
    return refused("token_expired",
                   fmt::format("the enrolment code expired {} s ago; ask for a new one",
                               (now_ms - token.expires_at_ms) / 1000));
  }
  return token;
}

bool device_is_known(Connection& connection, const std::string& device) {
  return Query(connection, "SELECT 1 FROM devices WHERE device = ?", device).next();
}

std::vector<std::string> merged_tags(std::vector<std::string> tags,
                                     const std::vector<std::string>& more) {
  tags.insert(tags.end(), more.begin(), more.end());
  std::sort(tags.begin(), tags.end());
  tags.erase(std::unique(tags.begin(), tags.end()), tags.end());
  return tags;
}

Status insert_token(Connection& connection, const TokenRow& token) {
  if (token.used_at_ms || !token.used_by.empty()) {
    return Error{ErrorCode::kInvalidArgument, "a new token is marked as used, wanted an unused one",
                 "token_used"};
  }
  if (Query(connection, kSelectToken, token.secret_hash).next()) {
    return Error{ErrorCode::kAlreadyExists, "a token with this secret exists already",
                 "token_exists"};
  }
  Query(connection,
        "INSERT INTO tokens (secret_hash, batch, created_at_ms, expires_at_ms, tags, created_by) "
        "VALUES (?, ?, ?, ?, ?, ?)",
        token.secret_hash, token.batch, token.created_at_ms, token.expires_at_ms,
        json_text(token.tags), token.created_by)
      .run();
  return {};
}

}  // namespace

Status Store::add_tokens(const std::vector<TokenRow>& tokens, const EventRow& event) {
  return impl_->database->write("add tokens", [&](Connection& connection) -> Status {
    for (const TokenRow& token : tokens) MUSTER_TRY_STATUS(insert_token(connection, token));
    return insert_event(connection, event);
  });
}

Result<std::optional<TokenRow>> Store::find_token(const Digest& secret_hash) const {
  return impl_->database->find<TokenRow>("find a token", token_of, kSelectToken, secret_hash);
}

Result<std::vector<TokenRow>> Store::list_tokens() const {
  return impl_->database->list<TokenRow>(
      "list tokens", token_of,
      "SELECT secret_hash, batch, created_at_ms, expires_at_ms, tags, created_by, used_at_ms, "
      "used_by FROM tokens ORDER BY created_at_ms, batch, secret_hash");
}

Status Store::redeem_token(const Digest& secret_hash, const DeviceRow& device,
                           const EventRow& event) {
  return impl_->database->write("redeem a token", [&](Connection& connection) -> Status {
    MUSTER_TRY(const TokenRow token, usable_token(connection, secret_hash, device.enrolled_at_ms));
    if (device_is_known(connection, device.device)) {
      return Error{ErrorCode::kAlreadyExists,
                   fmt::format("a device named '{}' is enrolled already; choose another name",
                               printable(device.device)),
                   "device_exists"};
    }
    Query(connection,
          "INSERT INTO devices (device, certificate, public_key_hash, tags, enrolled_at_ms, "
          "last_seen_at_ms, examples) VALUES (?, ?, ?, ?, ?, ?, ?)",
          device.device, device.certificate, device.public_key_hash,
          json_text(merged_tags(device.tags, token.tags)), device.enrolled_at_ms,
          null_if_zero(device.last_seen_at_ms), device.examples)
        .run();
    Query(connection, "UPDATE tokens SET used_at_ms = ?, used_by = ? WHERE secret_hash = ?",
          device.enrolled_at_ms, device.device, secret_hash)
        .run();
    return insert_event(connection, event);
  });
}

Result<std::optional<DeviceRow>> Store::find_device(const std::string& device) const {
  return impl_->database->find<DeviceRow>(
      "find a device", device_of,
      "SELECT device, certificate, public_key_hash, tags, enrolled_at_ms, last_seen_at_ms, "
      "examples FROM devices WHERE device = ?",
      device);
}

Result<std::vector<DeviceRow>> Store::list_devices() const {
  return impl_->database->list<DeviceRow>(
      "list devices", device_of,
      "SELECT device, certificate, public_key_hash, tags, enrolled_at_ms, last_seen_at_ms, "
      "examples FROM devices ORDER BY device");
}

Status Store::touch_device(const std::string& device, std::int64_t at_ms, std::int64_t examples) {
  return impl_->database->write("note a device", [&](Connection& connection) -> Status {
    const int changed = Query(connection,
                              "UPDATE devices SET last_seen_at_ms = "
                              "max(coalesce(last_seen_at_ms, 0), ?), examples = ? WHERE device = ?",
                              at_ms, examples, device)
                            .run();
    if (changed == 1) return {};
    return Error{ErrorCode::kNotFound, fmt::format("no device is named '{}'", printable(device)),
                 "device_unknown"};
  });
}

}  // namespace muster
