# Sourced by the scripts that install packages whose services are not wanted; `root` is where the system's directories are.

# Debian's packages start their services unless this program forbids it: 101 is "forbidden by policy".
policy=$root/usr/sbin/policy-rc.d

restore() {
  rm -f "$policy"
  if [ -e "$policy.before-muster" ]; then mv "$policy.before-muster" "$policy"; fi
}

install_without_services() {
  trap restore EXIT
  if [ -e "$policy" ]; then mv "$policy" "$policy.before-muster"; fi
  printf '#!/bin/sh\nexit 101\n' >"$policy"
  chmod 755 "$policy"
  apt-get -qq update
  DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends -o Dpkg::Use-Pty=0 -o Dpkg::Options::=--force-confold \
    install "$@"
}
