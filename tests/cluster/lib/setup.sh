# shellcheck shell=bash
# Debian packages that the cluster, the images and the tests need; and a plain
# line for what this machine cannot do.

PACKAGES="buildah mmdebstrap debian-archive-keyring runc containernetworking-plugins nftables conntrack
  ebtables ethtool socat iproute2 btrfs-progs util-linux zip unzip jq curl openssl gcc libc6-dev python3-pip
  postgresql postgresql-client prometheus shellcheck bc"

setup_packages() {
  local package
  local -a missing=()
  for package in $PACKAGES; do
    [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) == installed ]] || missing+=("$package")
  done
  if ((${#missing[@]} == 0)); then
    step "all packages are there"
    return
  fi
  step "installing: ${missing[*]}"
  # No service may start because its package came: the tests start their own.
  local policy=/usr/sbin/policy-rc.d
  if [[ ! -e $policy ]]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
    # shellcheck disable=SC2064
    trap "rm -f $policy" EXIT
  fi
  apt-get update -q >/dev/null || step "apt-get update had errors; going on with what is known"
  DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}" >/dev/null ||
    die "apt-get could not install: ${missing[*]}"
  step "installed"
}

check_machine() {
  local kind
  [[ $(uname -s) == Linux ]] || die "the test cluster needs Linux"
  for kind in overlay btrfs; do
    grep -qw "$kind" /proc/filesystems || modprobe "$kind" 2>/dev/null ||
      die "this kernel has no $kind file system, which the test cluster needs"
  done
  [[ -e /dev/loop-control ]] || modprobe loop 2>/dev/null || die "this machine has no loop devices (/dev/loop-control)"
  unshare --net true 2>/dev/null || die "network namespaces cannot be made here"
  ip link show "$BRIDGE" >/dev/null 2>&1 || {
    ip link add "$BRIDGE" type bridge 2>/dev/null || die "bridges cannot be made here"
    ip link del "$BRIDGE"
  }
  [[ $(stat -fc %T /var/lib) != overlayfs ]] || die "/var/lib is an overlay: containerd cannot put its own on it; mount a volume at $STATE"
}
