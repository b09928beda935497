# Sourced by run: a Jaeger for the tests, built behind other work.
#
# start_jaeger_build begins it with low priority; where none is kept below ~/.cache it takes some
# minutes. await_jaeger_build waits for its end, and shows what it said when that was a failure.
# stop_jaeger_build ends it before that.

jaeger_pid=''
readonly jaeger_limit=$((20 * 60)) # seconds, from the begin of run

start_jaeger_build() {
    # In a group of its own, so that its compilers end with it.
    setsid nice sh ops/jaeger.sh >"$work/jaeger.log" 2>&1 </dev/null &
    jaeger_pid=$!
}

await_jaeger_build() {
    local code=0 began=$SECONDS
    [ -n "$jaeger_pid" ] || return 0
    while kill -0 "$jaeger_pid" 2>/dev/null; do
        if ((SECONDS > jaeger_limit)); then
            say "jaeger: stopped after $jaeger_limit s"
            stop_jaeger_build
            code=1
            break
        fi
        sleep 1
    done
    if [ -n "$jaeger_pid" ]; then wait "$jaeger_pid" || code=$?; fi
    jaeger_pid=''
    if ((code != 0)); then
        say 'jaeger: not built; the end of what that said:'
        tail -n 30 "$work/jaeger.log"
        return 1
    fi
    say "$(tail -n 1 "$work/jaeger.log"), awaited for $((SECONDS - began)) s"
}

stop_jaeger_build() {
    [ -n "$jaeger_pid" ] || return 0
    kill -- "-$jaeger_pid" 2>/dev/null || true
    wait "$jaeger_pid" 2>/dev/null || true
    jaeger_pid=''
}
