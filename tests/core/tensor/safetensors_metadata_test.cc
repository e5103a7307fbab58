#include <gmock/gmock.h>

#include "core/base/random.h"
#include "tests/core/tensor/safetensors_files.h"

namespace muster {
namespace {

using files::error_of;
using files::file_of;
using files::layout;
using testing::HasSubstr;

// Up to three tensors of up to six values.
StateDict random_state(Random& random) {
  std::vector<StateLayout::Entry> entries;
  for (const char* name : {"a", "b.weight", "\"\n"}) {
    if (random.below(2) == 0) continue;
    const auto rows = static_cast<std::int64_t>(random.below(3));
    entries.push_back({name, {rows, 2}});
  }
  StateDict state(layout(std::move(entries)));
  for (float& value : state.values()) value = static_cast<float>(random.normal());
  return state;
}

TEST(WriteStateWithMetadata, IsTheDocumentedByteSequence) {
  StateDict state(layout({{"w", {2}}}));
  state.values()[0] = 1;
  state.values()[1] = -2;
  const std::string json =
      "{\"__metadata__\":{\"\":\"\",\"a\":\"q\\\"\\\\\\n\\u0001\x7f\u00e9\",\"b\":\"{}\"},"
      "\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}";
  const std::string spaces((64 - (8 + json.size()) % 64) % 64, ' ');
  const auto file = write_state(state, {{"b", "{}"}, {"a", "q\"\\\n\x01\x7f\u00e9"}, {"", ""}});
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(*file, file_of(json + spaces, std::vector<float>{1, -2}));
}

TEST(WriteStateWithMetadata, GivesBackStateAndTexts) {
  Random random(2);
  for (int i = 0; i < 500; ++i) {
    const StateDict state = random_state(random);
    SafetensorsMetadata metadata;
    for (std::uint64_t count = random.below(4); count > 0; --count) {
      std::string key(random.below(6), '\0');
      std::string text(random.below(90), '\0');
      for (char& c : key) c = static_cast<char>(random.below(128));
      for (char& c : text) c = static_cast<char>(random.below(128));
      metadata[key] = text;
    }
    const auto file = write_state(state, metadata);
    ASSERT_TRUE(file) << file.error().message;
    ASSERT_EQ(read_state(*file).value(), state);
    const auto header = parse_safetensors_header(*file, file->size()).value();
    ASSERT_EQ(header.metadata, metadata);
    ASSERT_EQ(header.data_begin % 64, 0U);
    const auto written = safetensors_header(state.layout(), metadata);
    ASSERT_TRUE(written);
    ASSERT_TRUE(as_text(*file).starts_with(*written));
    ASSERT_EQ(written->size(), header.data_begin);
    ASSERT_EQ(view_canonical_state(*file, state.layout()).has_value(), metadata.empty());
    if (metadata.empty()) {
      ASSERT_EQ(*file, write_state(state));
    }
  }
}

TEST(WriteStateWithMetadata, GivesAStateWithoutTensorsNoComma) {
  const auto file = write_state(StateDict(layout({})), {{"k", "v"}});
  ASSERT_TRUE(file);
  const std::string json = R"({"__metadata__":{"k":"v"}})";
  EXPECT_EQ(as_text(*file),
            std::string("\x38\0\0\0\0\0\0\0", 8) + json + std::string(56 - json.size(), ' '));
}

TEST(WriteStateWithMetadata, WritesWhatAReaderWithTheseLimitsTakesAndNoMore) {
  const StateDict state(layout({{"w", {2}}}));
  const std::size_t around =
      write_state(state, {{"k", ""}}).value().size() - write_state(state).size();
  for (const std::uint64_t limit : {std::uint64_t{1} << 20, std::uint64_t{4096}}) {
    std::string text(limit - 512, 'x');
    std::size_t fitting = 0;
    for (; write_state(state, {{"k", text}}, {.header_bytes = limit}); text += 'x') {
      const auto file = write_state(state, {{"k", text}}, {.header_bytes = limit});
      ASSERT_TRUE(parse_safetensors_header(*file, file->size(), {.header_bytes = limit}));
      fitting = text.size();
    }
    EXPECT_GT(fitting + around + 256, limit);
    const auto refused = safetensors_header(state.layout(), {{"k", text}}, {.header_bytes = limit});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
    EXPECT_EQ(refused.error().reason, "bad_metadata");
    EXPECT_THAT(refused.error().message, HasSubstr("over the limit " + std::to_string(limit)));
    const auto longer = write_state(state, {{"k", text}}, {.header_bytes = limit + 64});
    ASSERT_TRUE(longer);
    EXPECT_FALSE(parse_safetensors_header(*longer, longer->size(), {.header_bytes = limit}));
  }
  EXPECT_EQ(write_state(state, {}, {.header_bytes = 0}).value(), write_state(state));
}

TEST(WriteStateWithMetadata, RefusesBytesThatAreNotUtf8) {
  const StateDict state(layout({{"w", {2}}}));
  for (const SafetensorsMetadata& metadata :
       {SafetensorsMetadata{{"k", "\xff"}}, SafetensorsMetadata{{"k\xc3", "v"}}}) {
    const Error error = error_of(write_state(state, metadata));
    EXPECT_EQ(error.reason, "bad_metadata");
    EXPECT_THAT(error.message, HasSubstr("\"k"));
  }
}

}  // namespace
}  // namespace muster
