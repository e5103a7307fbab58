#include "certs/host.h"

#include <arpa/inet.h>

#include <array>

namespace muster {

bool is_ip_address(const std::string& host) {
  // inet_pton reads up to the first NUL byte; what lies behind one must not slip through.
  if (host.find('\0') != std::string::npos) return false;
  std::array<unsigned char, 16> address{};
  return inet_pton(AF_INET, host.c_str(), address.data()) == 1 ||
         inet_pton(AF_INET6, host.c_str(), address.data()) == 1;
}

bool is_dns_name(const std::string& host) {
  if (host.empty() || host.size() > 253) return false;
  std::size_t label = 0;
  char last = '.';
  for (const char c : host) {
    const bool letter_or_digit =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!letter_or_digit && c != '-' && c != '.') return false;
    if (!letter_or_digit && last == '.') return false;  // an empty label, or a hyphen at its start
    if (c == '.' && last == '-') return false;
    label = c == '.' ? 0 : label + 1;
    if (label > 63) return false;
    last = c;
  }
  return last != '.' && last != '-';
}

}  // namespace muster
