# Sourced by run: the A2A peers that tests/integration/test_a2a_peers.py wants, kept under the home
# folder.
#
# install_a2a_peers installs the JavaScript SDK and, in a Python of its own, a2a-sdk 0.3, each
# once, and exports THREADBUS_A2A_PEERS. It needs npm and Node 20 or later.

a2a_peers=${XDG_CACHE_HOME:-$HOME/.cache}/threadbus/a2a-peers-1

install_a2a_peers() {
    local work
    if [ ! -e "$a2a_peers/.complete" ]; then
        if ! command -v npm >/dev/null; then
            say "a2a: no npm; the tests that need the peers will fail"
            return 1
        fi
        say "a2a: the JavaScript SDK, and a2a-sdk 0.3"
        mkdir -p "${a2a_peers%/*}"
        work=$(mktemp -d)
        # A virtual environment cannot be moved: it is made where it stays.
        rm -rf "$a2a_peers"
        mkdir -p "$a2a_peers/node"
        printf '{"private": true}\n' >"$a2a_peers/node/package.json"
        if ! { (cd "$a2a_peers/node" &&
            npm install --no-audit --no-fund --loglevel=error @a2a-js/sdk@1.3.0 express@5) &&
            python3 -m venv "$a2a_peers/old" &&
            "$a2a_peers/old/bin/pip" install -q 'a2a-sdk[http-server]==0.3.26' uvicorn; } >"$work/log" 2>&1; then
            tail -n 20 "$work/log"
            rm -rf "$work"
            return 1
        fi
        rm -rf "$work"
        touch "$a2a_peers/.complete"
    fi
    export THREADBUS_A2A_PEERS=$a2a_peers
}
