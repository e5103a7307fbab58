#pragma once

// The one place that sets Asio's switches (Debian's libasio-dev, without Boost). Include it in .cc
// files and private headers only.
#ifndef ASIO_STANDALONE
#define ASIO_STANDALONE
#endif
#ifndef ASIO_NO_DEPRECATED
#define ASIO_NO_DEPRECATED
#endif
// g++ warns that ThreadSanitizer does not see fences. Ours are not needed: every hand-over between
// threads goes through a mutex of the io_context.
#if defined(__SANITIZE_THREAD__) && !defined(ASIO_DISABLE_FENCED_BLOCK)
#define ASIO_DISABLE_FENCED_BLOCK
#endif

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>

namespace muster::http {

using Clock = std::chrono::steady_clock;

}  // namespace muster::http
