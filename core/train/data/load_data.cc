// Reads the data that a spec names (data_spec.h).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "core/base/random.h"
#include "core/train/data/data_spec.h"
#include "core/train/data/idx.h"
#include "core/train/data/npy.h"
#include "core/train/data/partition.h"
#include "core/train/data/spec_fields.h"

namespace muster {
namespace {

// A pipe or a device would be waited for without end.
Status check_regular(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status found = std::filesystem::status(path, error);
  if (!std::filesystem::exists(found) || std::filesystem::is_regular_file(found)) return {};
  return Error{ErrorCode::kInvalidArgument, fmt::format("data file {}: no regular file", path),
               "bad_data_spec"};
}

Result<CsvTable> without_fills(Result<Dataset> data) {
  if (!data) return std::move(data).error();
  return CsvTable{.data = *std::move(data), .fills = {}};
}

// The shard is drawn alone, not cut out.
Result<Dataset> load_synthetic(const DataSpec& spec) {
  if (spec.shards == 1) return synthetic_all(spec.synthetic, spec.seed);
  if (spec.shards != spec.synthetic.devices) {
    return bad_data_spec(fmt::format("shard={}/{} found, K/{} with devices={} is wanted",
                                     spec.shard, spec.shards, spec.synthetic.devices,
                                     spec.synthetic.devices));
  }
  return synthetic_device(spec.synthetic, spec.seed, spec.shard);
}

Result<CsvTable> load_file(const DataSpec& spec, DataUse use) {
  switch (spec.format) {
    case DataSpec::Format::kIdx:
      return without_fills(load_idx(spec.images, spec.labels, spec.arrays.scale.value_or(255.0F)));
    case DataSpec::Format::kCsv: {
      CsvOptions options = spec.csv;
      options.collect_categories = use == DataUse::kCentral;
      return load_csv_table(spec.file, options);
    }
    case DataSpec::Format::kNpy:
      return without_fills(load_npy(spec.images, spec.labels, spec.arrays));
    case DataSpec::Format::kSafetensors:
      return without_fills(load_safetensors_data(spec.file, spec.tensors, spec.arrays));
    case DataSpec::Format::kText:
      return without_fills(load_text(spec.file, spec.text));
    case DataSpec::Format::kSynthetic:
      return without_fills(load_synthetic(spec));
  }
  return bad_data_spec("unknown format");
}

Result<Parts> split(const DataSpec& spec, const Dataset& all) {
  if (spec.split == DataSpec::Split::kIid) return partition_iid(all.size(), spec.shards, spec.seed);
  if (!all.has_labels()) {
    return bad_data_spec("this split wants class labels, the targets are values");
  }
  if (all.target_size() != 1) {
    return bad_data_spec(fmt::format("this split wants one class label an example, there are {}",
                                     all.target_size()));
  }
  const std::vector<std::int32_t> labels = all.labels();
  return spec.split == DataSpec::Split::kShards
             ? partition_shards(labels, spec.shards, spec.per_device, spec.seed)
             : partition_dirichlet(labels, spec.shards, spec.alpha, spec.seed);
}

LocalData hold_out(const Dataset& data, const DataSpec& spec) {
  const auto held =
      static_cast<std::ptrdiff_t>(std::floor(spec.holdout * static_cast<double>(data.size())));
  if (held == 0) return {.train = data, .holdout = data.subset({})};
  std::vector<std::int64_t> order(static_cast<std::size_t>(data.size()));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  Random(derive_seed(spec.seed, {"holdout", std::to_string(spec.shard)})).shuffle(order);
  std::sort(order.begin(), order.begin() + held);
  std::sort(order.begin() + held, order.end());
  const std::span<const std::int64_t> all(order);
  return {.train = data.subset(all.subspan(static_cast<std::size_t>(held))),
          .holdout = data.subset(all.first(static_cast<std::size_t>(held)))};
}

}  // namespace

Result<LocalData> load_data(const DataSpec& spec, DataUse use) {
  for (const std::string& path : spec.files()) MUSTER_TRY_STATUS(check_regular(path));
  MUSTER_TRY(CsvTable table, load_file(spec, use));
  if (spec.shards > 1 && spec.format != DataSpec::Format::kSynthetic) {
    MUSTER_TRY(const Parts parts, split(spec, table.data));
    // A device keeps its own examples in memory, not everybody's.
    table.data = table.data.subset(parts[static_cast<std::size_t>(spec.shard)]).compacted();
  }
  LocalData data = hold_out(table.data, spec);
  table.data = {};
  return fill_missing(std::move(data), table.fills, spec.file.empty() ? spec.images : spec.file);
}

Result<LocalData> load_data(std::string_view spec, DataUse use) {
  MUSTER_TRY(const DataSpec parsed, parse_data_spec(spec));
  return load_data(parsed, use);
}

}  // namespace muster
