#!/usr/bin/env bash
# Installs what the tests of hosts are made of, an ssh server, iproute2, faketime for hosts whose clocks are wrong (a time namespace does
# not change the time of day), and other login shells, by Debian's and Ubuntu's packages. The tests start servers of their own in network namespaces; the
# package's own service stays off.
set -euo pipefail
root=${DESTDIR:-} # where the system's directories are, for tests of this script
PATH="$PATH:$root/usr/sbin:$root/sbin"
programs=(sshd ssh ip faketime tcsh fish)
packages=(openssh-server openssh-client iproute2 faketime tcsh fish)

missing=()
for i in "${!programs[@]}"; do
  command -v "${programs[i]}" >/dev/null || missing+=("${packages[i]}")
done
if [ ${#missing[@]} = 0 ]; then
  echo "hosts: $(command -v sshd), $(command -v ip)"
  exit 0
fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "hosts: ${missing[*]} not found; install as root (Debian and Ubuntu: apt-get install ${missing[*]})" >&2
  exit 1
fi
echo "hosts: ${missing[*]} by apt-get, services left off"

source "${BASH_SOURCE%/*}/without_services.sh"
install_without_services "${missing[@]}"
