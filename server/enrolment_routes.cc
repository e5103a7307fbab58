#include <fmt/format.h>

#include "certs/enrolment_code.h"
#include "core/base/names.h"
#include "core/protocol/messages.h"
#include "server/api.h"
#include "server/handler.h"
#include "server/rate_cap.h"

namespace muster {
namespace {

using http::BodyRule;
using http::Request;
using http::Response;

// One answer for a secret that was never given out, was used, or has expired: the caller learns
// nothing, the event log does.
Error refused() {
  return Error{
      ErrorCode::kUnauthenticated,
      "this enrolment code is not valid; ask the operator for a new one (muster token create)",
      "enrolment_refused"};
}

class Enrolment {
 public:
  explicit Enrolment(const ApiContext& context) : context_(context) {}

  Result<Response> enroll(const Request& request) const {
    MUSTER_TRY(const Json json, parse_json(request.body));
    MUSTER_TRY(const protocol::EnrollRequest message, protocol::enroll_request_from_json(json));
    MUSTER_TRY_STATUS(check_name("device name", message.name));
    const Digest secret = EnrolmentCode::hash_secret(message.secret);
    MUSTER_TRY(const std::optional<TokenRow> token, context_.store.find_token(secret));
    const std::int64_t now_ms = context_.clock.unix_ms();
    if (!token) return refuse("token_unknown", request, message);
    if (!token->used_at_ms && token->expires_at_ms <= now_ms) {
      return refuse("token_expired", request, message);
    }

    const WallTime now{std::chrono::milliseconds(now_ms)};
    const std::chrono::hours lifetime{24 * context_.config.device_certificate_days};
    const Result<Certificate> certificate =
        context_.authority.issue(message.request, {Role::kDevice, message.name}, now, lifetime);
    // What is wrong with a request is only told to the holder of a good code.
    if (!certificate && token->used_at_ms) return refuse("token_used", request, message);
    if (!certificate) return certificate.error();
    const std::string key = certificate->public_key_hash().hex();
    if (token->used_at_ms) return again_or_refuse(request, message, *token, key);

    DeviceRow device;
    device.device = message.name;
    device.certificate = certificate->pem();
    device.public_key_hash = key;
    device.tags = token->tags;
    device.enrolled_at_ms = now_ms;
    device.last_seen_at_ms = now_ms;
    const Status redeemed = context_.store.redeem_token(
        secret, device,
        event("device_enrolled", message.name, Json{{"batch", token->batch}, {"key", key}}));
    if (!redeemed && redeemed.error().code == ErrorCode::kUnauthenticated) {
      return refuse(redeemed.error().reason, request, message);
    }
    MUSTER_TRY_STATUS(redeemed);
    return answer(message.name, certificate->pem());
  }

 private:
  // The answer to a good enrolment was lost and the device asks again with the same key: it gets
  // the same certificate.
  Result<Response> again_or_refuse(const Request& request, const protocol::EnrollRequest& message,
                                   const TokenRow& token, const std::string& key) const {
    MUSTER_TRY(const std::optional<DeviceRow> device, context_.store.find_device(token.used_by));
    if (!device || device->device != message.name || device->public_key_hash != key) {
      return refuse("token_used", request, message);
    }
    return answer(device->device, device->certificate);
  }

  Result<Response> refuse(const std::string& why, const Request& request,
                          const protocol::EnrollRequest& message) const {
    if (const auto left_out = refusals_.admit()) {
      Json details{{"reason", why}, {"address", request.peer.address}};
      if (*left_out > 0) details["refusals_left_out"] = *left_out;
      MUSTER_TRY_STATUS(
          context_.store.add_event(event("enrolment_refused", message.name, std::move(details))));
    }
    return refused();
  }

  Response answer(const std::string& device, const std::string& certificate) const {
    protocol::EnrollResponse message;
    message.device = device;
    message.certificate = certificate;
    message.authority = context_.authority.certificate().pem();
    message.api_port = context_.api_port;
    return Response::json(protocol::to_json(message));
  }

  EventRow event(std::string kind, std::string actor, Json details) const {
    EventRow row;
    row.at_ms = context_.clock.unix_ms();
    row.kind = std::move(kind);
    row.actor = std::move(actor);
    row.details = std::move(details);
    return row;
  }

  const ApiContext& context_;
  mutable RateCap refusals_{20};  // anyone can cause these records
};

}  // namespace

std::vector<http::Route> enrolment_routes(ApiContext& context) {
  return {{"POST",
           "/v1/enroll",
           {},
           BodyRule::json(64 * 1024),
           answering([enrolment = std::make_shared<const Enrolment>(context)](Request& request) {
             return enrolment->enroll(request);
           })}};
}

}  // namespace muster
