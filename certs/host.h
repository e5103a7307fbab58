#pragma once

#include <string>

// Private to certs: what may stand as a host in a certificate or be checked against one.
namespace muster {

// An IPv4 or IPv6 address in digits, without brackets, port or zone.
bool is_ip_address(const std::string& host);

// A DNS name: labels of letters, digits and inner hyphens (RFC 1123 section 2.1), at most 253
// characters.
bool is_dns_name(const std::string& host);

}  // namespace muster
