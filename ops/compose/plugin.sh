#!/bin/sh
# Build Docker Compose from its Go module, where no package of the system has it.
#
#   sh ops/compose/plugin.sh
#
# The result goes to ~/.cache/threadbus/bin/docker-compose (some 70 MB); it works by that name, and
# as `docker compose` once it is linked into ~/.docker/cli-plugins. Go is needed.
set -eu

version=v2.40.3
target=${HOME:?}/.cache/threadbus/bin/docker-compose
export GOFLAGS=-mod=mod GOTOOLCHAIN="${GOTOOLCHAIN:-auto}" CGO_ENABLED=0

say() { printf 'compose: %s\n' "$*"; }

if docker compose version >/dev/null 2>&1; then
    say "docker compose is there already"
    exit 0
fi
if [ -x "$target" ]; then
    say "$target is there already"
    exit 0
fi
if ! command -v go >/dev/null 2>&1; then
    say "Go is needed to build it (https://go.dev/dl, or the package golang)" >&2
    exit 1
fi
say "building $version (some minutes, the first time)"
mkdir -p "$(dirname "$target")"
# Under another folder first: whoever looks never finds half of it.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
source=$(go mod download -json "github.com/docker/compose/v2@$version" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
if [ ! -d "$source" ]; then
    say "the Go module proxy did not give the source" >&2
    exit 1
fi
cp -R "$source" "$work/source"
chmod -R u+w "$work/source"
cd "$work/source"
go build -trimpath -o "$target.new.$$" \
    -ldflags="-s -w -X github.com/docker/compose/v2/internal.Version=$version" ./cmd
mv "$target.new.$$" "$target"
say "built $target"
