#include "core/train/data_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <map>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/random.h"
#include "core/train/idx.h"
#include "core/train/partition.h"

namespace muster {
namespace {

Error bad_spec(const std::string& message) {
  return {ErrorCode::kInvalidArgument, "data spec: " + message, "bad_data_spec"};
}

template <typename T>
std::optional<T> number(std::string_view text) {
  T value{};
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// The fields of a spec, read one by one; what nobody reads is an error.
class Fields {
 public:
  static Result<Fields> split(std::string_view text) {
    Fields fields;
    while (!text.empty()) {
      const std::size_t end = std::min(text.find(';'), text.size());
      const std::string_view item = text.substr(0, end);
      text.remove_prefix(std::min(end + 1, text.size()));
      const std::size_t equals = item.find('=');
      if (equals == std::string_view::npos || equals == 0) {
        return bad_spec(fmt::format("\"{}\" is not of the form field=value", printable(item)));
      }
      const std::string key(item.substr(0, equals));
      if (!fields.values_.emplace(key, item.substr(equals + 1)).second) {
        return bad_spec("the field " + printable(key) + " is there twice");
      }
    }
    return fields;
  }

  std::optional<std::string> take(const std::string& key) {
    known_.push_back(key);
    const auto found = values_.find(key);
    if (found == values_.end()) return std::nullopt;
    std::string value = std::move(found->second);
    values_.erase(found);
    return value;
  }

  template <typename T>
  void read(const std::string& key, T low, T high, const std::string& wanted, T& out) {
    const std::optional<std::string> text = take(key);
    if (!text) return;
    const std::optional<T> value = number<T>(*text);
    // The negated form also refuses a NaN.
    if (!value || !(*value >= low && *value <= high)) return fail(key, *text, wanted);
    out = *value;
  }

  // One of `names`, as its index.
  template <typename Enum>
  void choose(const std::string& key, const std::vector<std::string>& names, Enum& out) {
    const std::optional<std::string> text = take(key);
    if (!text) return;
    const auto found = std::find(names.begin(), names.end(), *text);
    if (found == names.end()) return fail(key, *text, "one of " + joined(names));
    out = static_cast<Enum>(found - names.begin());
  }

  void fail(const std::string& key, std::string_view found, const std::string& wanted) {
    if (error_) return;
    error_ = bad_spec(key + "=" + printable(found) + " found, " + wanted + " is wanted");
  }

  Status finish() {
    if (error_) return *error_;
    if (values_.empty()) return {};
    return bad_spec("unknown field " + printable(values_.begin()->first) + ", known are " +
                    joined(known_));
  }

 private:
  static std::string joined(const std::vector<std::string>& words) {
    std::string text;
    for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
    return text;
  }

  std::map<std::string, std::string> values_;
  std::vector<std::string> known_;
  std::optional<Error> error_;
};

void read_shard(Fields& fields, DataSpec& spec) {
  const std::optional<std::string> text = fields.take("shard");
  if (!text) {
    if (fields.take("split")) {
      fields.fail("split", "...", "it together with shard=K/N, or neither");
    }
    return;
  }
  const std::size_t slash = std::min(text->find('/'), text->size());
  const auto shard = number<std::int64_t>(std::string_view(*text).substr(0, slash));
  const auto shards =
      number<std::int64_t>(std::string_view(*text).substr(std::min(slash + 1, text->size())));
  if (!shard || !shards || *shards < 1 || *shards > 1'000'000 || *shard < 0 || *shard >= *shards) {
    return fields.fail("shard", *text, "K/N with K from 0 to N - 1, N up to 1000000,");
  }
  spec.shard = *shard;
  spec.shards = *shards;
  fields.choose("split", {"iid", "shards", "dirichlet"}, spec.split);
  if (spec.split == DataSpec::Split::kShards) {
    fields.read<std::int64_t>("per_device", 1, 1'000'000, "a whole number from 1", spec.per_device);
  }
  if (spec.split == DataSpec::Split::kDirichlet) {
    fields.read("alpha", 1e-4, 1e6, "a number from 0.0001 to 1000000", spec.alpha);
  }
}

Result<Dataset> load_shard(const DataSpec& spec, const Dataset& all) {
  if (spec.shards == 1) return all;
  if (spec.split != DataSpec::Split::kIid && !all.has_labels()) {
    return bad_spec("this split wants class labels, the targets are values");
  }
  const std::vector<std::int32_t> labels = all.labels();
  Result<Parts> parts;
  switch (spec.split) {
    case DataSpec::Split::kIid:
      parts = partition_iid(all.size(), spec.shards, spec.seed);
      break;
    case DataSpec::Split::kShards:
      parts = partition_shards(labels, spec.shards, spec.per_device, spec.seed);
      break;
    case DataSpec::Split::kDirichlet:
      parts = partition_dirichlet(labels, spec.shards, spec.alpha, spec.seed);
      break;
  }
  if (!parts) return std::move(parts).error();
  return all.subset((*parts)[static_cast<std::size_t>(spec.shard)]);
}

LocalData hold_out(const Dataset& data, const DataSpec& spec) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(data.size()));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  const auto held =
      static_cast<std::ptrdiff_t>(std::floor(spec.holdout * static_cast<double>(data.size())));
  if (held == 0) return {.train = data, .holdout = data.subset({})};
  Random(derive_seed(spec.seed, {"holdout", std::to_string(spec.shard)})).shuffle(order);
  std::sort(order.begin(), order.begin() + held);
  std::sort(order.begin() + held, order.end());
  const std::span<const std::int64_t> all(order);
  return {.train = data.subset(all.subspan(static_cast<std::size_t>(held))),
          .holdout = data.subset(all.first(static_cast<std::size_t>(held)))};
}

}  // namespace

