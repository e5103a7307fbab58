#pragma once

// The one place that sets Asio's switches (Debian's libasio-dev, without Boost). Include it in .cc
// files and private headers only.
#ifndef ASIO_STANDALONE
#define ASIO_STANDALONE
#endif
#ifndef ASIO_NO_DEPRECATED
#define ASIO_NO_DEPRECATED
#endif

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>

namespace muster::http {

using Clock = std::chrono::steady_clock;

}  // namespace muster::http
