#!/usr/bin/env bash
# Installs what is missing, builds the release preset and runs the whole test suite and the lint.
#   scripts/test.sh [PRESET]    release (default), debug, asan or tsan
set -euo pipefail
cd "$(dirname "$0")/.."
preset="${1:-release}"

scripts/install_packages.sh --test
cmake --preset "$preset" -DMUSTER_BUILD_TESTS=ON
cmake --build --preset "$preset"
ctest --preset "$preset" --no-tests=error
