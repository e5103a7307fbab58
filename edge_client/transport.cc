#include "edge_client/transport.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <httplib.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstring>

#include "certs/tls.h"
#include "core/base/bytes.h"
#include "edge_client/body_file.h"
#include "edge_client/tls_connection.h"

// cpp-httplib writes requests and reads replies; its own socket code is replaced through its
// virtual functions. (Its SSLClient loads the system's trust store, hides why a connection failed,
// cannot be interrupted while it connects, and waits without a total limit.)
namespace muster {
namespace {

constexpr std::uint64_t kHeadBytes = 64 * 1024;
constexpr std::uint64_t kSmallReplyBytes = 64 * 1024;  // receipts and problem reports
constexpr std::size_t kPieceBytes = 16384;

// What a call has come to.
struct CallState {
  std::optional<Error> failure;  // the first one; httplib has no room for it
  bool heard = false;            // something of a reply came
  bool head_done = false;
};

// httplib's view of a TlsConnection during one call.
class CallStream : public httplib::Stream {
 public:
  CallStream(TlsConnection& connection, CallClock& clock, CallState& state)
      : connection_(connection), clock_(clock), state_(state) {}

  bool is_readable() const override { return true; }
  bool is_writable() const override { return !state_.failure; }

  // Buffered: httplib reads heads byte by byte.
  ssize_t read(char* target, std::size_t size) override {
    if (begin_ == end_) {
      if (state_.failure) return -1;
      if (!state_.head_done && clock_.bytes_received() > kHeadBytes) {
        return fail({ErrorCode::kResourceExhausted,
                     fmt::format("the reply's head is longer than {} bytes", kHeadBytes),
                     "reply_too_large"});
      }
      auto bytes = connection_.read(buffer_.data(), buffer_.size(), clock_);
      if (!bytes) return fail(std::move(bytes).error());
      if (*bytes == 0) return end_of_connection();
      begin_ = 0;
      end_ = *bytes;
      state_.heard = true;
    }
    const std::size_t part = std::min(size, end_ - begin_);
    std::memcpy(target, buffer_.data() + begin_, part);
    begin_ += part;
    return static_cast<ssize_t>(part);
  }

  ssize_t write(const char* data, std::size_t size) override {
    if (state_.failure) return -1;
    auto written = connection_.write(data, size, clock_);
    if (!written) return fail(std::move(written).error());
    return static_cast<ssize_t>(size);
  }

  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}
  socket_t socket() const override { return connection_.descriptor(); }

 private:
  ssize_t fail(Error error) {
    state_.failure = std::move(error);
    return -1;
  }
  ssize_t end_of_connection() {
    if (state_.heard) return 0;
    return fail(
        {ErrorCode::kUnavailable, "the connection was closed before a reply", "connection_closed"});
  }

  TlsConnection& connection_;
  CallClock& clock_;
  CallState& state_;
  std::array<char, kPieceBytes> buffer_;
  std::size_t begin_ = 0, end_ = 0;
};

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

}  // namespace

class Transport::Impl : public httplib::ClientImpl {
 public:
  // What one call sends, and what happens to its reply.
  struct Call {
    httplib::Request request;
    std::chrono::milliseconds wait{0};
    std::uint64_t limit_bytes = 0;
    bool repeatable = false;
    DownloadFile* download = nullptr;  // takes the body of a 200
  };

  explicit Impl(Transport::Options options)
      : httplib::ClientImpl(options.server.host, options.server.port),
        options_(std::move(options)) {
    set_keep_alive(true);
    set_follow_location(false);
    set_decompress(false);
    set_url_encode(false);
    context_.reset(SSL_CTX_new(TLS_client_method()));
    if (!context_) {
      ready_ = Error{ErrorCode::kInternal, "TLS set-up: out of memory"};
      return;
    }
    const Certificate* own = options_.certificate ? &*options_.certificate : nullptr;
    ready_ = configure_client_tls(context_.get(), options_.authority, own, options_.key);
  }
  ~Impl() override = default;

