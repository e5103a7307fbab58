// The reader against files of the format's own library: those it must take, bit for bit, and those
// it must refuse.
#include <gtest/gtest.h>

#include "core/base/random.h"
#include "core/tensor/safetensors.h"
#include "tests/support/vectors.h"

namespace muster {
namespace {

Bytes file_of(const Json& test) {
  return base64_decode(test.at("file_base64").get<std::string>()).value();
}

// Calls `check` with the name and bytes of each file of a vector file.
template <typename Check>
void for_each_file(std::string_view vector_file, Check check) {
  const Json vectors_json = vectors::load(vector_file);
  for (const Json& test : vectors_json.at("cases")) {
    SCOPED_TRACE(test.at("name").get<std::string>());
    check(test, file_of(test));
  }
}

// The bytes that these values have in a file: integers and F64 as they are, the 16-bit floats as
// the float32 they stand for.
template <typename T>
Bytes little_endian(const Json& data) {
  Bytes bytes;
  for (const Json& item : data) {
    T value{};
    if constexpr (std::is_floating_point_v<T>) {
      value = static_cast<T>(vectors::number(item));
    } else {
      value = item.is_boolean() ? static_cast<T>(item.get<bool>()) : item.get<T>();
    }
    const auto view = std::as_bytes(std::span<const T>(&value, 1));
    bytes.insert(bytes.end(), view.begin(), view.end());
  }
  return bytes;
}

Bytes bytes_wanted(Dtype dtype, const Json& data) {
  switch (dtype) {
    case Dtype::kBool:
    case Dtype::kU8:
      return little_endian<std::uint8_t>(data);
    case Dtype::kI8:
      return little_endian<std::int8_t>(data);
    case Dtype::kI16:
      return little_endian<std::int16_t>(data);
    case Dtype::kU16:
      return little_endian<std::uint16_t>(data);
    case Dtype::kI32:
      return little_endian<std::int32_t>(data);
    case Dtype::kU32:
      return little_endian<std::uint32_t>(data);
    case Dtype::kI64:
      return little_endian<std::int64_t>(data);
    case Dtype::kU64:
      return little_endian<std::uint64_t>(data);
    case Dtype::kF64:
      return little_endian<double>(data);
    default:
      return little_endian<float>(data);
  }
}

bool is_float(Dtype dtype) {
  return dtype == Dtype::kF32 || dtype == Dtype::kF16 || dtype == Dtype::kBF16 ||
         dtype == Dtype::kF64;
}

TEST(SafetensorsVectors, HeaderOfEveryValidFileIsReadExactly) {
  for_each_file("safetensors_valid.json", [](const Json& test, const Bytes& file) {
    const auto header = parse_safetensors_header(file, file.size());
    ASSERT_TRUE(header) << header.error().message;
    const Json& wanted = test.at("expected").at("tensors");
    ASSERT_EQ(header->tensors.size(), wanted.size());
    for (const SafetensorsTensor& tensor : header->tensors) {
      const Json& entry = wanted.at(tensor.name);
      EXPECT_EQ(to_string(tensor.dtype), entry.at("dtype").get<std::string>());
      EXPECT_EQ(tensor.shape, vectors::shape(entry));
      const ByteView bytes =
          ByteView(file).subspan(header->data_begin + tensor.begin, tensor.end - tensor.begin);
      if (size_in_bytes(tensor.dtype) == 2 && is_float(tensor.dtype))
        continue;  // see the next test
      EXPECT_EQ(Bytes(bytes.begin(), bytes.end()), bytes_wanted(tensor.dtype, entry.at("data")));
    }
    const Json metadata = test.at("expected").value("metadata", Json::object());
    EXPECT_EQ(Json(header->metadata), metadata);
  });
}

TEST(SafetensorsVectors, StateOfEveryValidFileOfFloatsIsReadBitForBit) {
  int states = 0;
  for_each_file("safetensors_valid.json", [&](const Json& test, const Bytes& file) {
    const Json& wanted = test.at("expected").at("tensors");
    const SafetensorsHeader header = parse_safetensors_header(file, file.size()).value();
    const auto state = read_state(file);
    if (!std::all_of(header.tensors.begin(), header.tensors.end(),
                     [](const auto& tensor) { return is_float(tensor.dtype); })) {
      ASSERT_FALSE(state);
      EXPECT_EQ(state.error().reason, "dtype_mismatch") << state.error().message;
      return;
    }
    if (test.at("name") == "f64") {  // holds 1e300
      ASSERT_FALSE(state);
      EXPECT_EQ(state.error().reason, "non_finite") << state.error().message;
      return;
    }
    ASSERT_TRUE(state) << state.error().message;
    ASSERT_EQ(state->layout().tensors().size(), wanted.size());
    for (const SafetensorsTensor& tensor : header.tensors) {
      const ByteView got = std::as_bytes(state->tensor(tensor.name));
      EXPECT_EQ(Bytes(got.begin(), got.end()),
                little_endian<float>(wanted.at(tensor.name).at("data")));
    }
    ++states;
  });
  EXPECT_GE(states, 15);
}

TEST(SafetensorsVectors, EveryProperPrefixOfAValidFileIsRefused) {
  for_each_file("safetensors_valid.json", [](const Json&, const Bytes& file) {
    for (std::size_t length = 0; length < file.size(); ++length) {
      const Bytes cut(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(length));
      EXPECT_FALSE(parse_safetensors_header(cut, cut.size())) << length;
      EXPECT_FALSE(read_state(cut)) << length;
    }
  });
}

TEST(SafetensorsVectors, OneMoreByteAtTheEndIsRefused) {
  for_each_file("safetensors_valid.json", [](const Json&, Bytes file) {
    file.push_back(std::byte{0});
    const auto header = parse_safetensors_header(file, file.size());
    ASSERT_FALSE(header);
    EXPECT_EQ(header.error().reason, "bad_layout");
  });
}

TEST(SafetensorsVectors, EveryMalformedFileIsRefusedWithAReason) {
  for_each_file("safetensors_malformed.json", [](const Json& test, const Bytes& file) {
    const auto header = parse_safetensors_header(file, file.size());
    const auto state = read_state(file);
    if (test.at("test") == "either") return;
    ASSERT_EQ(test.at("test"), "reject");
    ASSERT_FALSE(header);
    EXPECT_EQ(header.error().code, ErrorCode::kInvalidArgument);
    EXPECT_TRUE(header.error().reason == "bad_header" || header.error().reason == "bad_layout")
        << header.error().reason;
    EXPECT_LT(header.error().message.size(), 600U) << header.error().message;
    EXPECT_TRUE(is_utf8(header.error().message));
    EXPECT_FALSE(state);
  });
}

// What the file says may change; what the reader then gives out must lie inside the file.
void expect_inside(const Bytes& file) {
  const auto header = parse_safetensors_header(file, file.size());
  (void)read_state(file);
  if (!header) return;
  ASSERT_LE(header->data_begin, file.size());
  std::uint64_t place = 0;
  for (const SafetensorsTensor& tensor : header->tensors) {
    ASSERT_EQ(tensor.begin, place);
    ASSERT_LE(tensor.end, file.size() - header->data_begin);
    place = tensor.end;
  }
}

TEST(SafetensorsVectors, EveryFlippedBitAndEveryJsonCharacterInEveryHeaderByteIsSurvived) {
  constexpr std::string_view kJsonCharacters("{}[]:,\"\\0189-+.eE \n\0\xff", 21);
  for_each_file("safetensors_valid.json", [&](const Json&, const Bytes& file) {
    const std::size_t header_end = static_cast<std::size_t>(load_le64(file)) + 8;
    for (std::size_t at = 0; at < header_end; ++at) {
      SCOPED_TRACE(at);
      Bytes changed = file;
      for (int bit = 0; bit < 8; ++bit) {
        changed[at] = file[at] ^ (std::byte{1} << bit);
        ASSERT_NO_FATAL_FAILURE(expect_inside(changed)) << "bit " << bit;
      }
      for (const char character : kJsonCharacters) {
        changed[at] = static_cast<std::byte>(character);
        ASSERT_NO_FATAL_FAILURE(expect_inside(changed)) << "character " << character;
      }
    }
  });
}

TEST(SafetensorsVectors, RandomDamageIsSurvived) {
  Random random(11);
  for (const std::string_view name : {"safetensors_valid.json", "safetensors_malformed.json"}) {
    for_each_file(name, [&](const Json&, const Bytes& file) {
      if (file.empty() || file.size() > 4096) return;
      for (int i = 0; i < 200; ++i) {
        Bytes changed = file;
        for (std::uint64_t edits = 1 + random.below(4); edits > 0; --edits) {
          changed[random.below(changed.size())] = static_cast<std::byte>(random.below(256));
        }
        if (random.below(2) == 0) changed.resize(random.below(2 * changed.size()));
        ASSERT_NO_FATAL_FAILURE(expect_inside(changed));
      }
    });
  }
}

}  // namespace
}  // namespace muster
