#include <exception>
#include <utility>

#include "server/http/connection.h"
#include "server/http/connection_disk.h"

namespace muster::http {
namespace {

constexpr std::size_t kPieceBytes = 64 * 1024;
// Sent in one turn before other connections get theirs.
constexpr std::size_t kTurnBytes = 256 * 1024;
// Records read in one turn.
constexpr int kBurst = 16;
// What a peer may send while its answer is being made, before we stop looking.
constexpr std::uint64_t kWatchedBytes = 64 * 1024;

}  // namespace

// Nothing should arrive now. Bytes that do belong to no request we would answer: the connection
// ends after the response. The end of the stream is noticed at once, so that a long poll knows that
// nobody waits.
void Connection::watch() {
  for (int i = 0; watched_bytes_ < kWatchedBytes; ++i) {
    if (i == kBurst) return wait_readable();
    const auto [step, bytes] = tls_.read(door_.scratch);
    if (step == TlsSocket::Step::kWantRead || step == TlsSocket::Step::kWantWrite) {
      return wait_for(step);
    }
    if (step != TlsSocket::Step::kDone) return close("the peer went away before the answer");
    close_after_ = true;
    watched_bytes_ += bytes;
    record_.bytes_in += bytes;
  }
}

void Connection::on_answer(std::uint64_t sequence, Response response, std::string note) {
  if (phase_ != Phase::kHandler || sequence != requests_) return;
  watch();  // what has arrived by now, or the end
  if (phase_ == Phase::kHandler) respond(std::move(response), std::move(note));
}

void Connection::refuse(const Refusal& refusal) {
  auto response = Response::problem(refusal.status, refusal.code, refusal.detail);
  response.close = true;
  respond(std::move(response));
}

void Connection::respond(Response response, std::string note) {
  const bool bytes_left = body_left_ > 0 || !in_.empty();
  const bool close_it = close_after_ || bytes_left || door_.stopping ||
                        requests_ >= door_.limits.requests_per_connection;
  if (spool_ != nullptr) door_.disk.post([spool = std::exchange(spool_, nullptr)] {});
  request_.reset();
  piece_ = {};
  if (note.empty() && !response.cause.empty()) note = response.cause;
  wire_ = write_response(std::move(response), record_.request_id, record_.method, close_it);
  if (!note.empty()) wire_.problem = std::move(note);
  out_ = std::exchange(wire_.bytes, {});
  out_at_ = 0;
  meter_.start(Clock::now());
  if (!wire_.file) {
    phase_ = Phase::kWriting;
    set_deadline(meter_.window_end());
    return write();
  }
  phase_ = Phase::kReadingFile;
  meter_.pause(Clock::now());
  on_disk([slice = *std::exchange(wire_.file, std::nullopt)] { return FileSource::open(slice); },
          [this](Result<std::shared_ptr<FileSource>> file) {
            if (!file) return respond(Response::from_error(file.error()), file.error().message);
            file_ = *std::move(file);
            read_piece();
          });
}

void Connection::read_piece() {
  phase_ = Phase::kReadingFile;
  on_disk([file = file_] { return file->read(kPieceBytes); },
          [this](Result<std::string> piece) {
            if (!piece)
              return close(piece.error().message);  // the head is out: no other way to tell
            out_.append(*piece);
            phase_ = Phase::kWriting;
            meter_.resume(Clock::now());
            set_deadline(meter_.window_end());
            write();
          });
}

void Connection::write() {
  for (std::size_t turn = 0; out_at_ < out_.size();) {
    if (turn >= kTurnBytes) return wait_writable();
    const auto [step, bytes] = tls_.write(std::string_view(out_).substr(out_at_));
    if (step == TlsSocket::Step::kWantRead || step == TlsSocket::Step::kWantWrite) {
      return wait_for(step);
    }
    if (step != TlsSocket::Step::kDone) return close("the peer went away during the answer");
    out_at_ += bytes;
    turn += bytes;
    record_.bytes_out += bytes;
    meter_.add(bytes);
  }
  out_.clear();
  out_at_ = 0;
  if (phase_ == Phase::kContinue) {
    phase_ = Phase::kBody;
    return read_body();
  }
  if (file_ != nullptr && file_->left() > 0) {
    meter_.pause(Clock::now());
    return read_piece();
  }
  end_response();
}

void Connection::end_response() {
  if (file_ != nullptr) door_.disk.post([file = std::exchange(file_, nullptr)] {});
  log(wire_.status, wire_.problem);
  if (wire_.close) return linger();
  begin_request();
}

}  // namespace muster::http