  Result<HttpReply> run(const Call& call) {
    MUSTER_TRY_STATUS(ready_);
    const std::string& path = call.request.path;
    if (!std::all_of(path.begin(), path.end(), [](char c) { return c > ' ' && c < 0x7f; })) {
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("path \"{}\" is not one for HTTP", printable(path))};
    }
    if (connection_ && !connection_->is_idle()) stop();
    const bool reused = connection_ != nullptr;
    auto reply = run_once(call);
    // The server ended a kept connection while our request was on its way: nobody's fault, so once
    // more.
    if (!reply && reused && call.repeatable && reply.error().reason == "connection_closed" &&
        !state_.heard) {
      reply = run_once(call);
    }
    if (!reply || (connection_ && connection_->early_reply())) stop();
    return reply;
  }

  void interrupt() { interrupt_.request(); }

 private:
  Result<HttpReply> run_once(const Call& call) {
    if (interrupt_.take())
      return Error{ErrorCode::kCancelled, "stopped before the call", "interrupted"};
    wait_ = call.wait;
    clock_.emplace(options_.idle_timeout, wait_);
    state_ = {};
    HttpReply reply;
    httplib::Request request = call.request;
    request.set_header("Accept-Encoding", "identity");
    request.response_handler = [&](const httplib::Response& head) {
      return take_head(call, head, reply);
    };
    request.content_receiver = [&](const char* data, std::size_t size, std::uint64_t,
                                   std::uint64_t) {
      return take_body(call, {data, size}, reply);
    };
    const auto result = send_caught(request);
    const std::string name = fmt::format("{} {}", request.method, request.path);
    if (state_.failure) {
      if (state_.failure->code == ErrorCode::kCancelled)
        interrupt_.take();  // spent with the call that it ended
      return with_context(*std::move(state_.failure), name);
    }
    if (!result) {
      return Error{ErrorCode::kUnavailable,
                   fmt::format("{}: the answer of {} is broken ({})", name, options_.server.text(),
                               httplib::to_string(result.error())),
                   "bad_reply"};
    }
    if (!state_.head_done) take_head(call, *result, reply);  // 204: httplib calls no handler
    return reply;
  }

  httplib::Result send_caught(const httplib::Request& request) {
    try {
      return send(request);
    } catch (const std::exception& exception) {
      state_.failure =
          Error{ErrorCode::kInternal, fmt::format("HTTP library: {}", exception.what())};
      return {nullptr, httplib::Error::Unknown};
    }
  }

  bool take_head(const Call& call, const httplib::Response& head, HttpReply& reply) {
    state_.head_done = true;
    reply.status = head.status;
    for (const auto& [name, value] : head.headers) reply.headers[lower(name)] = value;
    if (reply.headers.contains("content-encoding")) {
      return refuse({ErrorCode::kUnavailable, "the reply is compressed, which was not asked for",
                     "bad_reply"});
    }
    if (call.download == nullptr || head.status != 200) return true;
    auto started = call.download->start(reply.headers);
    return started ? true : refuse(std::move(started).error());
  }

  bool take_body(const Call& call, std::string_view piece, HttpReply& reply) {
    if (call.download != nullptr && reply.status == 200) {
      auto taken = call.download->take(piece);
      return taken ? true : refuse(std::move(taken).error());
    }
    if (reply.body.size() + piece.size() > call.limit_bytes) {
      return refuse({ErrorCode::kResourceExhausted,
                     fmt::format("the reply is longer than {} bytes", call.limit_bytes),
                     "reply_too_large"});
    }
    reply.body.append(piece);
    return true;
  }

  bool refuse(Error error) {
    state_.failure = std::move(error);
    return false;
  }

  bool create_and_connect_socket(Socket& socket, httplib::Error& error) override {
    error = httplib::Error::Connection;
    auto connection =
        TlsConnection::open(context_.get(), options_.server, options_.connect_timeout, interrupt_);
    if (!connection) return refuse(std::move(connection).error());
    // httplib closes the descriptor it is given, so it gets one of its own.
    socket.sock = ::fcntl((*connection)->descriptor(), F_DUPFD_CLOEXEC, 0);
    if (socket.sock < 0) {
      return refuse({ErrorCode::kUnavailable, fmt::format("socket: {}", std::strerror(errno))});
    }
    connection_ = *std::move(connection);
    clock_.emplace(options_.idle_timeout, wait_);
    error = httplib::Error::Success;
    return true;
  }

  bool process_socket(const Socket&, std::function<bool(httplib::Stream&)> callback) override {
    CallStream stream(*connection_, *clock_, state_);
    return callback(stream);
  }

  void shutdown_ssl(Socket&, bool) override { connection_.reset(); }

  Transport::Options options_;
  Interrupt interrupt_;
  TlsContext context_;
  Status ready_;
  std::unique_ptr<TlsConnection> connection_;
  // Of the call that runs:
  std::chrono::milliseconds wait_{0};
  std::optional<CallClock> clock_;
  CallState state_;
};

Transport::Transport(Options options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Transport::~Transport() = default;

Result<HttpReply> Transport::get(const std::string& path, std::uint64_t limit_bytes) {
  Impl::Call call;
  call.request.method = "GET";
  call.request.path = path;
  call.limit_bytes = limit_bytes;
  call.repeatable = true;
  return impl_->run(call);
}

Result<HttpReply> Transport::post_json(const std::string& path, const Json& body,
                                       std::chrono::milliseconds wait, std::uint64_t limit_bytes,
                                       bool repeatable) {
  Impl::Call call;
  call.request.method = "POST";
  call.request.path = path;
  call.request.set_header("Content-Type", "application/json");
  call.request.body = body.dump(-1, ' ', false, Json::error_handler_t::replace);
  call.wait = wait;
  call.limit_bytes = limit_bytes;
  call.repeatable = repeatable;
  return impl_->run(call);
}

Result<HttpReply> Transport::put_file(const std::string& path, const std::filesystem::path& file,
                                      const std::map<std::string, std::string>& headers) {
  MUSTER_TRY(const UploadFile upload, UploadFile::open(file));
  Impl::Call call;
  call.request.method = "PUT";
  call.request.path = path;
  call.request.set_header("Content-Type", "application/octet-stream");
  for (const auto& [name, value] : headers) call.request.set_header(name, value);
  call.request.content_length_ = static_cast<std::size_t>(upload.bytes());
  call.request.content_provider_ = [&](std::size_t offset, std::size_t left,
                                       httplib::DataSink& sink) {
    std::array<char, kPieceBytes> piece;
    const std::size_t bytes = upload.read(offset, piece.data(), std::min(left, piece.size()));
    return bytes > 0 && sink.write(piece.data(), bytes);
  };
  call.limit_bytes = kSmallReplyBytes;
  call.repeatable = true;
  return impl_->run(call);
}

Result<HttpReply> Transport::download(const std::string& path, const std::filesystem::path& file,
                                      std::uint64_t bytes, const Digest& digest) {
  DownloadFile download(file, bytes, digest);
  Impl::Call call;
  call.request.method = "GET";
  call.request.path = path;
  call.limit_bytes = kSmallReplyBytes;
  call.repeatable = true;
  call.download = &download;
  MUSTER_TRY(HttpReply reply, impl_->run(call));
  if (reply.status == 200) {
    if (auto kept = download.finish(); !kept)
      return with_context(std::move(kept).error(), "GET " + path);
  }
  return reply;
}

void Transport::interrupt() {
  impl_->interrupt();
}

}  // namespace muster
