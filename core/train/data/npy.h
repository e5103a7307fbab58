#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/train/data/array_data.h"
#include "core/train/data/dataset.h"

// NumPy's NPY format (numpy.lib.format, "Format Version 1.0" to "3.0"): the bytes 0x93 "NUMPY", a
// major and a minor version, the header's length (2 bytes little-endian in version 1, 4 in 2 and
// 3), the header, then the elements. The header is a Python dictionary in text, with exactly the
// keys descr, fortran_order and shape, padded with spaces and ended by a line end; it is read by a
// tokenizer, never evaluated.
namespace muster {

struct NpyLimits {
  std::uint64_t bytes = std::uint64_t{1} << 32;  // of a file
  std::size_t header_bytes = 1 << 16;
  std::size_t rank = 16;
};

// Reads the header of a whole file in memory, of which the array is a view; `name` is the file's.
// Dtypes: |b1, |i1, |u1, and i2, i4, i8, u2, u4, u8, f2, f4, f8 with < or >. Both orders of
// elements. Errors: kInvalidArgument, reason "bad_npy", with name and byte: another magic number or
// version; a header that is not of this form; a dtype that is none of these (structures, texts,
// objects, complex numbers); a shape over the limits; data that is shorter or longer than shape and
// dtype say.
Result<FileArray> parse_npy(ByteView file, const std::string& name, const NpyLimits& limits = {});

// Features [n, ...] and targets [n] or [n, ...] from two files.
// Errors: as parse_npy, read_file and dataset_from_arrays.
Result<Dataset> load_npy(const std::filesystem::path& features,
                         const std::filesystem::path& targets, const ArrayOptions& options,
                         const NpyLimits& limits = {});

}  // namespace muster
