#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "server/http/admission.h"
#include "server/http/asio.h"
#include "server/http/door.h"
#include "server/http/file_source.h"
#include "server/http/head_parser.h"
#include "server/http/rate_meter.h"
#include "server/http/responder_state.h"
#include "server/http/response_writer.h"
#include "server/http/spool_file.h"
#include "server/http/tls_socket.h"

namespace muster::http {

// One TCP connection, from accept to close, as a state machine: each phase has one deadline, and an
// event (readable, writable, deadline, a finished job) leads to the next. Every phase but kHandler
// and the two that wait for the disk waits for the peer alone.
//
// Kept alive by Door::connections and by what is pending; everything runs on the io thread.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(Door& door, asio::ip::tcp::socket socket, std::string address, int port);

  void start();
  // Closes it if no request is under way; otherwise it closes after its response.
  void close_if_idle();
  // At once. `why` goes to the access log if a request was under way.
  void close(std::string_view why);

  const std::string& address() const { return caller_.peer.address; }

 private:
  enum class Phase {
    kHandshake,
    kHead,         // waiting for a request (nothing received yet) or reading its head
    kOpening,      // the spool file is being made
    kContinue,     // 100 Continue is being sent
    kBody,         // reading
    kSpooling,     // a piece of the body is being written
    kHandler,      // the handler has it; watching whether the peer is still there
    kReadingFile,  // a piece of the response is being read
    kWriting,
    kLinger,  // everything is said; what the peer still sends is thrown away for a moment
    kClosed,
  };

  // connection.cc: events, deadlines, handshake, end.
  void wait_readable();
  void wait_writable();
  void wait_for(TlsSocket::Step step);
  void set_deadline(Clock::time_point when);
  void on_ready();
  void on_deadline();
  template <typename Function>
  void guarded(Function function);
  void handshake();
  void log(int status, std::string_view problem);
  void linger();
  void drain();

  // connection_request.cc: head and body.
  void begin_request();
  void read_head();
  void on_head(std::size_t length);
  void begin_body();
  void read_body();
  void take_body(std::string_view bytes);
  void store_piece();
  void finish_spooled();
  void dispatch();

  // connection_response.cc: the answer.
  void watch();
  void on_answer(std::uint64_t sequence, Response response, std::string note);
  void respond(Response response, std::string note = {});
  void refuse(const Refusal& refusal);
  void read_piece();
  void write();
  void end_response();

  // Runs `work` on a disk thread, then `then(its result)` here, unless the connection was closed
  // meanwhile.
  template <typename Work, typename Then>
  void on_disk(Work work, Then then);

  Door& door_;
  asio::ip::tcp::socket socket_;
  TlsSocket tls_;
  asio::steady_timer timer_;
  std::uint64_t timer_generation_ = 0;
  bool waits_readable_ = false;
  bool waits_writable_ = false;
  Phase phase_ = Phase::kHandshake;
  Caller caller_;
  std::uint64_t requests_ = 0;  // begun, this one included

  // The request under way.
  std::string in_;  // received and not yet used
  std::optional<HeadScanner> scanner_;
  std::shared_ptr<Request> request_;
  const Route* route_ = nullptr;
  bool close_after_ = false;  // the peer's wish, bytes that belong to no request, or a refusal
  bool expects_continue_ = false;
  std::uint64_t body_left_ = 0;
  std::string piece_;  // of a spooled body
  std::shared_ptr<SpoolFile> spool_;
  std::shared_ptr<Responder::State> responder_;
  std::uint64_t watched_bytes_ = 0;
  RateMeter meter_;
  Clock::time_point began_{};
  AccessRecord record_;

  // Its response.
  WireResponse wire_;
  std::string out_;
  std::size_t out_at_ = 0;
  std::shared_ptr<FileSource> file_;
  std::uint64_t drained_bytes_ = 0;
};

}  // namespace muster::http
