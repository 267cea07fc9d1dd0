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

docker image inspect "$image" >/dev/null 2>&1 && exit
if [ ! -f "$archive" ]; then
  command -v debootstrap >/dev/null || { echo "base: apt-get install debootstrap" >&2; exit 1; }
  mkdir -p "$cache"
  root="$(mktemp -d "$cache/root.XXXXXX")"
  trap 'umount "$root/proc" 2>/dev/null || true; rm -rf "$root" "$archive.part"' EXIT
  echo "base: Debian $suite, by debootstrap (some minutes, once)"
  # shellcheck disable=SC2086
  debootstrap --variant=minbase "$suite" "$root" ${DEBIAN_MIRROR:-} >"$cache/debootstrap.log" 2>&1 || { tail -5 "$cache/debootstrap.log" >&2; exit 1; }
  printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"  # no daemon starts in here
  chmod +x "$root/usr/sbin/policy-rc.d"
  mkdir -p "$root/usr/share/man/man1"
  mount -t proc proc "$root/proc"
  # shellcheck disable=SC2086
  DEBIAN_FRONTEND=noninteractive chroot "$root" apt-get install -qq -y --no-install-recommends $packages >>"$cache/debootstrap.log" 2>&1 ||
    { tail -5 "$cache/debootstrap.log" >&2; exit 1; }
  chroot "$root" apt-get clean
  umount "$root/proc"
  rm -rf "$root"/var/lib/apt/lists/* "$root"/usr/share/doc/* "$root"/usr/share/man/* "$root"/usr/share/locale/*
  tar -C "$root" --numeric-owner -cf "$archive.part" .
  mv "$archive.part" "$archive"
fi
docker import --change 'CMD ["/bin/sh"]' "$archive" "$image" >/dev/null
echo "base: $image"
