#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/error.h"
#include "core/train/csv.h"
#include "core/train/dataset.h"

namespace muster {

// How a device, or an operator, names data:
//   idx:IMAGES,LABELS;shard=3/10;split=iid;seed=1;holdout=0.1
//   csv:FILE;target=COLUMN;targets=values;shard=0/4;split=dirichlet;alpha=0.5
// Files hold no ';', those of idx no ','. Fields, each at most once:
//   target      csv, required: the column with the targets
//   targets     csv: "classes" (default) or "values"
//   shard       K/N: part K, from 0, of N parts; left out, it is all examples
//   split       how the N parts are made: "iid" (default), "shards" or "dirichlet" (partition.h);
//   with shard only per_device  split=shards: pieces a part, default 2 alpha       split=dirichlet:
//   concentration, default 0.5 seed        of the split and the holdout, default 0; devices that
//   share out one file use one seed holdout     share of the examples kept for evaluation, 0 to
//   0.9, default 0.1
struct DataSpec {
  enum class Format { kIdx, kCsv };
  enum class Split { kIid, kShards, kDirichlet };

  Format format = Format::kIdx;
  std::string images;  // idx
  std::string labels;  // idx
  std::string file;    // csv
  CsvOptions csv;
  std::int64_t shard = 0;
  std::int64_t shards = 1;
  Split split = Split::kIid;
  std::int64_t per_device = 2;
  double alpha = 0.5;
  std::uint64_t seed = 0;
  double holdout = 0.1;
};

// Errors: kInvalidArgument, reason "bad_data_spec": what was found and what is known.
Result<DataSpec> parse_data_spec(std::string_view text);

// Reads the files and cuts out the shard; of that, floor(holdout * n) examples drawn at random are
// held out. Errors: as parse_data_spec, load_idx, load_csv and the partitions.
Result<LocalData> load_data(const DataSpec& spec);
Result<LocalData> load_data(std::string_view spec);

}  // namespace muster
