#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "core/aggregate/encoding/decode.h"
#include "core/aggregate/encoding/encode.h"
#include "core/base/file.h"
#include "core/base/random.h"

namespace muster::encodings {

using Format = UpdateEncoding::Format;

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "muster-encoding-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// Tensors of odd sizes, one without elements, one scalar, names with characters that JSON escapes.
inline LayoutPtr small_layout() {
  return *StateLayout::create({{"b", {7}},
                               {"a.weight", {3, 5}},
                               {"empty", {0, 4}},
                               {"s", {}},
                               {"\"q\"/\n", {11}},
                               {"z", {2500}}});
}

inline StateDict random_state(const LayoutPtr& layout, std::uint64_t seed, double scale = 1) {
  Random random(seed);
  StateDict state(layout);
  for (float& value : state.values()) value = static_cast<float>(scale * random.normal());
  return state;
}

inline UpdateEncoding encoding_of(const Json& json) {
  auto encoding = update_encoding_from_json(json, "encoding");
  EXPECT_TRUE(encoding) << encoding.error().message;
  return *encoding;
}

// One of each kind.
inline std::vector<UpdateEncoding> all_encodings() {
  std::vector<UpdateEncoding> all;
  for (const char* compression : {"none", "zstd"}) {
    for (const char* format : {"float32", "float16", "bfloat16", "int8"}) {
      for (const char* content : {"state", "delta"}) {
        all.push_back(
            encoding_of({{"format", format}, {"content", content}, {"compression", compression}}));
      }
    }
    all.push_back(
        encoding_of({{"format", "top_k"}, {"fraction", 0.1}, {"compression", compression}}));
  }
  return all;
}

inline Result<ValuesPtr> open_body(const TemporaryFolder& folder, ByteView body,
                                   const UpdateEncoding& encoding, const LayoutPtr& layout) {
  const auto path = folder.path() / "body";
  std::ofstream(path, std::ios::binary) << as_text(body);
  MUSTER_TRY(MappedFile file, MappedFile::open(path));
  std::filesystem::remove(path);
  return open_update(std::move(file), encoding, layout, folder.path());
}

// All values, read at once.
inline std::vector<float> all_of(const UpdateValues& values) {
  std::vector<float> all(static_cast<std::size_t>(values.size()));
  const float* read = values.read(0, values.size(), all.data());
  if (read != all.data()) all.assign(read, read + values.size());
  return all;
}

}  // namespace muster::encodings
