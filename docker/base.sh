#!/bin/sh
# A base image from Debian's packages alone, for where no registry of images is within reach: plait-base:bookworm, which
# the Dockerfile takes by BASE, or another of other packages. Needs root, debootstrap, and Debian's mirror once
# (DEBIAN_MIRROR for another than debootstrap's own); what it made is kept in ${XDG_CACHE_HOME:-~/.cache}/plait and
# imported from there next time.
#   sh docker/base.sh [IMAGE:SUITE [PACKAGE...]]
set -eu
image="${1:-plait-base:bookworm}"
suite="${image##*:}"
[ "$#" -eq 0 ] || shift
packages="${*:-python3 python3-pip python3-venv binutils ca-certificates openjdk-17-jre-headless prometheus}"
cache="${XDG_CACHE_HOME:-$HOME/.cache}/plait"
archive="$cache/base-$suite-$(echo "$packages" | cksum | cut -d' ' -f1).tar"
minimal="$cache/base-$suite-minimal.tar"  # as debootstrap makes it: what bases of different packages have in common
log="$cache/debootstrap.log"

stop() {
  echo "base: $1" >&2
  exit 1
}
missing() { ! command -v "$1" >/dev/null 2>&1; }
logged() { "$@" >>"$log" 2>&1 || { tail -5 "$log" >&2; stop "$1 failed; all of its output is in $log"; }; }

! missing docker || stop "docker is not installed: apt-get install docker.io"
docker image inspect "$image" >/dev/null 2>&1 && exit
if [ ! -f "$archive" ]; then
  [ "$(id -u)" = 0 ] || stop "a root file system is made by root only: sudo make image-offline"
  ! missing debootstrap || stop "debootstrap is not installed: apt-get install debootstrap"
fi
docker info >/dev/null 2>&1 || stop "no Docker engine answers: start it, as by systemctl start docker"

if [ ! -f "$archive" ]; then
  mkdir -p "$cache"
  root="$(mktemp -d "$cache/root.XXXXXX")"
  trap 'umount "$root/proc" 2>/dev/null || true; rm -rf "$root" "$archive.part" "$minimal.part"' EXIT
  trap 'exit 130' INT TERM HUP  # by itself, sh does not run the trap of EXIT then
  : >"$log"
  if [ ! -f "$minimal" ]; then
    echo "base: Debian $suite, by debootstrap (some minutes, once)"
    # shellcheck disable=SC2086
    logged debootstrap --variant=minbase "$suite" "$root" ${DEBIAN_MIRROR:-}
    printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"  # no daemon starts in here
    chmod +x "$root/usr/sbin/policy-rc.d"
    mkdir -p "$root/usr/share/man/man1"
    echo force-unsafe-io >"$root/etc/dpkg/dpkg.cfg.d/plait"  # a root that a power failure damages is made anew
    tar -C "$root" --numeric-owner -cf "$minimal.part" .
    mv "$minimal.part" "$minimal"
  else
    tar -C "$root" --numeric-owner -xpf "$minimal"
  fi
  cat /etc/resolv.conf >"$root/etc/resolv.conf"
  mount -t proc proc "$root/proc" || stop "/proc cannot be mounted here: this takes a privileged root"
  export DEBIAN_FRONTEND=noninteractive
  logged chroot "$root" apt-get update -qq
  # shellcheck disable=SC2086
  logged chroot "$root" apt-get install -qq -y --no-install-recommends $packages
  chroot "$root" apt-get clean
  rm "$root/etc/dpkg/dpkg.cfg.d/plait"
  umount "$root/proc"
  rm -rf "$root"/var/lib/apt/lists/* "$root"/usr/share/doc/* "$root"/usr/share/man/* "$root"/usr/share/locale/*
  tar -C "$root" --numeric-owner -cf "$archive.part" .
  mv "$archive.part" "$archive"
fi
docker import --change 'CMD ["/bin/sh"]' "$archive" "$image" >/dev/null
echo "base: $image"
