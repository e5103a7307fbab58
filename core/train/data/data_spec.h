#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/train/data/array_data.h"
#include "core/train/data/csv.h"
#include "core/train/data/dataset.h"
#include "core/train/data/safetensors_data.h"
#include "core/train/data/synthetic.h"
#include "core/train/data/text_windows.h"

namespace muster {

// How a device, or an operator, names data: FORMAT:FILES and then fields, each at most once.
//   idx:IMAGES,LABELS;shard=3/10;split=iid;seed=1;holdout=0.1
//   csv:FILE;target=COLUMN;categories.color=red|green|blue;missing=mean
//   npy:FEATURES,LABELS;scale=255
//   safetensors:FILE;features=x;labels=y
//   text:FILE;window=80;stride=80;vocabulary=ascii
//   synthetic:alpha=1,beta=1;devices=30
// Files hold no ';', those of idx and npy no ','; names of columns and texts hold no separator of
// the field that they stand in. docs/device-owners.md says what each field means; the options of a
// format are those of its header. Fields of all formats:
//   shard       K/N: part K, from 0, of N parts; left out, it is all examples
//   split       how the N parts are made: "iid" (default), "shards" or "dirichlet" (partition.h);
//               only with shard. Not of synthetic: there part K of N is what device K of the
//               N devices has
//   per_device  split=shards: pieces a part, default 2
//   alpha       split=dirichlet: concentration, default 0.5
//   seed        of the split, the holdout and what is drawn, default 0; devices that share out one
//               file use one
//   holdout     share of the examples kept for evaluation, 0 to 0.9, default 0.1
struct DataSpec {
  enum class Format { kIdx, kCsv, kNpy, kSafetensors, kText, kSynthetic };
  enum class Split { kIid, kShards, kDirichlet };

  Format format = Format::kIdx;
  std::string images;   // idx; npy: the features
  std::string labels;   // idx, npy
  std::string file;     // csv, safetensors, text
  CsvOptions csv;       // target, targets, classes, features, categorical, categories.COLUMN,
                        // missing, missing.COLUMN, na
  ArrayOptions arrays;  // npy, safetensors: scale, targets; idx: scale
  TensorNames tensors;  // safetensors: features, labels
  TextOptions text;     // window, stride, vocabulary
  SyntheticOptions synthetic;  // alpha, beta, devices
  std::int64_t shard = 0;
  std::int64_t shards = 1;
  Split split = Split::kIid;
  std::int64_t per_device = 2;
  double alpha = 0.5;
  std::uint64_t seed = 0;
  double holdout = 0.1;

  // Those that are read, in order; none of synthetic.
  std::vector<std::string> files() const;
};

// Errors: kInvalidArgument, reason "bad_data_spec": what was found and what is known.
Result<DataSpec> parse_data_spec(std::string_view text);

// Who else trains on data of the same form.
enum class DataUse {
  kFederated,  // other devices, or a server that evaluates for them: what a feature means must not
               // depend on one file, so a CSV's categories must be stated
  kCentral,    // nobody: categories that are not stated are collected from the file
};

// Reads the files, or draws what has none, and cuts out the shard; of that, floor(holdout * n)
// examples drawn at random are held out. Missing values of a CSV that become a mean or median get
// those of the training part that is returned. Errors: as parse_data_spec, the readers of the
// formats and the partitions.
Result<LocalData> load_data(const DataSpec& spec, DataUse use = DataUse::kFederated);
Result<LocalData> load_data(std::string_view spec, DataUse use = DataUse::kFederated);

}  // namespace muster
