#!/usr/bin/env bash
# The checks of CONTRIBUTING.md that a tool can make. Without an argument all but tidy, which takes ten minutes.
#   tests/lint/check.sh [format|layers|length|headers|tidy]...
# headers and tidy need a configured build: BUILD_DIR (default build/release) with compile_commands.json.
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

check_tidy() {
  find core storage certs server edge_client -name '*.cc' | sort |
    xargs -P "$jobs" -n 4 clang-tidy -p "$build_dir" --quiet --extra-arg=-Wno-unknown-warning-option 2>/dev/null
}

for check in "${@:-format layers length headers}"; do
  for one in $check; do
    echo "lint: $one"
    "check_$one" || { echo "lint: $one FAILED"; failed=1; }
  done
done
exit "$failed"
