#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "certs/certificate.h"
#include "certs/identity.h"
#include "core/base/digest.h"
#include "core/base/error.h"
#include "core/base/json.h"

namespace muster::http {

// Who is at the other end, as the TLS handshake established it. Headers never change it.
struct Peer {
  std::string address;  // of the socket
  int port = 0;
  std::optional<Identity>
      identity;  // from the client certificate; none on listeners that ask for none
  std::optional<Certificate> certificate;
};

// A body that was streamed into a file while it arrived. The file goes away with the object unless
// `release`d.
class SpooledBody {
 public:
  SpooledBody(std::filesystem::path path, std::uint64_t bytes, Digest digest);
  ~SpooledBody();
  SpooledBody(const SpooledBody&) = delete;
  SpooledBody& operator=(const SpooledBody&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::uint64_t bytes() const { return bytes_; }
  const Digest& digest() const { return digest_; }  // SHA-256, computed while it arrived
  // The caller has moved the file elsewhere.
  void release() { released_ = true; }

 private:
  std::filesystem::path path_;
  std::uint64_t bytes_;
  Digest digest_;
  bool released_ = false;
};

// One request, complete and admitted: its head was checked, its caller's role fits the route, its
// body is all here.
struct Request {
  std::string id;  // random, also in logs and problem bodies
  std::string method;
  std::string path;
  std::map<std::string, std::string>
      params;  // from the route's pattern: {"job": "mnist-1", "n": "3"}
  std::map<std::string, std::string> query;
  std::map<std::string, std::string> headers;  // names in lower case; each at most once
  Peer peer;
  std::string body;                      // BodyRule::kMemory
  std::shared_ptr<SpooledBody> spooled;  // BodyRule::kSpool

  // Empty when missing. Names in lower case.
  const std::string& header(const std::string& name) const;
  const std::string& param(const std::string& name) const;
  // The identity's name; the route's roles guarantee that there is one.
  const std::string& caller() const;
};

// Part of a file as a body, sent without being read into memory.
struct FileSlice {
  std::filesystem::path path;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

struct Response {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::optional<FileSlice> file;  // instead of body
  std::vector<std::pair<std::string, std::string>> headers;
  bool close = false;  // end the connection after it
  std::string cause;   // for the access log alone, never sent

  static Response json(const Json& body, int status = 200);
  static Response no_content();
  // application/problem+json (RFC 9457); see core/protocol/messages.h. The request id is filled in
  // when it is sent.
  static Response problem(int status, std::string code, std::string detail);
  // The usual status for each ErrorCode; error.reason becomes the code. kInternal and kDataLoss
  // hide the message.
  static Response from_error(const Error& error);
};

}  // namespace muster::http
