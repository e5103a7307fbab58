#include <fmt/format.h>

#include <charconv>

#include "certs/enrolment_code.h"
#include "core/base/entropy.h"
#include "core/base/names.h"
#include "server/api.h"
#include "server/describe.h"
#include "server/handler.h"

namespace muster {
namespace {

using http::BodyRule;
using http::Request;
using http::Response;

Result<JobRow> named_job(const ApiContext& context, const Request& request) {
  MUSTER_TRY(std::optional<JobRow> job, context.store.find_job(request.param("job")));
  if (!job) {
    return Error{ErrorCode::kNotFound, fmt::format("there is no job {}", request.param("job")),
                 "job_unknown"};
  }
  return *std::move(job);
}

Result<std::int64_t> whole_number(const std::string& text, std::string_view what) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) {
    return Error{ErrorCode::kNotFound,
                 fmt::format("{} \"{}\" is no whole number", what, printable(text)), "not_found"};
  }
  return value;
}

Result<Json> job_with_progress(const ApiContext& context, const JobRow& job) {
  MUSTER_TRY(const std::vector<RoundRow> rounds, context.store.list_rounds(job.job));
  Json json =
      describe_job(job, rounds, context.coordinator.live_job(job.job), context.clock.unix_ms());
  const Result<std::uint64_t> bytes = context.states.size_of(job.global_state);
  json["state_bytes"] = bytes ? Json(*bytes) : Json(nullptr);
  return json;
}

// Where a device redeems a code; null when enrolment is closed.
Json enroll_url(const ApiContext& context) {
  if (context.enroll_port == 0) return nullptr;
  return fmt::format("https://{}:{}", url_host(context.config.hosts.front()), context.enroll_port);
}

