#include "server/cli/operator_client.h"

#include <fmt/format.h>

#include "server/directory.h"

namespace muster::cli {
namespace {

constexpr std::uint64_t kMostBytes = 64 << 20;

Result<Json> read_reply(const Result<HttpReply>& reply) {
  if (!reply) return reply.error();
  if (reply->status < 200 || reply->status > 299) return reply->error();
  return parse_json(reply->body, {.bytes = kMostBytes, .depth = 64});
}

}  // namespace

Result<OperatorClient> OperatorClient::open(const std::filesystem::path& directory) {
  MUSTER_TRY(const OperatorFolder found, OperatorFolder::find(directory));
  MUSTER_TRY(PrivateKey key, PrivateKey::read(found.folder / "operator.key"));
  MUSTER_TRY(const Certificate certificate, Certificate::read(found.folder / "operator.pem"));
  MUSTER_TRY(const Certificate authority, Certificate::read(found.folder / "authority.pem"));
  MUSTER_TRY(const ServerUrl server, ServerUrl::parse(found.server_url));
  auto owned_key = std::make_unique<PrivateKey>(std::move(key));
  Transport::Options options{
      .server = server, .authority = authority, .certificate = certificate, .key = owned_key.get()};
  auto transport = std::make_unique<Transport>(std::move(options));
  return OperatorClient(std::move(owned_key), std::move(transport));
}

Result<Json> OperatorClient::get(const std::string& path) {
  return read_reply(transport_->get(path, kMostBytes));
}

Result<Json> OperatorClient::post(const std::string& path, const Json& body) {
  return read_reply(transport_->post_json(path, body));
}

Status OperatorClient::download_state(const Digest& digest, std::uint64_t bytes,
                                      const std::filesystem::path& file) {
  MUSTER_TRY(const HttpReply reply,
             transport_->download("/v1/models/" + digest.hex(), file, bytes, digest));
  if (reply.status != 200) return reply.error();
  return {};
}

Result<std::string> OperatorClient::get_state(const Digest& digest, std::uint64_t bytes) {
  MUSTER_TRY(HttpReply reply, transport_->get("/v1/models/" + digest.hex(), kMostBytes));
  if (reply.status != 200) return reply.error();
  if (reply.body.size() != bytes || sha256(as_bytes(reply.body)) != digest) {
    return Error{ErrorCode::kDataLoss,
                 fmt::format("the state that came has {} bytes, or another digest than {}",
                             reply.body.size(), digest.hex()),
                 "digest_mismatch"};
  }
  return std::move(reply.body);
}

}  // namespace muster::cli
