#pragma once

#include <chrono>

#include "core/base/error.h"
#include "edge_client/tls_connection.h"

namespace muster {

// Waits until `socket` is ready for `events` (poll's bits), the deadline passes or `interrupt` is
// requested. Gives the bits that came. Errors: kDeadlineExceeded, kCancelled.
Result<short> wait_for(int socket, short events, std::chrono::steady_clock::time_point deadline,
                       const Interrupt& interrupt);

// A non-blocking TCP connection without Nagle's delay: looks the name up and tries its addresses in
// turn, each for an equal part of the time left. Errors: kUnavailable, kDeadlineExceeded,
// kCancelled.
Result<int> connect_socket(const ServerUrl& server, std::chrono::steady_clock::time_point deadline,
                           const Interrupt& interrupt);

}  // namespace muster
