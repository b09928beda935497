# Sourced by run: what the tests of ops/compose.yaml build on, made behind other work.
#
# start_compose_build begins it with low priority, once there are a Docker engine and a Jaeger:
# Docker Compose where it is missing, base images and wheels, and the images themselves, for the
# cache of the engine. What takes long is kept below ~/.cache. await_compose_build waits for its
# end; stop_compose_build ends it before that.

compose_pid=''
readonly compose_limit=$((15 * 60)) # seconds, from the begin of the wait

build_compose() {
    local compose=(docker compose)
    sh ops/compose/plugin.sh || return 1
    docker compose version >/dev/null 2>&1 || compose=("$HOME/.cache/threadbus/bin/docker-compose")
    eval "$(sh ops/compose/offline.sh)"
    THREADBUS_IMAGE=threadbus:ci THREADBUS_NATS_IMAGE=threadbus-nats:ci \
        THREADBUS_KEYS_IMAGE=threadbus-keys:ci "${compose[@]}" -f ops/compose.yaml build --quiet
}
export -f build_compose

start_compose_build() {
    # In a group of its own, so that its compilers end with it.
    setsid nice bash -euo pipefail -c build_compose >"$work/compose.log" 2>&1 </dev/null &
    compose_pid=$!
}

await_compose_build() {
    local code=0 began=$SECONDS
    [ -n "$compose_pid" ] || return 1
    while kill -0 "$compose_pid" 2>/dev/null; do
        if ((SECONDS - began > compose_limit)); then
            say "compose: stopped after $compose_limit s"
            stop_compose_build
            code=1
            break
        fi
        sleep 1
    done
    if [ -n "$compose_pid" ]; then wait "$compose_pid" || code=$?; fi
    compose_pid=''
    if ((code != 0)); then
        say 'compose: not built; the end of what that said:'
        tail -n 30 "$work/compose.log"
        return 1
    fi
    say "compose: built, awaited for $((SECONDS - began)) s"
}

stop_compose_build() {
    [ -n "$compose_pid" ] || return 0
    kill -- "-$compose_pid" 2>/dev/null || true
    wait "$compose_pid" 2>/dev/null || true
    compose_pid=''
}
