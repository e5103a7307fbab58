#include <fmt/format.h>

#include "core/base/names.h"
#include "core/protocol/fields.h"
#include "core/protocol/messages.h"

// EnrollRequest, EnrollResponse and CheckinRequest: how a device joins and offers itself.
namespace muster::protocol {
namespace {

constexpr std::size_t kSecretBytes = 256;
constexpr std::size_t kMaxTags = 64;
constexpr JsonObject::IntegerRange kWaitMs{0, 60'000};

std::set<std::string> read_tags(JsonObject& object) {
  object.value("tags");  // required, unlike in JsonObject::texts
  const auto tags = object.texts("tags", {});
  if (tags.size() > kMaxTags) {
    object.fail("tags", fmt::format("{} tags, at most {} are taken", tags.size(), kMaxTags));
    return {};
  }
  std::set<std::string> unique;
  for (const std::string& tag : tags) {
    if (auto status = check_name("tag", tag); !status) {
      object.fail("tags", status.error().message);
      return {};
    }
    if (!unique.insert(tag).second) object.fail("tags", fmt::format("\"{}\" is given twice", tag));
  }
  return unique;
}

}  // namespace

Json to_json(const EnrollRequest& message) {
  return {{"protocol", kVersion},
          {"secret", message.secret},
          {"name", message.name},
          {"request", message.request}};
}

Result<EnrollRequest> enroll_request_from_json(const Json& json) {
  EnrollRequest message;
  JsonObject object(json, "enroll");
  MUSTER_TRY_STATUS(fields::check_version(object));
  message.secret = fields::bounded_text(object, "secret", kSecretBytes);
  message.name = fields::name(object, "name");
  message.request = fields::bounded_text(object, "request", fields::kPemBytes);
  MUSTER_TRY_STATUS(object.finish());
  return message;
}

Json to_json(const EnrollResponse& message) {
  return {{"device", message.device},
          {"certificate", message.certificate},
          {"authority", message.authority},
          {"api_port", message.api_port}};
}

Result<EnrollResponse> enroll_response_from_json(const Json& json) {
  EnrollResponse message;
  JsonObject object(json, "enrolled");
  message.device = fields::name(object, "device");
  message.certificate = fields::bounded_text(object, "certificate", fields::kPemBytes);
  message.authority = fields::bounded_text(object, "authority", fields::kPemBytes);
  message.api_port = object.integer("api_port", fields::kPort);
  MUSTER_TRY_STATUS(object.finish());
  return message;
}

Json to_json(const CheckinRequest& message) {
  return {{"protocol", kVersion},
          {"tags", message.tags},
          {"examples", message.examples},
          {"wait_ms", message.wait_ms}};
}

Result<CheckinRequest> checkin_request_from_json(const Json& json) {
  CheckinRequest message;
  JsonObject object(json, "checkin");
  MUSTER_TRY_STATUS(fields::check_version(object));
  message.tags = read_tags(object);
  message.examples = object.integer("examples", fields::kCount);
  message.wait_ms = object.integer("wait_ms", kWaitMs);
  MUSTER_TRY_STATUS(object.finish());
  return message;
}

}  // namespace muster::protocol
