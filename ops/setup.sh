#!/bin/sh
# Create a virtual environment and install threadbus into it. `make setup` calls this.
#
#   VENV     where (default .venv)
#   PYTHON   which Python (default: the first on the PATH that is new enough)
#   GROUP    which dependency group of pyproject.toml (default dev)
#
# Does nothing when that is already done and pyproject.toml, constraints.txt, this file and the
# place of the folder are still the same.
set -eu
CDPATH='' cd -- "$(dirname -- "$0")/.."

VENV=${VENV:-.venv}
PYTHON=${PYTHON:-}
GROUP=${GROUP:-dev}
READY=$VENV/.ready

say() { printf 'setup: %s\n' "$*"; }
die() {
    printf 'setup: %s\n' "$@" >&2
    exit 1
}

is_new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

find_python() {
    if [ -n "$PYTHON" ]; then
        set -- "$PYTHON"
    else
        set -- python3 python3.13 python3.12 python3.11 python3.14 python
    fi
    for candidate in "$@"; do
        if is_new_enough "$candidate"; then
            PYTHON=$candidate
            return
        fi
    done
    found=$("$1" --version 2>/dev/null) || found='not found, or not a working Python'
    die "threadbus needs Python 3.11 or later; '$1' is: $found" \
        "install one (on Debian or Ubuntu: apt-get install python3 python3-venv)," \
        "or name it: make setup PYTHON=/path/to/python3.12"
}

# Debian and Ubuntu ship python3 without ensurepip; it comes with the package pythonX.Y-venv.
install_venv_package() {
    package=$("$PYTHON" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
    prefix=$("$PYTHON" -c 'import sys; print(sys.base_prefix)')
    if [ "$prefix" != /usr ] || ! command -v apt-get >/dev/null; then
        die "'$PYTHON' has neither ensurepip nor pip, so it cannot make a virtual environment" \
            "install its venv or pip, or name another: make setup PYTHON=/path/to/python3.12"
    fi
    if [ "$(id -u)" -eq 0 ]; then
        as_root=''
    elif command -v sudo >/dev/null && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
        as_root=sudo
    else
        die "this Python cannot make a virtual environment before one package is installed; type" \
            "    sudo apt-get update && sudo apt-get install -y $package" \
            "and then run the same make command again"
    fi
    say "installing the package $package, which Python needs here for a virtual environment"
    log=$(mktemp)
    {
        $as_root apt-get update || echo 'going on with the package lists that are there'
        $as_root env DEBIAN_FRONTEND=noninteractive \
            apt-get install -y --no-install-recommends "$package"
    } >"$log" 2>&1 || {
        tail -n 20 "$log" >&2
        die "apt-get could not install $package (its last lines are above, all of them in $log)" \
            "install it, then run the same make command again"
    }
    rm -f "$log"
}

make_venv() {
    if [ -n "$(ls -A "$VENV" 2>/dev/null)" ] && [ ! -e "$VENV/pyvenv.cfg" ]; then
        die "'$VENV' is there and is not a virtual environment; move it away"
    fi
    say "creating $VENV with $("$PYTHON" --version 2>&1)"
    if ! "$PYTHON" -c 'import ensurepip, venv' 2>/dev/null; then
        if "$PYTHON" -c 'import pip, venv' 2>/dev/null; then
            "$PYTHON" -m venv --clear --without-pip "$VENV"
            "$PYTHON" -m pip --python "$VENV/bin/python" \
                install --quiet --constraint constraints.txt pip ||
                die "pip could not be installed into $VENV (see above)"
            return
        fi
        install_venv_package
    fi
    "$PYTHON" -m venv --clear "$VENV" || die "'$PYTHON' could not create $VENV (see above)"
}

version_of() { "$1" -c 'import sys; print(sys.version)' 2>/dev/null || echo none; }

place="group $GROUP in $(pwd -P)"
fingerprint="$(cksum pyproject.toml constraints.txt ops/setup.sh)
$place"

installed=$(version_of "$VENV/bin/python")
if [ -n "$PYTHON" ] && [ "$(version_of "$PYTHON")" != "$installed" ]; then
    installed=none
fi
if [ "$installed" != none ] && [ "$(cat "$READY" 2>/dev/null)" = "$fingerprint" ]; then
    exit 0
fi

# A virtual environment holds its own absolute path: after a move it is made again.
if [ "$installed" = none ] || [ "$(tail -n 1 "$READY" 2>/dev/null)" != "$place" ]; then
    find_python
    make_venv
fi
rm -f "$READY"
say "installing threadbus and its tools into $VENV (the first time this downloads; please wait)"
install() {
    "$VENV/bin/python" -m pip --disable-pip-version-check \
        install --quiet --constraint constraints.txt "$@"
}
{
    install --upgrade pip &&
        install --build-constraint constraints.txt --group "$GROUP" --editable '.[all]'
} || die "pip could not install everything (see above)" \
    "check the network, then run the same make command again"
printf '%s\n' "$fingerprint" >"$READY"
say "ready: $("$VENV/bin/python" --version 2>&1) in $VENV"
