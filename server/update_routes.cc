#include <fmt/format.h>

#include "core/aggregate/update_check.h"
#include "core/base/file.h"
#include "core/protocol/messages.h"
#include "core/tensor/safetensors.h"
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

// The file holds a state of the layout, all finite, from a sensible number of examples.
Status check_body(const Request& request, const LayoutPtr& layout, std::int64_t examples,
                  const UpdateLimits& limits) {
  MUSTER_TRY(const MappedFile file, MappedFile::open(request.spooled->path()));
  if (const auto values = view_canonical_state(file.bytes(), *layout)) {
    return check_update(*layout, {request.caller(), *layout, *values, examples}, limits);
  }
  MUSTER_TRY(const StateDict state, read_state(file.bytes(), layout));
  return check_update(*layout, {request.caller(), state.layout(), state.values(), examples},
                      limits);
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

Result<protocol::Receipt> take_update(ApiContext& context, Request& request,
                                      const SignedStatement& said) {
  MUSTER_TRY_STATUS(check_statement(request, said));
  MUSTER_TRY(const Coordinator::UpdateTicket ticket,
             context.coordinator.examine_update(request.caller(), said.statement));
  if (ticket.receipt) return *ticket.receipt;
  MUSTER_TRY_STATUS(check_body(request, ticket.layout, said.statement.examples,
                               UpdateLimits{context.config.max_examples}));
  const UpdateFiles::Key key{said.statement.job, said.statement.round, said.statement.attempt,
                             request.caller(), said.statement.digest};
  MUSTER_TRY_STATUS(context.updates.adopt(request.spooled->path(), key));
  request.spooled->release();
  Result<protocol::Receipt> receipt =
      context.coordinator.accept_update(update_row(request, said), said.statement);
  // The round closed meanwhile. After an error of the store the file stays: nobody knows then
  // whether the row is there.
  const bool refused = !receipt && is_callers_fault(receipt.error());
  if (refused) context.updates.remove(key);
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
