#include <algorithm>
#include <exception>
#include <thread>
#include <utility>

#include "core/base/bytes.h"
#include "core/base/entropy.h"
#include "server/http/connection.h"
#include "server/http/connection_disk.h"

namespace muster::http {
namespace {

// Records read in one turn before other connections get theirs.
constexpr int kBurst = 16;
// A spooled body goes to the disk in pieces of this size, which is also all that it takes of
// memory.
constexpr std::size_t kPieceBytes = 64 * 1024;

}  // namespace

void Connection::begin_request() {
  phase_ = Phase::kHead;
  in_ = {};
  out_ = {};
  record_ = {};
  request_.reset();
  responder_.reset();
  close_after_ = false;
  expects_continue_ = false;
  body_left_ = 0;
  watched_bytes_ = 0;
  scanner_.emplace(HeadLimits{door_.limits.head_bytes, door_.limits.header_fields});
  // Nobody opens a connection to say nothing: the first request must begin within the head's time.
  const auto patience = requests_ == 0 ? door_.limits.head : door_.limits.idle;
  set_deadline(Clock::now() + patience);
  // Not read_head(): a peer that sends many requests at once must not make us call ourselves as
  // often.
  wait_readable();
}

void Connection::read_head() {
  for (int i = 0; i < kBurst; ++i) {
    const auto [step, bytes] = tls_.read(door_.scratch);
    if (step == TlsSocket::Step::kWantRead || step == TlsSocket::Step::kWantWrite) {
      return wait_for(step);
    }
    if (step != TlsSocket::Step::kDone) {
      // With a certificate that the peer's own side refuses, this is where its alert arrives.
      if (in_.empty() && requests_ == 0) log(0, "closed before a request: " + tls_.failure());
      return close("the peer closed the connection in the middle of a head");
    }
    if (in_.empty()) {
      ++requests_;
      began_ = Clock::now();
      auto id = random_hex(8);
      if (!id) return close("no random source");
      record_.request_id = *std::move(id);
      set_deadline(began_ + door_.limits.head);
    }
    in_.append(door_.scratch.data(), bytes);
    record_.bytes_in += bytes;
    const auto end = scanner_->scan(in_);
    if (!end) return refuse(end.error());
    if (*end > 0) return on_head(*end);
  }
  wait_readable();
}

void Connection::on_head(std::size_t length) {
  auto head = parse_head(std::string_view(in_).substr(0, length),
                         {door_.limits.head_bytes, door_.limits.header_fields});
  if (!head) return refuse(head.error());
  in_.erase(0, length);
  record_.method = head->method;
  record_.path = printable(head->path);
  close_after_ = head->close;
  expects_continue_ = head->expect_continue;

  auto admitted = admit(*std::move(head), caller_, door_.router, door_.hosts, record_.request_id);
  if (!admitted) return respond(std::move(admitted).error());
  request_ = std::move(admitted->request);
  route_ = admitted->route;
  body_left_ = admitted->body_bytes;
  if (route_->body.kind != BodyRule::Kind::kSpool) return begin_body();

  phase_ = Phase::kOpening;
  on_disk([this, id = request_->id] { return SpoolFile::open(door_.spool_folder, id); },
          [this](Result<std::shared_ptr<SpoolFile>> spool) {
            if (!spool) return respond(Response::from_error(spool.error()), spool.error().message);
            spool_ = *std::move(spool);
            begin_body();
          });
}

void Connection::begin_body() {
  meter_.start(Clock::now());
  set_deadline(meter_.window_end());
  if (expects_continue_ && body_left_ > 0 && in_.empty()) {
    phase_ = Phase::kContinue;
    out_ = "HTTP/1.1 100 Continue\r\n\r\n";
    out_at_ = 0;
    return write();
  }
  phase_ = Phase::kBody;
  read_body();
}

void Connection::read_body() {
  if (!in_.empty() && body_left_ > 0) {
    const auto taken = static_cast<std::size_t>(std::min<std::uint64_t>(in_.size(), body_left_));
    take_body(std::string_view(in_).substr(0, taken));
    in_.erase(0, taken);
  }
  for (int i = 0; i < kBurst; ++i) {
    if (!in_.empty()) close_after_ = true;  // more than was declared; never read as a request
    if (body_left_ == 0)
      return route_->body.kind == BodyRule::Kind::kSpool ? store_piece() : dispatch();
    if (piece_.size() >= kPieceBytes) return store_piece();
    const auto [step, bytes] = tls_.read(door_.scratch);
    if (step == TlsSocket::Step::kWantRead || step == TlsSocket::Step::kWantWrite) {
      return wait_for(step);
    }
    if (step != TlsSocket::Step::kDone) {
      return close("the peer closed the connection in the middle of a body");
    }
    record_.bytes_in += bytes;
    const auto taken = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, body_left_));
    take_body(std::string_view(door_.scratch.data(), taken));
    if (taken < bytes) close_after_ = true;
  }
  wait_readable();
}

void Connection::take_body(std::string_view bytes) {
  meter_.add(bytes.size());
  body_left_ -= bytes.size();
  (route_->body.kind == BodyRule::Kind::kSpool ? piece_ : request_->body).append(bytes);
}

void Connection::store_piece() {
  phase_ = Phase::kSpooling;
  meter_.pause(Clock::now());
  on_disk([spool = spool_, piece = std::exchange(piece_, {})] { return spool->append(piece); },
          [this](Status stored) {
            if (!stored) {
              return respond(Response::from_error(stored.error()), stored.error().message);
            }
            if (body_left_ == 0) return finish_spooled();
            phase_ = Phase::kBody;
            meter_.resume(Clock::now());
            set_deadline(meter_.window_end());
            read_body();
          });
}

void Connection::finish_spooled() {
  on_disk([spool = std::exchange(spool_, nullptr)] { return spool->finish(); },
          [this](Result<std::shared_ptr<SpooledBody>> body) {
            if (!body) return respond(Response::from_error(body.error()), body.error().message);
            request_->spooled = *std::move(body);
            dispatch();
          });
}

void Connection::dispatch() {
  phase_ = Phase::kHandler;
  in_ = {};
  set_deadline(Clock::now() + door_.limits.answer);
  responder_ = std::make_shared<Responder::State>();
  responder_->deliver = [io = door_.io, connection = weak_from_this(), sequence = requests_](
                            Response response, std::string note) {
    asio::post(*io, [connection, sequence, response = std::move(response),
                     note = std::move(note)]() mutable {
      const auto self = connection.lock();
      if (self == nullptr || self->phase_ == Phase::kClosed) return;
      self->guarded([&] { self->on_answer(sequence, std::move(response), std::move(note)); });
    });
  };
  door_.workers.post(
      [route = route_, state = responder_, request = std::exchange(request_, nullptr)] {
        state->handler_thread = std::this_thread::get_id();
        std::string thrown;
        try {
          route->handler(request, Responder(state));
        } catch (const std::exception& error) {
          thrown = std::string("internal: ") + error.what();
        } catch (...) {
          thrown = "internal: the handler threw no std::exception";
        }
        state->handler_thread = std::thread::id();
        if (thrown.empty()) return;
        state->answer(Response::from_error(Error{ErrorCode::kInternal, "threw", {}}), thrown);
      });
  watch();
}

}  // namespace muster::http
