#pragma once

#include <cstdint>
#include <fstream>
#include <string>

namespace muster {

// Bytes that this process has in memory of files with this in their name.
inline std::uint64_t resident_bytes(const std::string& name) {
  std::ifstream maps("/proc/self/smaps");
  bool of_file = false;
  std::uint64_t bytes = 0;
  for (std::string line; std::getline(maps, line);) {
    // "<begin>-<end> <rights> ... <name>", then "<Field>: ..." for that range.
    if (line.find('-') < line.find(' ')) of_file = line.find(name) != std::string::npos;
    if (of_file && line.starts_with("Rss:")) bytes += std::stoull(line.substr(4)) * 1024;
  }
  return bytes;
}

}  // namespace muster
