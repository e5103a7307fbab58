#include "core/train/data/safetensors_data.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/file.h"
#include "core/tensor/safetensors.h"

namespace muster {
namespace {

Result<FileArray> find_tensor(const SafetensorsHeader& header, ByteView file,
                              const std::string& name, const std::string& tensor) {
  const auto found =
      std::find_if(header.tensors.begin(), header.tensors.end(),
                   [&](const SafetensorsTensor& each) { return each.name == tensor; });
  if (found == header.tensors.end()) {
    std::string known;
    for (std::size_t i = 0; i < std::min<std::size_t>(header.tensors.size(), 20); ++i) {
      known += (i == 0 ? "" : ", ") + printable(header.tensors[i].name, 40);
    }
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("{}: no tensor \"{}\", there are {}", name, printable(tensor),
                             known.empty() ? "none" : known),
                 "missing_tensor"};
  }
  return FileArray{
      .name = fmt::format("{}: tensor \"{}\"", name, printable(tensor)),
      .dtype = found->dtype,
      .shape = found->shape,
      .data = file.subspan(header.data_begin + found->begin, found->end - found->begin),
      .begin = header.data_begin + found->begin};
}

}  // namespace

Result<Dataset> parse_safetensors_data(ByteView file, const std::string& name,
                                       const TensorNames& names, const ArrayOptions& options) {
  MUSTER_TRY_IN(name, const SafetensorsHeader header, parse_safetensors_header(file, file.size()));
  MUSTER_TRY(const FileArray features, find_tensor(header, file, name, names.features));
  MUSTER_TRY(const FileArray targets, find_tensor(header, file, name, names.targets));
  return dataset_from_arrays(features, targets, options, "bad_tensor");
}

Result<Dataset> load_safetensors_data(const std::filesystem::path& path, const TensorNames& names,
                                      const ArrayOptions& options,
                                      const SafetensorsDataLimits& limits) {
  MUSTER_TRY(const std::string content, read_file(path, limits.bytes));
  return parse_safetensors_data(as_bytes(content), path.string(), names, options);
}

}  // namespace muster
