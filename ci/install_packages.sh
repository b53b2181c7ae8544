#!/usr/bin/env bash
# Installs the packages of ci/packages.txt that are missing. Asks the network
# only if there are any.
set -euo pipefail
cd "$(dirname "$0")"

installed() {
  [ "$(dpkg-query --show --showformat='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

missing=()
while read -r package _; do
  case "$package" in '' | '#'*) continue ;; esac
  installed "$package" || missing+=("$package")
done <packages.txt
[ "${#missing[@]}" -eq 0 ] && exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || {
    echo "missing Debian packages: ${missing[*]}; install them as root" >&2
    exit 12
  }
  as_root=(sudo)
fi
echo "installing: ${missing[*]}" >&2
# A service that comes with a package (docker.io, docker-registry) is not started:
# the tests and the demo start their own.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  trap '"${as_root[@]}" rm -f "$policy"' EXIT
  printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" install -m 755 /dev/stdin "$policy"
fi
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update --quiet=2
"${as_root[@]}" apt-get install --yes --quiet=2 --no-remove --no-install-recommends "${missing[@]}" >/dev/null
