#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "certs/certificate.h"
#include "certs/key.h"
#include "core/base/digest.h"
#include "core/base/error.h"
#include "core/base/json.h"

namespace muster {

// "https://host:port" and nothing else.
struct ServerUrl {
  std::string host;
  int port = 0;

  // Errors: kInvalidArgument, reason "bad_url" (http://, a path, no port, user info).
  static Result<ServerUrl> parse(std::string_view text);
  std::string text() const;
};

// A response as the caller needs it. Transport failures are Errors; every status the server sent is
// a value.
struct HttpReply {
  int status = 0;
  std::string body;
  std::map<std::string, std::string> headers;  // names in lower case

  // How long the server asks us to stay away (Muster-Retry-After-Ms, else Retry-After in seconds),
  // at most an hour; nullopt when it does not.
  std::optional<std::chrono::milliseconds> retry_after() const;
  // The problem+json body as an Error with a fitting code and the problem's code as reason.
  Error error() const;
};

// One keep-alive HTTPS connection to the server, with mutual TLS 1.3 (cpp-httplib's client inside).
// Used by devices and by the operator's commands. No redirect is followed, no compression asked
// for, TCP_NODELAY on.
//
// Every call ends: no silence longer than `idle_timeout`, and in all no slower than 1 KiB a second.
// A server that answers before a body is sent whole (413, 410) is heard, and the rest of the body
// is dropped. One thread at a time, except `interrupt`. After an error the next call connects anew.
// Errors of all calls: kUnavailable (not reachable, cut off: try again), kUnauthenticated (reason
// "server_not_verified": wrong authority, host or expired; nothing was sent; reason
// "certificate_rejected": the server refused ours), kDeadlineExceeded, kResourceExhausted (reply
// longer than asked for), kCancelled.
class Transport {
 public:
  struct Options {
    ServerUrl server;
    Certificate authority;
    std::optional<Certificate> certificate;  // none only for enrolment
    const PrivateKey* key = nullptr;         // of `certificate`; must outlive the transport
    std::chrono::milliseconds connect_timeout{10'000};
    std::chrono::milliseconds idle_timeout{30'000};  // longest silence while reading or writing
  };
  explicit Transport(Options options);
  ~Transport();

  Result<HttpReply> get(const std::string& path, std::uint64_t limit_bytes = 16 << 20);
  // The server may hold its answer back for `wait`. With `repeatable` the call may be sent twice: a
  // kept connection that the server closed in the same moment is then retried once, as it is for
  // all other calls.
  Result<HttpReply> post_json(const std::string& path, const Json& body,
                              std::chrono::milliseconds wait = {},
                              std::uint64_t limit_bytes = 16 << 20, bool repeatable = false);
  // Sends a file as the body of a PUT, streamed.
  Result<HttpReply> put_file(const std::string& path, const std::filesystem::path& file,
                             const std::map<std::string, std::string>& headers);
  // Streams the body of a 200 reply of exactly `bytes` bytes into `file` (replaced durably only
  // when complete and of digest `digest`). Errors also: kDataLoss, reason "digest_mismatch".
  Result<HttpReply> download(const std::string& path, const std::filesystem::path& file,
                             std::uint64_t bytes, const Digest& digest);

  // Ends the running call, from another thread (kCancelled); when none is running, the next one
  // ends before it begins.
  void interrupt();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster
