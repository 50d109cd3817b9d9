#!/usr/bin/env bash
# Installs the PostgreSQL of the tests by Debian's and Ubuntu's packages. The tests start servers of their own from it, in private
# directories; the package makes no database of its own and its service stays off.
set -euo pipefail
root=${DESTDIR:-} # where the system's directories are, for tests of this script

if compgen -G "$root/usr/lib/postgresql/*/bin/postgres" >/dev/null; then
  echo "postgres: $(compgen -G "$root/usr/lib/postgresql/*/bin/postgres")"
  exit 0
fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "postgres: not found; install as root (Debian and Ubuntu: apt-get install postgresql)" >&2
  exit 1
fi
echo "postgres: by apt-get, service left off"

source "${BASH_SOURCE%/*}/without_services.sh"
# Else the package makes a database cluster for its service; a setting of the machine's own stays.
settings=$root/etc/postgresql-common/createcluster.conf
if [ ! -e "$settings" ]; then
  mkdir -p "${settings%/*}"
  echo "create_main_cluster = false" >"$settings"
fi
install_without_services postgresql
