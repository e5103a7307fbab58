#include "server/access_log.h"

#include <cstdint>
#include <optional>

namespace muster {
std::function<void(const http::AccessRecord&)> AccessLog::for_listener(std::string listener) {
  return [this, listener = std::move(listener)](const http::AccessRecord& record) {
    const bool good = record.status >= 100 && record.status < 400;
    // A device that looks for its authority, or leaves while it waits for work, does no harm.
    const bool left =
        record.status == 0 && (record.problem.starts_with("closed before a request") ||
                               record.problem == "the peer went away before the answer");
    if (good || left) {
      log_->debug("{} {} {} {} {} {} in={} out={} us={}", listener, record.peer, record.caller,
                  record.method, record.path, record.status, record.bytes_in, record.bytes_out,
                  record.took.count());
      return;
    }
    if (record.status == 0 && record.problem.empty()) return;  // the peer closed an idle connection
    const std::optional<std::uint64_t> left_out = lines_.admit();
    if (!left_out) return;
    if (*left_out > 0) log_->warn("{} refusals were not logged one by one", *left_out);
    const auto level = record.status >= 500 ? spdlog::level::err : spdlog::level::warn;
    log_->log(level, "{} {} {} {} {} {} problem={} request={}", listener, record.peer,
              record.caller.empty() ? "-" : record.caller,
              record.method.empty() ? "-" : record.method, record.path.empty() ? "-" : record.path,
              record.status, record.problem, record.request_id);
  };
}

}  // namespace muster
