#include "core/tensor/state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <limits>
#include <numeric>

#include "core/tensor/safetensors.h"

namespace muster {
namespace {

using testing::HasSubstr;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

LayoutPtr layout(std::vector<StateLayout::Entry> entries) {
  return StateLayout::create(std::move(entries)).value();
}

Error refusal(std::vector<StateLayout::Entry> entries) {
  const auto created = StateLayout::create(std::move(entries));
  if (created) return {ErrorCode::kInternal, "accepted"};
  EXPECT_EQ(created.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(created.error().reason, "bad_layout");
  return created.error();
}

TEST(ElementCount, IsTheProductAndOneForAScalar) {
  EXPECT_EQ(element_count({}).value(), 1);
  EXPECT_EQ(element_count({784, 200}).value(), 156'800);
  EXPECT_EQ(element_count({3, 0, 5}).value(), 0);
  EXPECT_EQ(element_count({std::int64_t{1} << 48}).value(), std::int64_t{1} << 48);
  EXPECT_EQ(element_count({std::int64_t{1} << 24, std::int64_t{1} << 24}).value(),
            std::int64_t{1} << 48);
}

TEST(ElementCount, RefusesNegativeDimensionsAndProductsThatDoNotFit) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  for (const Shape& shape :
       {Shape{-1}, Shape{2, -3}, Shape{0, -1}, Shape{(std::int64_t{1} << 48) + 1}, Shape{kMost},
        Shape{kMost, kMost}, Shape{std::int64_t{1} << 32, std::int64_t{1} << 32},
        Shape{std::int64_t{1} << 63}, Shape{1 << 30, 1 << 30, 16}}) {
    const auto count = element_count(shape);
    ASSERT_FALSE(count) << to_string(shape);
    EXPECT_EQ(count.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(count.error().message, HasSubstr(to_string(shape)));
  }
}

TEST(ElementCount, DoesNotDependOnWhereTheZeroStands) {
  constexpr std::int64_t kLarge = std::int64_t{1} << 40;
  EXPECT_FALSE(element_count({kLarge, kLarge, 0}));
  EXPECT_FALSE(element_count({0, kLarge, kLarge}));
}

TEST(Shape, PrintsAsAList) {
  EXPECT_EQ(to_string(Shape{784, 200}), "[784, 200]");
  EXPECT_EQ(to_string(Shape{}), "[]");
}

TEST(StateLayout, LaysTensorsInByteOrderOfTheirNames) {
  const LayoutPtr made = layout(
      {{"b", {2}}, {"\xc3\xa4", {1}}, {"", {}}, {"a.10", {3}}, {"a.2", {0, 4}}, {"B", {2, 2}}});
  std::vector<std::string> names;
  std::int64_t place = 0;
  for (const TensorSpec& spec : made->tensors()) {
    names.push_back(spec.name);
    EXPECT_EQ(spec.offset, place);
    EXPECT_EQ(spec.size, element_count(spec.shape).value());
    place += spec.size;
  }
  EXPECT_EQ(names, (std::vector<std::string>{"", "B", "a.10", "a.2", "b", "\xc3\xa4"}));
  EXPECT_EQ(made->num_elements(), 11);
}

TEST(StateLayout, EqualNamesAndShapesAreEqualWhateverTheirOrder) {
  const LayoutPtr one = layout({{"a", {2, 3}}, {"b", {1}}});
  const LayoutPtr two = layout({{"b", {1}}, {"a", {2, 3}}});
  EXPECT_EQ(*one, *two);
  EXPECT_EQ(one->digest(), two->digest());
  for (const LayoutPtr& other :
       {layout({{"a", {3, 2}}, {"b", {1}}}), layout({{"a", {2, 3}}}),
        layout({{"a", {2, 3}}, {"c", {1}}}), layout({{"a", {6}}, {"b", {1}}}),
        layout({{"a", {2, 3}}, {"b", {}}}), layout({})}) {
    EXPECT_FALSE(*one == *other);
  }
}

TEST(StateLayout, DigestIsThatOfTheCanonicalHeader) {
  const LayoutPtr made = layout({{"a", {2, 3}}, {"b", {}}});
  EXPECT_EQ(made->digest(), sha256(safetensors_header(*made)));
}

TEST(StateLayout, FindsEachTensorAndNoOther) {
  const LayoutPtr made = layout({{"a", {1}}, {"b", {2}}, {"d", {3}}});
  for (const TensorSpec& spec : made->tensors()) EXPECT_EQ(made->find(spec.name), &spec);
  for (const std::string_view name : {"", "c", "e", "aa", "A"})
    EXPECT_EQ(made->find(name), nullptr);
  EXPECT_EQ(layout({})->find("a"), nullptr);
}

TEST(StateLayout, RefusesBadEntriesByName) {
  EXPECT_THAT(refusal({{"w", {1}}, {"v", {}}, {"w", {1}}}).message,
              HasSubstr("\"w\" is given twice"));
  EXPECT_THAT(refusal({{"w", {-2}}}).message, HasSubstr("tensor \"w\": shape [-2]"));
  EXPECT_THAT(refusal({{"__metadata__", {1}}}).message, HasSubstr("__metadata__"));
  EXPECT_THAT(refusal({{std::string(513, 'n'), {1}}}).message, HasSubstr("513 bytes"));
  EXPECT_THAT(refusal({{"a\xff", {1}}}).message, HasSubstr("\"a\\xff\""));
  EXPECT_THAT(refusal({{"a", {std::int64_t{1} << 48}}, {"b", {1}}}).message,
              HasSubstr("more than"));
  EXPECT_TRUE(StateLayout::create({{std::string(512, 'n'), {1}}}));
}

TEST(CheckSameLayout, NamesTheTensorThatDiffers) {
  const LayoutPtr wanted = layout({{"a", {2, 3}}, {"b", {1}}});
  EXPECT_TRUE(check_same_layout(*wanted, *layout({{"b", {1}}, {"a", {2, 3}}})));
  const auto error = [&](std::vector<StateLayout::Entry> found) {
    const Status status = check_same_layout(*wanted, *layout(std::move(found)));
    EXPECT_FALSE(status);
    return status ? Error{} : status.error();
  };
  EXPECT_EQ(error({{"a", {2, 3}}}).reason, "missing_tensor");
  EXPECT_EQ(error({{"a", {2, 3}}}).message, "tensor \"b\" with shape [1] is missing");
  EXPECT_EQ(error({{"a", {3, 2}}, {"b", {1}}}).reason, "shape_mismatch");
  EXPECT_EQ(error({{"a", {3, 2}}, {"b", {1}}}).message,
            "tensor \"a\" has shape [3, 2], [2, 3] is wanted");
  EXPECT_EQ(error({{"a", {2, 3}}, {"b", {1}}, {"c", {1}}}).reason, "extra_tensor");
  EXPECT_THAT(error({{"a", {2, 3}}, {"b", {1}}, {"c", {1}}}).message, HasSubstr("\"c\""));
  EXPECT_EQ(error({{"a", {2, 3}}, {"B", {1}}}).reason, "missing_tensor") << "a renamed tensor";
  EXPECT_EQ(error({{"a", {2, 3}}, {"b", {}}}).reason, "shape_mismatch")
      << "one element, another rank";
}

TEST(StateDict, BeginsAtZeroInOneAlignedBuffer) {
  for (const std::int64_t size : {0, 1, 15, 16, 17, 100'003}) {
    const StateDict state(layout({{"w", {size}}}));
    ASSERT_EQ(state.values().size(), static_cast<std::size_t>(size));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(state.values().data()) % 64, 0U);
    for (const float value : state.values()) EXPECT_EQ(std::bit_cast<std::uint32_t>(value), 0U);
  }
  EXPECT_TRUE(StateDict(layout({})).values().empty());
}

TEST(StateDict, TensorsAreViewsOfTheBuffer) {
  StateDict state(layout({{"b", {2, 2}}, {"a", {3}}, {"empty", {0}}, {"scalar", {}}}));
  std::iota(state.values().begin(), state.values().end(), 0.0F);
  EXPECT_THAT(state.tensor("a"), testing::ElementsAre(0, 1, 2));
  EXPECT_THAT(state.tensor("b"), testing::ElementsAre(3, 4, 5, 6));
  EXPECT_TRUE(state.tensor("empty").empty());
  state.tensor("scalar")[0] = 99;
  EXPECT_EQ(state.values().back(), 99);
  const StateDict& constant = state;
  for (const TensorSpec& spec : state.layout().tensors()) {
    EXPECT_EQ(constant.tensor(spec).data(), state.tensor(spec.name).data());
    EXPECT_EQ(constant.tensor(spec.name).size(), static_cast<std::size_t>(spec.size));
  }
}

TEST(StateDictDeathTest, StopsWhenANameIsNotInTheLayout) {
  StateDict state(layout({{"a", {1}}}));
  EXPECT_DEATH((void)state.tensor("b"), "tensor \"b\" is not in the layout");
}

TEST(StateDict, CloneIsEqualAndApart) {
  StateDict state(layout({{"a", {3}}}));
  state.values()[1] = 7;
  StateDict copy = state.clone();
  EXPECT_EQ(copy, state);
  EXPECT_EQ(copy.layout_ptr(), state.layout_ptr());
  copy.values()[1] = 8;
  EXPECT_FALSE(copy == state);
  EXPECT_EQ(state.values()[1], 7);
}

TEST(StateDict, MovesItsBuffer) {
  StateDict state(layout({{"a", {3}}}));
  const float* buffer = state.values().data();
  const StateDict moved = std::move(state);
  EXPECT_EQ(moved.values().data(), buffer);
}

TEST(StateDict, IsEqualByBitsNotByValue) {
  StateDict one(layout({{"a", {1}}}));
  StateDict two(layout({{"a", {1}}}));
  one.values()[0] = kNan;
  two.values()[0] = kNan;
  EXPECT_EQ(one, two);
  one.values()[0] = 0.0F;
  two.values()[0] = -0.0F;
  EXPECT_FALSE(one == two);
  EXPECT_FALSE(StateDict(layout({{"a", {1}}})) == StateDict(layout({{"b", {1}}})));
}

TEST(FindNonFinite, FindsTheFirstWhereverItStands) {
  for (const std::size_t size : {1U, 7U, 4095U, 4096U, 4097U, 10'000U}) {
    std::vector<float> values(size, std::numeric_limits<float>::max());
    EXPECT_EQ(find_non_finite(values), -1);
    for (const std::size_t at : {std::size_t{0}, size / 2, size - 1}) {
      for (const float bad :
           {kNan, -kNan, kInfinity, -kInfinity, std::bit_cast<float>(0x7f800001U)}) {
        std::vector<float> spoiled = values;
        spoiled[at] = bad;
        spoiled.back() = at == size - 1 ? bad : kNan;
        EXPECT_EQ(find_non_finite(spoiled), static_cast<std::int64_t>(at));
      }
    }
  }
  EXPECT_EQ(find_non_finite({}), -1);
}

TEST(FindNonFinite, TakesEveryFiniteValueForFinite) {
  const std::vector<float> values{0.0F,
                                  -0.0F,
                                  std::numeric_limits<float>::denorm_min(),
                                  std::numeric_limits<float>::min(),
                                  std::numeric_limits<float>::lowest(),
                                  std::bit_cast<float>(0x7f7fffffU),
                                  -1.0F};
  EXPECT_EQ(find_non_finite(values), -1);
}

TEST(CheckFinite, NamesTensorIndexAndValue) {
  StateDict state(layout({{"a", {3}}, {"b", {0}}, {"c", {2, 2}}, {"d", {0}}, {"e\n", {}}}));
  EXPECT_TRUE(check_finite(state.layout(), state.values()));
  const auto error = [&](std::size_t at, float bad) {
    state.values()[at] = bad;
    const Status status = check_finite(state.layout(), state.values());
    state.values()[at] = 0;
    EXPECT_FALSE(status);
    EXPECT_EQ(status.error().reason, "non_finite");
    return status.error().message;
  };
  EXPECT_EQ(error(0, kNan), "tensor \"a\" has the value nan at index 0, a finite one is wanted");
  EXPECT_EQ(error(2, kInfinity),
            "tensor \"a\" has the value inf at index 2, a finite one is wanted");
  EXPECT_EQ(error(3, -kInfinity),
            "tensor \"c\" has the value -inf at index 0, a finite one is wanted");
  EXPECT_EQ(error(6, kNan), "tensor \"c\" has the value nan at index 3, a finite one is wanted");
  EXPECT_EQ(error(7, kNan),
            "tensor \"e\\x0a\" has the value nan at index 0, a finite one is wanted");
}

}  // namespace
}  // namespace muster
