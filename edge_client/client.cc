#include "edge_client/client.h"

#include <fmt/format.h>

#include "core/base/file.h"
#include "core/tensor/safetensors.h"

namespace muster {
namespace {

Transport::Options transport_options(const DeviceIdentity& identity) {
  return {.server = identity.server,
          .authority = identity.authority,
          .certificate = identity.certificate,
          .key = &identity.key};
}

// The JSON body of a 200.
Result<Json> json_body(const HttpReply& reply) {
  if (reply.status != 200) return reply.error();
  auto json = parse_json(reply.body);
  if (!json) {
    return Error{ErrorCode::kUnavailable, "the server's answer: " + json.error().message,
                 "unexpected_answer"};
  }
  return json;
}

// What the server says must be readable; when it is not, trying again later is all that a device
// can do.
template <typename T>
Result<T> understood(Result<T> message) {
  if (message) return message;
  return Error{ErrorCode::kUnavailable, "the server's answer: " + message.error().message,
               "unexpected_answer"};
}

bool file_has_digest(const std::filesystem::path& file, const Digest& digest, std::uint64_t bytes) {
  std::error_code none;
  if (std::filesystem::file_size(file, none) != bytes || none) return false;
  const auto mapped = MappedFile::open(file);
  return mapped && sha256(mapped->bytes()) == digest;
}

}  // namespace

class Client::Impl {
 public:
  explicit Impl(const DeviceIdentity& identity)
      : identity_(identity), transport_(transport_options(identity)) {}

  // Remembers what each reply said about coming back.
  Result<HttpReply> noted(Result<HttpReply> reply) {
    retry_after_ = reply ? reply->retry_after() : std::nullopt;
    return reply;
  }

  const DeviceIdentity& identity_;
  Transport transport_;
  std::optional<std::chrono::milliseconds> retry_after_;
};

Client::Client(const DeviceIdentity& identity) : impl_(std::make_unique<Impl>(identity)) {}
Client::~Client() = default;

Transport& Client::transport() {
  return impl_->transport_;
}

std::optional<std::chrono::milliseconds> Client::retry_after() const {
  return impl_->retry_after_;
}

Result<Client::Answer> Client::check_in(const protocol::CheckinRequest& request) {
  MUSTER_TRY(const HttpReply reply,
             impl_->noted(transport().post_json("/v1/checkin", protocol::to_json(request),
                                                std::chrono::milliseconds(request.wait_ms), 1 << 20,
                                                true)));
  if (reply.status == 204) {
    return Answer{std::nullopt, reply.retry_after().value_or(std::chrono::milliseconds{0})};
  }
  MUSTER_TRY(const Json json, json_body(reply));
  MUSTER_TRY(protocol::Task task, understood(protocol::task_from_json(json)));
  return Answer{std::move(task), {}};
}

Result<StateDict> Client::fetch_state(const Digest& digest, std::uint64_t bytes,
                                      const std::filesystem::path& folder) {
  const auto file = folder / (digest.hex() + ".safetensors");
  if (!file_has_digest(file, digest, bytes)) {
    MUSTER_TRY(const HttpReply reply, impl_->noted(transport().download(
                                          "/v1/models/" + digest.hex(), file, bytes, digest)));
    if (reply.status != 200) return reply.error();
  }
  MUSTER_TRY(const MappedFile mapped, MappedFile::open(file));
  return read_state(mapped.bytes());
}

Result<protocol::Receipt> Client::send_update(const protocol::UpdateStatement& statement,
                                              const std::filesystem::path& file) {
  const std::string text = protocol::statement_text(statement);
  MUSTER_TRY(const Bytes signature,
             impl_->identity_.key.sign(protocol::update_signing_input(text)));
  const std::string path =
      fmt::format("/v1/jobs/{}/rounds/{}/update", statement.job, statement.round);
  MUSTER_TRY(const HttpReply reply,
             impl_->noted(transport().put_file(path, file,
                                               {{"Muster-Update", base64_encode(as_bytes(text))},
                                                {"Muster-Signature", base64_encode(signature)}})));
  MUSTER_TRY(const Json json, json_body(reply));
  MUSTER_TRY(protocol::Receipt receipt, understood(protocol::receipt_from_json(json)));
  if (receipt.job != statement.job || receipt.round != statement.round ||
      receipt.digest != statement.digest || receipt.examples != statement.examples ||
      receipt.device != impl_->identity_.name) {
    return Error{
        ErrorCode::kInternal,
        fmt::format(
            "the receipt is for update {} of device {} in round {} of {}, sent was {} of {} in "
            "round {} of {}",
            receipt.digest.hex(), receipt.device, receipt.round, receipt.job,
            statement.digest.hex(), impl_->identity_.name, statement.round, statement.job),
        "receipt_mismatch"};
  }
  return receipt;
}

Status Client::send_result(const std::string& task, const protocol::TaskResult& result) {
  const std::string path = fmt::format("/v1/tasks/{}/result", task);
  MUSTER_TRY(const HttpReply reply, impl_->noted(transport().post_json(
                                        path, protocol::to_json(result), {}, 1 << 20, true)));
  if (reply.status == 200) return {};
  Error error = reply.error();
  if (error.reason == "already_reported") return {};
  return error;
}

}  // namespace muster
