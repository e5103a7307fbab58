#include "core/aggregate/encoding/decode.h"

#include <gmock/gmock.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "core/aggregate/encoding/bodies.h"
#include "core/base/zstd.h"
#include "core/tensor/safetensors.h"
#include "tests/core/aggregate/encoding/encoding_support.h"
#include "tests/support/resident_memory.h"

namespace muster {
namespace {

using namespace encodings;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

const UpdateEncoding kFloat32{};
const UpdateEncoding kInt8{.format = Format::kInt8, .content = UpdateContent::kDelta};
const UpdateEncoding kTopK{
    .format = Format::kTopK, .content = UpdateContent::kDelta, .fraction = 0.25};

// A tensor of a body that is made by hand.
struct Part {
  std::string name;
  Dtype dtype;
  Shape shape;
  Bytes data;
};

template <typename T>
Bytes bytes_of(const std::vector<T>& values) {
  Bytes bytes(values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

Bytes join(std::string_view header, const std::vector<Part>& parts) {
  Bytes file(as_bytes(header).begin(), as_bytes(header).end());
  for (const Part& part : parts) file.insert(file.end(), part.data.begin(), part.data.end());
  return file;
}

// Canonical but for the order and the kinds of the parts.
Bytes file_of(const std::vector<Part>& parts) {
  std::vector<SafetensorsTensor> tensors;
  std::uint64_t at = 0;
  for (const Part& part : parts) {
    tensors.push_back({part.name, part.dtype, part.shape, at, at + part.data.size()});
    at += part.data.size();
  }
  return join(safetensors_header(tensors), parts);
}

// With `spaces` after the JSON, so that the data begins anywhere.
Bytes shifted(const Bytes& file, std::size_t spaces) {
  const std::size_t length = load_le64(file);
  std::size_t end = 8 + length;
  while (file[end - 1] == std::byte{' '}) --end;
  Bytes moved(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(end));
  moved.resize(moved.size() + spaces, std::byte{' '});
  store_le64(moved.size() - 8, moved);
  moved.insert(moved.end(), file.begin() + 8 + static_cast<std::ptrdiff_t>(length), file.end());
  return moved;
}

class Decode : public testing::Test {
 protected:
  Result<ValuesPtr> open(ByteView body, const UpdateEncoding& encoding) const {
    return open_body(folder_, body, encoding, layout_);
  }
  std::string refusal(const Bytes& body, const UpdateEncoding& encoding) const {
    const auto values = open(body, encoding);
    if (values) return "it was taken";
    EXPECT_EQ(values.error().code, ErrorCode::kInvalidArgument) << values.error().message;
    return values.error().reason + ": " + values.error().message;
  }
  Bytes good(const UpdateEncoding& encoding) const {
    return encode_update(encoding, StateDict(layout_), state_, nullptr, 1)->body;
  }

  TemporaryFolder folder_;
  LayoutPtr layout_ = *StateLayout::create({{"a", {2, 3}}, {"b", {6}}});
  StateDict state_ = random_state(layout_, 1);
};

class EveryBody : public Decode, public testing::WithParamInterface<UpdateEncoding> {};
INSTANTIATE_TEST_SUITE_P(Encodings, EveryBody, testing::ValuesIn(all_encodings()));

TEST_P(EveryBody, EveryProperPrefixAndEveryAddedByteIsRefused) {
  const Bytes body = good(GetParam());
  const auto reasons =
      AnyOf(HasSubstr("bad_header"), HasSubstr("bad_layout"), HasSubstr("bad_compression"));
  for (std::size_t size = 0; size < body.size(); ++size) {
    const Bytes prefix(body.begin(), body.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_THAT(refusal(prefix, GetParam()), reasons) << size;
  }
  Bytes longer = body;
  longer.push_back(std::byte{0});
  EXPECT_THAT(refusal(longer, GetParam()), reasons);
}

// A body of one encoding is none of another.
TEST_P(EveryBody, BodiesOfOtherFormatsAreRefused) {
  for (const UpdateEncoding& other : all_encodings()) {
    if (other.format == GetParam().format && other.compressed == GetParam().compressed) continue;
    EXPECT_FALSE(open(good(other), GetParam())) << describe(other);
  }
}

// Blocks of any length from anywhere, read again after they were released.
TEST_P(EveryBody, RandomBlocksAreThoseOfTheWhole) {
  const LayoutPtr layout = small_layout();
  const StateDict global = random_state(layout, 3);
  const auto update = encode_update(GetParam(), global, random_state(layout, 4), nullptr, 1);
  const auto values = open_body(folder_, update->body, GetParam(), layout);
  ASSERT_TRUE(values) << values.error().message;
  const std::vector<float> all = all_of(**values);
  Random random(2);
  std::vector<float> scratch(all.size());
  for (int i = 0; i < 500; ++i) {
    const std::size_t begin = random.below(all.size() + 1);
    const std::size_t count = random.below(all.size() - begin + 1);
    const auto from = static_cast<std::int64_t>(begin);
    const auto length = static_cast<std::int64_t>(count);
    std::fill(scratch.begin(), scratch.end(), 77.0F);
    const float* read = (*values)->read(from, length, scratch.data());
    EXPECT_EQ(std::memcmp(read, all.data() + begin, count * sizeof(float)), 0);
    if (i % 3 == 0) (*values)->release(from, length);
  }
  (*values)->release(0, (*values)->size());
  EXPECT_EQ(all_of(**values), all);
}

TEST_P(EveryBody, ALayoutWithoutElementsIsTaken) {
  const LayoutPtr empty = *StateLayout::create({{"e", {0}}});
  const StateDict state(empty);
  const auto update = encode_update(GetParam(), state, state, nullptr, 1);
  ASSERT_TRUE(update) << update.error().message;
  const auto values = open_body(folder_, update->body, GetParam(), empty);
  ASSERT_TRUE(values) << values.error().message;
  EXPECT_EQ((*values)->size(), 0);
  (*values)->release(0, 0);
}

TEST_P(EveryBody, NothingIsLeftInTheScratchFolder) {
  const auto values = open(good(GetParam()), GetParam());
  ASSERT_TRUE(values);
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

// Wherever the data begins, also at odd addresses.
TEST_F(Decode, FloatBodiesAreReadAtAnyOffset) {
  for (const Format format : {Format::kFloat32, Format::kFloat16, Format::kBFloat16}) {
    const LayoutPtr layout = small_layout();
    const StateDict state = random_state(layout, 5);
    const auto update = encode_update({.format = format}, state, state, nullptr, 1);
    for (std::size_t spaces = 0; spaces < 9; ++spaces) {
      const auto values =
          open_body(folder_, shifted(update->body, spaces), {.format = format}, layout);
      ASSERT_TRUE(values) << values.error().message;
      const std::vector<float> all = all_of(**values);
      EXPECT_TRUE(std::equal(all.begin(), all.end(), update->sent.values().begin()));
    }
  }
}

TEST_F(Decode, AlignedFloat32IsGivenWhereItLies) {
  const auto values = open(good(kFloat32), kFloat32);
  ASSERT_TRUE(values);
  float scratch[12];
  EXPECT_NE((*values)->read(3, 7, scratch), scratch);
  EXPECT_EQ((*values)->read(3, 7, scratch), (*values)->read(0, 12, scratch) + 3);
  const auto odd = open(shifted(good(kFloat32), 1), kFloat32);
  const auto even = open(shifted(good(kFloat32), 2), kFloat32);
  ASSERT_TRUE(odd && even);
  EXPECT_TRUE((*odd)->read(3, 7, scratch) == scratch || (*even)->read(3, 7, scratch) == scratch);
}

TEST_F(Decode, FloatTensorsMayComeInAnyOrderBesideMetadata) {
  const auto values = state_.values();
  const std::vector<float> a(values.begin(), values.begin() + 6);
  const std::vector<float> b(values.begin() + 6, values.end());
  std::string json =
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[6],"data_offsets":[0,24]},)"
      R"("a":{"shape":[2,3],"dtype":"F32","data_offsets":[24,48]}})";
  Bytes length(8);
  store_le64(json.size(), length);
  const Bytes body =
      join(std::string(as_text(length)) + json,
           {{"b", Dtype::kF32, {6}, bytes_of(b)}, {"a", Dtype::kF32, {2, 3}, bytes_of(a)}});
  const auto read = open(body, kFloat32);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_TRUE(std::equal(values.begin(), values.end(), all_of(**read).begin()));
  float scratch[4];
  const float* across = (*read)->read(4, 4, scratch);
  EXPECT_TRUE(std::equal(across, across + 4, values.begin() + 4));
}

TEST_F(Decode, TensorsThatDifferAreRefusedByName) {
  const Bytes six = bytes_of(std::vector<float>(6));
  const Part a{"a", Dtype::kF32, {2, 3}, six};
  const Part b{"b", Dtype::kF32, {6}, six};
  const Bytes seven = bytes_of(std::vector<float>(7));
  EXPECT_THAT(refusal(file_of({a}), kFloat32), HasSubstr("missing_tensor"));
  EXPECT_THAT(refusal(file_of({a, b, {"c", Dtype::kF32, {6}, six}}), kFloat32),
              HasSubstr("extra_tensor"));
  EXPECT_THAT(refusal(file_of({a, {"B", Dtype::kF32, {6}, six}}), kFloat32),
              AnyOf(HasSubstr("missing_tensor"), HasSubstr("extra_tensor")));
  EXPECT_THAT(refusal(file_of({a, {"b", Dtype::kF32, {7}, seven}}), kFloat32),
              HasSubstr("shape_mismatch"));
  EXPECT_THAT(refusal(file_of({{"a", Dtype::kF32, {3, 2}, six}, b}), kFloat32),
              HasSubstr("shape_mismatch"))
      << "transposed";
  for (const Dtype dtype : {Dtype::kI32, Dtype::kU32}) {
    const std::string said = refusal(file_of({a, {"b", dtype, {6}, six}}), kFloat32);
    EXPECT_THAT(said, HasSubstr("dtype_mismatch"));
    EXPECT_THAT(said, HasSubstr("\"b\""));
  }
  EXPECT_THAT(refusal(good({.format = Format::kFloat16}), kFloat32), HasSubstr("dtype_mismatch"));
  EXPECT_THAT(refusal(good(kFloat32), {.format = Format::kBFloat16}), HasSubstr("dtype_mismatch"));
  EXPECT_THAT(refusal(good({.format = Format::kFloat16}), {.format = Format::kBFloat16}),
              HasSubstr("dtype_mismatch"));
}

// Comparing each name with all others would take minutes.
TEST_F(Decode, FiftyThousandTensorsInAnotherOrderAreOpenedAtOnce) {
  std::vector<StateLayout::Entry> entries;
  std::vector<Part> parts;
  for (int i = 0; i < 50'000; ++i) {
    const std::string name = "layer/of/a/model/of/many/tensors/" + std::to_string(i);
    entries.push_back({name, {1}});
    parts.push_back({name, Dtype::kF32, {1}, bytes_of(std::vector{static_cast<float>(i)})});
  }
  layout_ = *StateLayout::create(std::move(entries));
  const Bytes body = file_of(parts);
  const auto begin = std::chrono::steady_clock::now();
  const auto values = open(body, kFloat32);
  const auto taken = std::chrono::steady_clock::now() - begin;
  ASSERT_TRUE(values) << values.error().message;
  EXPECT_LT(taken, std::chrono::seconds(2));
  const std::vector<float> all = all_of(**values);
  EXPECT_EQ(all[static_cast<std::size_t>(layout_->find(parts[777].name)->offset)], 777.0F);
  parts[40'000].dtype = Dtype::kI32;
  const std::string said = refusal(file_of(parts), kFloat32);
  EXPECT_THAT(said, AllOf(HasSubstr("dtype_mismatch"), HasSubstr(parts[40'000].name)));
}

TEST_F(Decode, AHeaderMuchLongerThanTheCanonicalOneIsRefused) {
  EXPECT_TRUE(open(shifted(good(kFloat32), 4000), kFloat32));
  EXPECT_THAT(refusal(shifted(good(kFloat32), 5000), kFloat32), HasSubstr("bad_header"));
}

Bytes int8_body(float a, float b) {
  const Bytes six(6, std::byte{1});
  return file_of({{"q/a", Dtype::kI8, {2, 3}, six},
                  {"q/b", Dtype::kI8, {6}, six},
                  {"scale/a", Dtype::kF32, {}, bytes_of(std::vector{a})},
                  {"scale/b", Dtype::kF32, {}, bytes_of(std::vector{b})}});
}

TEST_F(Decode, Int8IsBytesTimesTheScaleOfTheirTensor) {
  const auto values = open(int8_body(0.5F, 0), kInt8);
  ASSERT_TRUE(values) << values.error().message;
  EXPECT_EQ(all_of(**values), (std::vector<float>{.5, .5, .5, .5, .5, .5, 0, 0, 0, 0, 0, 0}));
}

TEST_F(Decode, Int8ScalesAreFiniteAndNotNegative) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float scale : {std::nanf(""), -std::nanf(""), kInfinity, -kInfinity, -1.0F, -0.0F,
                            3e36F, std::numeric_limits<float>::max()}) {
    const std::string said = refusal(int8_body(1, scale), kInt8);
    EXPECT_THAT(said, HasSubstr("non_finite")) << scale;
    EXPECT_THAT(said, HasSubstr("scale/b")) << scale;
  }
  EXPECT_TRUE(open(int8_body(2.6e36F, 1e-45F), kInt8));
}

TEST_F(Decode, OtherFormsThanTheCanonicalOneAreRefusedWhereItIsWanted) {
  EXPECT_THAT(refusal(shifted(good(kInt8), 1), kInt8), HasSubstr("bad_header"));
  EXPECT_THAT(refusal(shifted(good(kTopK), 1), kTopK), HasSubstr("bad_header"));
  const Bytes three = bytes_of(std::vector<float>(3));
  EXPECT_THAT(
      refusal(file_of({{"values", Dtype::kF32, {3}, three}, {"indices", Dtype::kU32, {3}, three}}),
              kTopK),
      HasSubstr("bad_header"));
}

Bytes top_k_body(const std::vector<std::uint32_t>& indices, std::int64_t values = 3,
                 Dtype dtype = Dtype::kU32, std::string name = "indices") {
  const std::vector<float> floats(static_cast<std::size_t>(values), 2.0F);
  return file_of(
      {{std::move(name), dtype, {static_cast<std::int64_t>(indices.size())}, bytes_of(indices)},
       {"values", Dtype::kF32, {values}, bytes_of(floats)}});
}

TEST_F(Decode, TopKIsZeroButForTheValuesSent) {
  const auto values = open(top_k_body({0, 5, 11}), kTopK);
  ASSERT_TRUE(values) << values.error().message;
  EXPECT_EQ(all_of(**values), (std::vector<float>{2, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 2}));
}

// Around the stretches in which places are searched: dense, with holes of several stretches, with
// nothing at an end.
TEST_F(Decode, TopKOfManyStretchesIsWhatWasSent) {
  constexpr std::int64_t kElements = 5 * kTopKStretch + 7;
  layout_ = *StateLayout::create({{"a", {kElements}}});
  for (const std::vector<std::int64_t>& sent : std::vector<std::vector<std::int64_t>>{
           {0, 1, kTopKStretch - 1, kTopKStretch, 4 * kTopKStretch - 1, 5 * kTopKStretch + 6},
           {2 * kTopKStretch + 1, 2 * kTopKStretch + 2, 2 * kTopKStretch + 9, 3 * kTopKStretch - 1,
            3 * kTopKStretch, 3 * kTopKStretch + 1},
           {kElements - 6, kElements - 5, kElements - 4, kElements - 3, kElements - 2,
            kElements - 1}}) {
    UpdateEncoding encoding = kTopK;
    encoding.fraction = 5.5 / kElements;
    const auto values = open(top_k_body({sent.begin(), sent.end()}, std::ssize(sent)), encoding);
    ASSERT_TRUE(values) << values.error().message;
    std::vector<float> wanted(kElements);
    for (const std::int64_t index : sent) wanted[static_cast<std::size_t>(index)] = 2;
    EXPECT_EQ(all_of(**values), wanted);
    for (const std::int64_t index : sent) {
      for (std::int64_t begin = std::max<std::int64_t>(index - 1, 0);
           begin <= std::min(index + 1, kElements - 1); ++begin) {
        float one = 77;
        EXPECT_EQ(*(*values)->read(begin, 1, &one), wanted[static_cast<std::size_t>(begin)]);
      }
    }
  }
}

// Wherever it was read, of any encoding.
TEST_P(EveryBody, LeavesNoPageInMemoryOnceItIsReleased) {
  if (GetParam().compressed) GTEST_SKIP() << "the same bodies, unpacked into files without a name";
  constexpr std::int64_t kElements = 1'000'003;
  const LayoutPtr layout = *StateLayout::create({{"a", {kElements}}});
  const StateDict state = random_state(layout, 6);
  const auto update = encode_update(GetParam(), StateDict(layout), state, nullptr, 1);
  // Written in pieces that come into memory alone.
  const auto file = folder_.path() / "body";
  ASSERT_TRUE(write_file_durably(file, update->body));
  const auto values = open_update(*MappedFile::open(file), GetParam(), layout, folder_.path());
  ASSERT_TRUE(values) << values.error().message;
  EXPECT_EQ(resident_bytes(file), 0U);
  std::vector<float> scratch(2048);
  for (const std::int64_t begin : {std::int64_t{0}, kElements / 3, kElements - 2048}) {
    const float* read = (*values)->read(begin, 2048, scratch.data());
    EXPECT_NE(std::accumulate(read, read + 2048, 0.0F), 0.0F);
    EXPECT_GT(resident_bytes(file), 0U);
    (*values)->release(begin, 2048);
    EXPECT_EQ(resident_bytes(file), 0U) << "after " << begin;
  }
}

TEST_F(Decode, TopKIndicesRiseAndStayInTheModel) {
  for (const auto& indices : std::vector<std::vector<std::uint32_t>>{{0, 5, 12},
                                                                     {0, 5, 5},
                                                                     {5, 0, 11},
                                                                     {0, 0xffffffff, 3},
                                                                     {0x80000000, 5, 6},
                                                                     {0, 1, 0xffffffff}}) {
    EXPECT_THAT(refusal(top_k_body(indices), kTopK), HasSubstr("bad_indices"));
  }
}

TEST_F(Decode, TopKHasExactlyAsManyAsAsked) {
  EXPECT_THAT(refusal(top_k_body({0, 1}, 2), kTopK), HasSubstr("shape_mismatch"));
  EXPECT_THAT(refusal(top_k_body({0, 1, 2, 3}, 4), kTopK), HasSubstr("shape_mismatch"));
  EXPECT_THAT(refusal(top_k_body({0, 1, 2}, 4), kTopK), HasSubstr("shape_mismatch"));
  EXPECT_THAT(refusal(top_k_body({}, 0), kTopK), HasSubstr("shape_mismatch"));
  EXPECT_THAT(refusal(top_k_body({0, 1, 2}, 3, Dtype::kI32), kTopK), HasSubstr("dtype_mismatch"));
  EXPECT_THAT(refusal(top_k_body({0, 1, 2}, 3, Dtype::kU32, "index"), kTopK), HasSubstr("_tensor"));
}

TEST_F(Decode, ABombIsStoppedAtTheLengthOfTheEncoding) {
  UpdateEncoding encoding{.format = Format::kFloat16, .compressed = true};
  const auto limit = encoded_bytes(encoding, *layout_) + 4096;
  EXPECT_THAT(refusal(*zstd_compress(Bytes(std::size_t{32} << 20), 19), encoding),
              HasSubstr("bad_compression"));
  EXPECT_THAT(refusal(*zstd_compress(Bytes(limit + 1), 3), encoding), HasSubstr("bad_compression"));
  EXPECT_THAT(refusal(*zstd_compress(Bytes(limit), 3), encoding), HasSubstr("bad_header"));
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_F(Decode, AScratchFolderThatIsNotThereIsNoFaultOfTheUpdate) {
  const UpdateEncoding encoding{.compressed = true};
  const auto path = folder_.path() / "body";
  ASSERT_TRUE(write_file_durably(path, good(encoding)));
  const auto values =
      open_update(*MappedFile::open(path), encoding, layout_, folder_.path() / "none");
  ASSERT_FALSE(values);
  EXPECT_EQ(values.error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace muster
