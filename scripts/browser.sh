#!/usr/bin/env bash
# Installs the browser of the tests: Debian's and Ubuntu's package `chromium`, and a font that has Chinese letters.
set -euo pipefail
for name in chromium chromium-browser google-chrome google-chrome-stable; do
  if command -v "$name" >/dev/null; then
    echo "browser: $(command -v "$name")"
    exit 0
  fi
done
packages="chromium fonts-noto-cjk"
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "browser: not found; install it (Debian and Ubuntu: apt-get install $packages)" >&2
  exit 1
fi
echo "browser: $packages by apt-get"
apt-get -qq update
# shellcheck disable=SC2086 # two words
DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends -o Dpkg::Use-Pty=0 install $packages
