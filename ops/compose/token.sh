#!/bin/sh
# Make a token for the gateways of ops/compose.yaml, and let them speak under its name.
#
#   sh ops/compose/token.sh NAME [--json]
#
# Until then neither gateway may: the server refuses it. The running gateways take it in.
set -eu
CDPATH='' cd -- "$(dirname -- "$0")/.."
name=${1:?give the name that the holder of the token has on the bus}
shift

# COMPOSE: how Docker Compose is started here.
compose() { ${COMPOSE:-docker compose} -f compose.yaml "$@"; }

compose run --rm --no-deps --no-TTY keys name "$name" >&2
compose kill --signal HUP nats >&2
compose exec --no-TTY mcp bus gateway token "$name" --tokens /state/tokens.json "$@"
