#include <fmt/format.h>

#include <charconv>

#include "core/protocol/messages.h"
#include "server/api.h"
#include "server/handler.h"

namespace muster {

using http::BodyRule;
using http::Request;
using http::Responder;
using http::Response;

Result<DeviceRow> calling_device(const ApiContext& context, const Request& request) {
  MUSTER_TRY(std::optional<DeviceRow> device, context.store.find_device(request.caller()));
  if (!device || device->public_key_hash != request.peer.certificate->public_key_hash().hex()) {
    return Error{
        ErrorCode::kPermissionDenied,
        fmt::format("device {} is not enrolled on this server with this key; enrol it again",
                    request.caller()),
        "device_unknown"};
  }
  return *std::move(device);
}

namespace {

Response task_response(const std::optional<protocol::Task>& task,
                       std::chrono::milliseconds retry_after) {
  if (task) return Response::json(protocol::to_json(*task));
  Response response = Response::no_content();
  response.headers.emplace_back("Retry-After", std::to_string((retry_after.count() + 999) / 1000));
  response.headers.emplace_back("Muster-Retry-After-Ms", std::to_string(retry_after.count()));
  return response;
}

void check_in(ApiContext& context, const Request& request, Responder respond) {
  const auto refuse = [&respond](const Error& error) { respond(Response::from_error(error)); };
  const Result<DeviceRow> device = calling_device(context, request);
  if (!device) return refuse(device.error());
  const Result<Json> json = body_json(request);
  if (!json) return refuse(json.error());
  const Result<protocol::CheckinRequest> message = protocol::checkin_request_from_json(*json);
  if (!message) return refuse(message.error());
  constexpr std::int64_t kSeenEveryMs =
      10'000;  // a write per check-in would be a flush per check-in
  if (context.clock.unix_ms() - device->last_seen_at_ms > kSeenEveryMs ||
      device->examples != message->examples) {
    const Status seen =
        context.store.touch_device(device->device, context.clock.unix_ms(), message->examples);
    if (!seen) return refuse(seen.error());
  }
  const auto answer = std::make_shared<Responder>(std::move(respond));
  context.coordinator.check_in(
      *device, *message,
      [answer](std::optional<protocol::Task> task, std::chrono::milliseconds retry_after) {
        (*answer)(task_response(task, retry_after));
      },
      [answer] { return answer->peer_gone(); });
}

// One byte range of RFC 9110 section 14.1.2: "bytes=FIRST-", "bytes=FIRST-LAST" or "bytes=-SUFFIX".
// Anything else, several ranges too, is not honoured: the whole is sent, as the section allows.
struct ByteRange {
  std::uint64_t first = 0;
  std::uint64_t bytes = 0;
};

std::optional<std::uint64_t> to_number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// nullopt: no range that counts. A range with 0 bytes: not satisfiable (416).
std::optional<ByteRange> parse_range(std::string_view header, std::uint64_t size) {
  constexpr std::string_view kUnit = "bytes=";
  if (!header.starts_with(kUnit)) return std::nullopt;
  header.remove_prefix(kUnit.size());
  const std::size_t dash = header.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  const std::string_view first_text = header.substr(0, dash);
  const std::string_view last_text = header.substr(dash + 1);
  if (first_text.empty()) {
    const auto suffix = to_number(last_text);
    if (!suffix) return std::nullopt;
    const std::uint64_t bytes = std::min(*suffix, size);
    return ByteRange{size - bytes, bytes};
  }
  const auto first = to_number(first_text);
  const auto last =
      last_text.empty() ? std::optional<std::uint64_t>(UINT64_MAX) : to_number(last_text);
  if (!first || !last || *last < *first) return std::nullopt;
  if (*first >= size) return ByteRange{0, 0};
  return ByteRange{*first, std::min(*last, size - 1) - *first + 1};
}

Result<Response> get_state(ApiContext& context, const Request& request) {
  if (request.peer.identity->role == Role::kDevice) {
    MUSTER_TRY_STATUS(calling_device(context, request).map([](const DeviceRow&) {}));
  }
  const Result<Digest> named = Digest::from_hex(request.param("digest"));
  const auto unknown = [&] {
    return Error{ErrorCode::kNotFound,
                 fmt::format("this server has no state {}", printable(request.param("digest"))),
                 "state_unknown"};
  };
  if (!named) return unknown();
  const Digest digest = *named;
  if (!context.states.has(digest)) {
    MUSTER_TRY(const bool lost, context.store.names_state(digest));
    if (!lost) return unknown();
    return Error{
        ErrorCode::kNotFound,
        fmt::format("the file of state {} is lost; the operator can restore it from a back-up",
                    digest.hex()),
        "artefact_missing"};
  }
  const std::string etag = fmt::format("\"{}\"", digest.hex());
  Response response;
  response.content_type = "application/octet-stream";
  response.headers = {{"ETag", etag}, {"Accept-Ranges", "bytes"}};
  if (request.header("if-none-match") == etag) {
    response.status = 304;
    return response;
  }
  MUSTER_TRY(const std::uint64_t size, context.states.size_of(digest));
  response.file = http::FileSlice{context.states.path_of(digest), 0, size};
  if (const auto range = parse_range(request.header("range"), size)) {
    if (range->bytes == 0) {
      Response refused = Response::problem(416, "range_not_satisfiable",
                                           fmt::format("the state has {} bytes", size));
      refused.headers.emplace_back("Content-Range", fmt::format("bytes */{}", size));
      return refused;
    }
    response.status = 206;
    response.file = http::FileSlice{context.states.path_of(digest), range->first, range->bytes};
    response.headers.emplace_back(
        "Content-Range",
        fmt::format("bytes {}-{}/{}", range->first, range->first + range->bytes - 1, size));
  }
  if (request.peer.identity->role == Role::kDevice) {
    context.coordinator.count_download(request.caller(), digest, response.file->bytes);
  }
  return response;
}

Result<Response> take_result(ApiContext& context, const Request& request) {
  MUSTER_TRY(const DeviceRow device, calling_device(context, request));
  MUSTER_TRY(const Json json, body_json(request));
  MUSTER_TRY(const protocol::TaskResult result, protocol::task_result_from_json(json));
  MUSTER_TRY_STATUS(context.coordinator.take_result(device.device, request.param("task"), result));
  return Response::json(Json::object());
}

}  // namespace

std::vector<http::Route> device_routes(ApiContext& context) {
  return {
      {"POST",
       "/v1/checkin",
       {Role::kDevice},
       BodyRule::json(),
       [&context](std::shared_ptr<Request> request, Responder respond) {
         check_in(context, *request, std::move(respond));
       }},
      {"GET",
       "/v1/models/{digest}",
       {Role::kDevice, Role::kOperator, Role::kAuditor},
       BodyRule::none(),
       answering([&context](Request& request) { return get_state(context, request); })},
      {"POST",
       "/v1/tasks/{task}/result",
       {Role::kDevice},
       BodyRule::json(),
       answering([&context](Request& request) { return take_result(context, request); })},
  };
}

}  // namespace muster
