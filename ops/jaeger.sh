#!/bin/sh
# Build a Jaeger (v2.13.0) for `bus up --jaeger` and for the tests, once for this user.
#
#   sh ops/jaeger.sh
#
# The source comes from the Go module proxy. The first time it takes some minutes of two cores,
# about 1.5 GB of the Go caches (`go clean -modcache -cache` gives them back), and 120 MB that stay.
# What it builds has the API and takes spans; its page is a placeholder, since the module does not
# hold it. A page that was built from github.com/jaegertracing/jaeger-ui goes to jaeger-ui beside
# the binary. A release of Jaeger, named by BUS_JAEGER, has everything.
set -eu

version=v1.76.0 # the module's number of the release v2.13.0
target=${HOME:?}/.cache/threadbus/bin/jaeger
export GOFLAGS=-mod=mod GOTOOLCHAIN="${GOTOOLCHAIN:-auto}" CGO_ENABLED=0

say() { printf 'jaeger: %s\n' "$*"; }

if [ -x "$target" ]; then
    say "$target is there already"
    exit 0
fi
if ! command -v go >/dev/null 2>&1; then
    say "Go is needed to build it (https://go.dev/dl, or the package golang); or set BUS_JAEGER to a release of jaeger" >&2
    exit 1
fi
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

say "downloading the source of $version"
cd "$work"
# `go install module@version` refuses a module with replace directives; as the main module a copy
# of it builds.
source=$(go mod download -json "github.com/jaegertracing/jaeger@$version" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
if [ ! -d "$source" ]; then
    say "the Go module proxy did not give the source" >&2
    exit 1
fi
cp -R "$source" source
chmod -R u+w source
cd source
say "building (some minutes, the first time)"
mkdir -p "$(dirname "$target")"
# Under another name first: whoever looks never finds half of it.
go build -ldflags='-s -w' -o "$target.new.$$" ./cmd/jaeger
mv "$target.new.$$" "$target"
say "built $target"
