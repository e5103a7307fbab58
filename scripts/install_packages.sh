#!/usr/bin/env bash
# Installs what Muster needs on Debian 12, with apt-get. Nothing happens when all of it is there.
#   scripts/install_packages.sh         what building and the demo need
#   scripts/install_packages.sh --test  and what the tests and the lint need
#   scripts/install_packages.sh --bench and what the comparison with PyTorch needs
set -euo pipefail

packages=(
  g++ cmake ninja-build pkg-config git ca-certificates
  libssl-dev libcpp-httplib-dev libasio-dev libsqlitecpp-dev libsqlite3-dev
  nlohmann-json3-dev libexpected-dev libcli11-dev libspdlog-dev libfmt-dev zlib1g-dev libzstd-dev
  dataset-fashion-mnist sqlite3
)
test_packages=(libgtest-dev libgmock-dev libbenchmark-dev libeigen3-dev libgmp-dev clang-format clang-tidy openssl curl
               python3 procps)

bench_packages=(python3-torch python3-numpy libopenblas0-pthread)

case "${1:-}" in
  --test) packages+=("${test_packages[@]}") ;;
  --bench) packages+=("${test_packages[@]}" "${bench_packages[@]}") ;;
  "") ;;
  *) echo "usage: scripts/install_packages.sh [--test|--bench]" >&2; exit 2 ;;
esac

missing=()
for package in "${packages[@]}"; do
  dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed ||
    missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "run this as root, it installs: ${missing[*]}" >&2; exit 1; }
  as_root=(sudo)
fi
echo "installing: ${missing[*]}"
"${as_root[@]}" apt-get update -qq
DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
