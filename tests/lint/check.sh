#!/usr/bin/env bash
# The checks of CONTRIBUTING.md that a tool can make. Without an argument all but tidy, which takes ten minutes.
#   tests/lint/check.sh [format|layers|length|headers|kernels|tidy]...
# kernels needs a built build, tidy a configured one: BUILD_DIR (default build/release).
set -uo pipefail
cd "$(dirname "$0")/../.."
build_dir="${BUILD_DIR:-build/release}"
jobs="$(nproc)"
failed=0

sources() { find core storage certs server edge_client tests -name '*.h' -o -name '*.cc' | sort; }
product_headers() { find core storage certs server edge_client -name '*.h' | sort; }

check_format() {
  sources | xargs clang-format --dry-run -Werror 2>&1 | grep -E 'error' | head -20
  [ "${PIPESTATUS[1]}" -eq 0 ]
}

# A folder may include its own headers and those of the folders named here, nothing else of the house.
check_layers() { python3 tests/lint/layers.py; }

check_length() {
  local long
  long=$(find core storage certs server edge_client -name '*.h' -o -name '*.cc' | xargs wc -l | awk '$2 != "total" && $1 > 400 {print $2 ": " $1 " lines, at most 400"}')
  [ -z "$long" ] || { echo "$long"; return 1; }
}

check_headers() {
  product_headers | xargs -P "$jobs" -I{} sh -c '
    echo "#include \"{}\"" |
      g++ -std=c++20 -I. -isystem /usr/include/eigen3 -DSPDLOG_COMPILED_LIB -DSPDLOG_FMT_EXTERNAL -fsyntax-only -x c++ - ||
      { echo "{}: does not stand alone"; exit 1; }'
}

# What is compiled for a newer instruction set must have no symbol that the linker may share with other files (a function
# from a header, say): it would take that copy for all, and old processors could not run it.
check_kernels() {
  local object found=0
  for object in "$build_dir"/core/CMakeFiles/muster_core_tensor.dir/tensor/kernels/table_*.cc.o; do
    [ -e "$object" ] || { echo "no kernels built in $build_dir"; return 1; }
    nm -C "$object" | grep -E ' [WVu] ' && { echo "$object: weak symbols"; found=1; }
  done
  return "$found"
}

check_tidy() {
  find core storage certs server edge_client -name '*.cc' | sort |
    xargs -P "$jobs" -n 4 clang-tidy -p "$build_dir" --quiet --extra-arg=-Wno-unknown-warning-option 2>/dev/null
}

for check in "${@:-format layers length headers kernels}"; do
  for one in $check; do
    echo "lint: $one"
    "check_$one" || { echo "lint: $one FAILED"; failed=1; }
  done
done
exit "$failed"
