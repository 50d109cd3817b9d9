#!/usr/bin/env bash
# Installs the Slurm of the tests, with accounting and MPI, by Debian's and Ubuntu's packages. The tests start daemons of their own
# from it; the packages' own services stay off, and what the machine has configured stays as it is.
set -euo pipefail
root=${DESTDIR:-} # where the system's directories are, for tests of this script
PATH="$PATH:$root/usr/sbin:$root/sbin" # where the daemons are, which is not on everybody's PATH
programs=(munged slurmctld slurmd sbatch slurmdbd mariadbd mpirun)
packages=(munge slurmctld slurmd slurm-client slurmdbd mariadb-server-core openmpi-bin)

missing=() services=()
for i in "${!programs[@]}"; do
  command -v "${programs[i]}" >/dev/null || missing+=("${packages[i]}")
done
# srun's PMIx is a library that it opens under the name which only its development package gives it.
compgen -G "$root/usr/lib/*/pmix2/lib/libpmix.so" >/dev/null || missing+=(libpmix-dev)
if [ ${#missing[@]} = 0 ]; then
  echo "slurm: $(slurmctld -V), $(command -v slurmctld)"
  exit 0
fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "slurm: ${missing[*]} not found; install as root (Debian and Ubuntu: apt-get install ${missing[*]})" >&2
  exit 1
fi
echo "slurm: ${missing[*]} by apt-get, services left off"

source "${BASH_SOURCE%/*}/without_services.sh"
install_without_services "${missing[@]}"
for name in "${missing[@]}"; do
  case "$name" in munge | slurm*d) services+=("$name") ;; esac
done
if command -v systemctl >/dev/null && [ ${#services[@]} -gt 0 ]; then systemctl --quiet disable "${services[@]}" || true; fi