Result<Response> create_tokens(const ApiContext& context, const Request& request) {
  MUSTER_TRY(const Json json, body_json(request));
  JsonObject object(json, "token");
  const std::int64_t uses = object.integer("uses", 1, {1, 10'000});
  const std::int64_t ttl_s = object.integer("ttl_s", 3'600, {1, 30 * 24 * 3'600});
  const std::vector<std::string> tags = object.texts("tags", {});
  MUSTER_TRY_STATUS(object.finish());
  for (const std::string& tag : tags) MUSTER_TRY_STATUS(check_name("tag", tag));

  MUSTER_TRY(const std::string batch, random_hex(8));
  const std::int64_t now = context.clock.unix_ms();
  std::vector<TokenRow> tokens;
  Json codes = Json::array();
  for (std::int64_t i = 0; i < uses; ++i) {
    MUSTER_TRY(const EnrolmentCode code,
               EnrolmentCode::generate(context.authority.certificate().fingerprint()));
    TokenRow token;
    token.secret_hash = EnrolmentCode::hash_secret(code.secret);
    token.batch = batch;
    token.created_at_ms = now;
    token.expires_at_ms = now + ttl_s * 1'000;
    token.tags = tags;
    token.created_by = request.caller();
    tokens.push_back(std::move(token));
    codes.push_back(code.text());
  }
  EventRow event;
  event.at_ms = now;
  event.kind = "tokens_created";
  event.actor = request.caller();
  event.details = Json{{"batch", batch}, {"uses", uses}, {"ttl_s", ttl_s}, {"tags", tags}};
  MUSTER_TRY_STATUS(context.store.add_tokens(tokens, event));
  return Response::json(Json{{"codes", codes},
                             {"batch", batch},
                             {"enroll_url", enroll_url(context)},
                             {"expires_at_ms", now + ttl_s * 1'000}},
                        201);
}

Result<Response> list_tokens(const ApiContext& context) {
  MUSTER_TRY(const std::vector<TokenRow> tokens, context.store.list_tokens());
  Json list = Json::array();
  for (const TokenRow& token : tokens)
    list.push_back(describe_token(token, context.clock.unix_ms()));
  return Response::json(Json{{"tokens", list}});
}

Result<Response> submit_job(const ApiContext& context, const Request& request) {
  MUSTER_TRY(const Json json, body_json(request));
  MUSTER_TRY(const JobDescription description, job_from_json(json));
  MUSTER_TRY(const std::string job, context.coordinator.submit(description, request.caller()));
  return Response::json(Json{{"job", job}}, 201);
}

Result<Response> list_jobs(const ApiContext& context) {
  MUSTER_TRY(const std::vector<JobRow> jobs, context.store.list_jobs());
  Json list = Json::array();
  for (const JobRow& job : jobs) {
    MUSTER_TRY(Json described, job_with_progress(context, job));
    described.erase("description");
    list.push_back(std::move(described));
  }
  return Response::json(Json{{"jobs", list}});
}

Result<Response> show_job(const ApiContext& context, const Request& request) {
  MUSTER_TRY(const JobRow job, named_job(context, request));
  MUSTER_TRY(const Json described, job_with_progress(context, job));
  return Response::json(described);
}

Result<Response> stop_job(const ApiContext& context, const Request& request) {
  MUSTER_TRY_STATUS(context.coordinator.stop_job(request.param("job"), request.caller()));
  return show_job(context, request);
}

Result<Response> list_rounds(const ApiContext& context, const Request& request) {
  MUSTER_TRY(const JobRow job, named_job(context, request));
  MUSTER_TRY(const std::vector<RoundRow> rounds, context.store.list_rounds(job.job));
  Json list = Json::array();
  for (const RoundRow& round : rounds) list.push_back(describe_round(round));
  return Response::json(Json{{"job", job.job}, {"rounds", list}});
}

Result<Response> show_round(const ApiContext& context, const Request& request) {
  MUSTER_TRY(const JobRow job, named_job(context, request));
  MUSTER_TRY(const std::int64_t number, whole_number(request.param("n"), "round"));
  MUSTER_TRY(const std::optional<RoundRow> round, context.store.find_round(job.job, number));
  if (!round) {
    return Error{ErrorCode::kNotFound, fmt::format("job {} has no round {} yet", job.job, number),
                 "round_unknown"};
  }
  Json described = describe_round(*round);
  MUSTER_TRY(const auto participants,
             context.store.list_participants(job.job, number, round->attempt));
  MUSTER_TRY(const auto updates, context.store.list_updates(job.job, number));
  MUSTER_TRY(const auto evaluations, context.store.list_evaluations(job.job, number));
  described["participants"] = describe_participants(participants, updates, round->attempt);
  described["refused"] = describe_refused(updates);
  described["evaluations"] = describe_evaluations(evaluations);
  return Response::json(described);
}

Result<Response> list_events(const ApiContext& context, const Request& request) {
  MUSTER_TRY(const JobRow job, named_job(context, request));
  const auto after_text = request.query.find("after");
  std::int64_t after = 0;
  if (after_text != request.query.end()) {
    const Result<std::int64_t> number = whole_number(after_text->second, "after");
    if (!number) return Response::problem(400, "bad_field", number.error().message);
    after = *number;
  }
  MUSTER_TRY(const std::vector<EventRow> events, context.store.list_events(job.job, after, 1'000));
  Json list = Json::array();
  for (const EventRow& event : events) list.push_back(describe_event(event));
  return Response::json(Json{{"events", list}});
}

Json device_json(const ApiContext& context, const DeviceRow& device) {
  Json json = describe_device(device);
  json["activity"] = context.coordinator.device_activity(device.device);
  return json;
}

Result<Response> list_devices(const ApiContext& context) {
  MUSTER_TRY(const std::vector<DeviceRow> devices, context.store.list_devices());
  Json list = Json::array();
  for (const DeviceRow& device : devices) list.push_back(device_json(context, device));
  return Response::json(Json{{"devices", list}});
}

Result<Response> show_device(const ApiContext& context, const Request& request) {
  MUSTER_TRY(const std::optional<DeviceRow> device,
             context.store.find_device(request.param("device")));
  if (!device) {
    return Error{ErrorCode::kNotFound,
                 fmt::format("there is no device {}", request.param("device")), "device_unknown"};
  }
  Json json = device_json(context, *device);
  MUSTER_TRY(const Certificate certificate, Certificate::from_pem(device->certificate));
  json["certificate"] = describe_certificate(certificate);
  return Response::json(json);
}

}  // namespace

std::vector<http::Route> operator_routes(ApiContext& context) {
  const std::set<Role> acting{Role::kOperator};
  const std::set<Role> reading{Role::kOperator, Role::kAuditor};
  const auto with = [&context](Result<Response> (*call)(const ApiContext&, const Request&)) {
    return answering([&context, call](Request& request) { return call(context, request); });
  };
  const auto plain = [&context](Result<Response> (*call)(const ApiContext&)) {
    return answering([&context, call](Request&) { return call(context); });
  };
  return {
      {"POST", "/v1/tokens", acting, BodyRule::json(), with(create_tokens)},
      {"GET", "/v1/tokens", reading, BodyRule::none(), plain(list_tokens)},
      {"POST", "/v1/jobs", acting, BodyRule::json(1 << 20), with(submit_job)},
      {"GET", "/v1/jobs", reading, BodyRule::none(), plain(list_jobs)},
      {"GET", "/v1/jobs/{job}", reading, BodyRule::none(), with(show_job)},
      {"POST", "/v1/jobs/{job}/stop", acting, BodyRule::json(), with(stop_job)},
      {"GET", "/v1/jobs/{job}/rounds", reading, BodyRule::none(), with(list_rounds)},
      {"GET", "/v1/jobs/{job}/rounds/{n}", reading, BodyRule::none(), with(show_round)},
      {"GET", "/v1/jobs/{job}/events", reading, BodyRule::none(), with(list_events)},
      {"GET", "/v1/devices", reading, BodyRule::none(), plain(list_devices)},
      {"GET", "/v1/devices/{device}", reading, BodyRule::none(), with(show_device)},
  };
}

}  // namespace muster