Result<DataSpec> parse_data_spec(std::string_view text) {
  const std::size_t colon = std::min(text.find(':'), text.size());
  const std::string_view format = text.substr(0, colon);
  if (colon == text.size() || (format != "idx" && format != "csv")) {
    return bad_spec(
        fmt::format("\"{}\" found, idx:IMAGES,LABELS;... or csv:FILE;target=COLUMN;... is wanted",
                    printable(text)));
  }
  DataSpec spec;
  const std::string_view rest = text.substr(colon + 1);
  const std::size_t semicolon = std::min(rest.find(';'), rest.size());
  const std::string_view files = rest.substr(0, semicolon);
  MUSTER_TRY(Fields fields, Fields::split(rest.substr(std::min(semicolon + 1, rest.size()))));
  if (format == "idx") {
    spec.format = DataSpec::Format::kIdx;
    const std::size_t comma = std::min(files.find(','), files.size());
    spec.images = files.substr(0, comma);
    spec.labels = files.substr(std::min(comma + 1, files.size()));
    if (spec.images.empty() || spec.labels.empty() || spec.labels.find(',') != std::string::npos) {
      return bad_spec(
          fmt::format("\"{}\" found, two files IMAGES,LABELS are wanted", printable(files)));
    }
  } else {
    spec.format = DataSpec::Format::kCsv;
    spec.file = files;
    const std::optional<std::string> target = fields.take("target");
    if (spec.file.empty() || !target || target->empty()) {
      return bad_spec("csv wants a file and its target column: csv:FILE;target=COLUMN");
    }
    spec.csv.target = *target;
    fields.choose("targets", {"classes", "values"}, spec.csv.targets);
  }
  fields.read<std::uint64_t>("seed", 0, ~std::uint64_t{0}, "a whole number from 0", spec.seed);
  fields.read("holdout", 0.0, 0.9, "a number from 0 to 0.9", spec.holdout);
  read_shard(fields, spec);
  MUSTER_TRY_STATUS(fields.finish());
  return spec;
}

namespace {

// A pipe or a device would be waited for without end.
Status check_regular(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status found = std::filesystem::status(path, error);
  if (!std::filesystem::exists(found) || std::filesystem::is_regular_file(found)) return {};
  return Error{ErrorCode::kInvalidArgument, fmt::format("data file {}: no regular file", path),
               "bad_data_spec"};
}

}  // namespace

Result<LocalData> load_data(const DataSpec& spec) {
  for (const std::string& path : {spec.images, spec.labels, spec.file}) {
    if (!path.empty()) MUSTER_TRY_STATUS(check_regular(path));
  }
  Result<Dataset> all = spec.format == DataSpec::Format::kIdx ? load_idx(spec.images, spec.labels)
                                                              : load_csv(spec.file, spec.csv);
  if (!all) return std::move(all).error();
  MUSTER_TRY(const Dataset shard, load_shard(spec, *all));
  // A device keeps its own examples in memory, not everybody's.
  return hold_out(shard.compacted(), spec);
}

Result<LocalData> load_data(std::string_view spec) {
  MUSTER_TRY(const DataSpec parsed, parse_data_spec(spec));
  return load_data(parsed);
}

}  // namespace muster
