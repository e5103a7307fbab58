#include <fmt/format.h>

#include <optional>

#include "core/aggregate/encoding/decode.h"
#include "core/aggregate/update_check.h"
#include "core/base/file.h"
#include "core/protocol/messages.h"
#include "server/aggregation.h"
#include "server/api.h"
#include "server/handler.h"

namespace muster {
namespace {

using http::BodyRule;
using http::Request;
using http::Response;

// A statement and its signature as they came in the headers.
struct SignedStatement {
  protocol::UpdateStatement statement;
  std::string json;       // the signed text
  std::string signature;  // base64
};

Result<SignedStatement> read_statement(const Request& request) {
  const auto malformed = [](Error error) {
    error.reason = error.reason == "version_unsupported" ? error.reason : "bad_statement";
    return with_context(std::move(error), "Muster-Update");
  };
  const auto encoded = base64_decode(request.header("muster-update"));
  if (!encoded) return malformed(encoded.error());
  const std::string text(as_text(*encoded));
  const auto json = parse_json(text);
  if (!json) return malformed(json.error());
  auto statement = protocol::update_statement_from_json(*json);
  if (!statement) return malformed(statement.error());
  return SignedStatement{*std::move(statement), text, request.header("muster-signature")};
}

// The statement belongs to this path, this caller and this body.
Status check_statement(const Request& request, const SignedStatement& said) {
  const auto signature = base64_decode(said.signature);
  if (!signature ||
      !request.peer.certificate->verify(protocol::update_signing_input(said.json), *signature)) {
    return Error{ErrorCode::kPermissionDenied,
                 "Muster-Signature is not a signature of the statement in Muster-Update by the "
                 "caller's certificate key",
                 "bad_signature"};
  }
  if (said.statement.job != request.param("job") ||
      std::to_string(said.statement.round) != request.param("n")) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("the statement is for round {} of {}, the path names another",
                             said.statement.round, said.statement.job),
                 "bad_statement"};
  }
  if (said.statement.digest != request.spooled->digest()) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("the body has digest {}, the statement says {}",
                             request.spooled->digest().hex(), said.statement.digest.hex()),
                 "digest_mismatch"};
  }
  return {};
}

bool is_callers_fault(const Error& error) {
  return Response::from_error(error).status < 500;
}

UpdateRow update_row(const Request& request, const SignedStatement& said) {
  UpdateRow row;
  row.job = said.statement.job;
  row.round = said.statement.round;
  row.attempt = said.statement.attempt;
  row.device = request.caller();
  row.digest = request.spooled->digest();
  row.bytes = static_cast<std::int64_t>(request.spooled->bytes());
  row.examples = said.statement.examples;
  row.steps = said.statement.steps;
  row.metrics = Json(said.statement.metrics);
  row.statement = said.json;
  row.signature = said.signature;
  return row;
}

// The body is an update in the job's encoding that keeps to its limits, with all that the
// aggregation needs of it.
Status check_body(ApiContext& context, const Request& request,
                  const Coordinator::UpdateTicket& ticket, const UpdateRow& update) {
  MUSTER_TRY(MappedFile file, MappedFile::open(request.spooled->path()));
  const UpdateEncoding& encoding = ticket.aggregation.encoding;
  MUSTER_TRY(ValuesPtr values, open_update(std::move(file), encoding, ticket.layout,
                                           request.spooled->path().parent_path()));
  auto global = context.coordinator.global_state(ticket.global);
  if (!global) {
    Error error = std::move(global).error();  // the server's trouble, whatever it is
    error.code = ErrorCode::kUnavailable;
    error.reason = "state_unavailable";
    return error;
  }
  Contribution contribution = contribution_of(update, std::move(values));
  MUSTER_TRY_STATUS(check_update(**global, encoding.content, contribution, ticket.limits));
  contribution.known_finite = true;
  return check_for_rule(ticket.aggregation, **global, contribution);
}

Result<protocol::Receipt> take_update(ApiContext& context, Request& request,
                                      const SignedStatement& said) {
  MUSTER_TRY_STATUS(check_statement(request, said));
  MUSTER_TRY(const Coordinator::UpdateTicket ticket,
             context.coordinator.examine_update(request.caller(), said.statement));
  if (ticket.receipt) return *ticket.receipt;
  const UpdateRow update = update_row(request, said);
  MUSTER_TRY_STATUS(check_body(context, request, ticket, update));

  std::optional<UpdateFiles::Key> placed;
  const auto place = [&](const UpdateFiles::Key& key) -> Status {
    MUSTER_TRY_STATUS(context.updates.adopt(request.spooled->path(), key));
    request.spooled->release();
    placed = key;
    return {};
  };
  Result<protocol::Receipt> receipt;
  if (ticket.asynchronous) {
    MUSTER_TRY_STATUS(UpdateFiles::flush(request.spooled->path()));
    receipt = context.coordinator.accept_update(update, said.statement, place);
  } else {
    MUSTER_TRY_STATUS(
        place({update.job, update.round, update.attempt, update.device, *update.digest}));
    receipt = context.coordinator.accept_update(update, said.statement);
  }
  // The round closed meanwhile. After an error of the store the file stays: nobody knows then
  // whether the row is there.
  const bool refused = !receipt && is_callers_fault(receipt.error());
  if (refused && placed) context.updates.remove(*placed);
  return receipt;
}

Result<Response> put_update(ApiContext& context, Request& request) {
  MUSTER_TRY_STATUS(calling_device(context, request).map([](const DeviceRow&) {}));
  MUSTER_TRY(const SignedStatement said, read_statement(request));
  const Result<protocol::Receipt> receipt = take_update(context, request, said);
  if (receipt) return Response::json(protocol::to_json(*receipt));
  // Our own trouble (a full disk, a stop) is no refusal: the device sends it again.
  if (is_callers_fault(receipt.error())) {
    UpdateRow row = update_row(request, said);
    row.job = request.param("job");  // whatever the statement names
    context.coordinator.refuse_update(std::move(row), receipt.error());
  }
  return receipt.error();
}

}  // namespace

std::vector<http::Route> update_routes(ApiContext& context) {
  BodyRule body;
  body.kind = BodyRule::Kind::kSpool;
  body.content_type = "application/octet-stream";
  body.admit = [&context](const Request& head) -> tl::expected<std::uint64_t, Response> {
    const Result<std::uint64_t> limit = context.coordinator.update_bytes_limit(head.param("job"));
    if (!limit) return tl::unexpected(Response::from_error(limit.error()));
    return *limit;
  };
  return {{"PUT",
           "/v1/jobs/{job}/rounds/{n}/update",
           {Role::kDevice},
           std::move(body),
           answering([&context](Request& request) { return put_update(context, request); })}};
}

}  // namespace muster
