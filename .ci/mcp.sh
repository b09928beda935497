# Sourced by run: what the tests of the MCP gateway need of npm, kept under the home folder.
#
# install_mcp_peers installs Node 22, the conformance suites, the Inspector and the JavaScript
# client, each once, and exports THREADBUS_MCP_PEERS, where tests/support/mcp_peers.py finds them.

mcp_peers=${XDG_CACHE_HOME:-$HOME/.cache}/threadbus/mcp-peers-1

# npm_folder NAME PACKAGE…: install packages into a folder of their own, unless they are there.
npm_folder() {
    local folder=$mcp_peers/$1 work
    shift
    [ -e "$folder/.complete" ] && return 0
    work=$(mktemp -d "$mcp_peers/.new.XXXXXX")
    printf '{"private": true}\n' >"$work/package.json"
    if ! (cd "$work" && npm install --no-audit --no-fund --loglevel=error "$@") >"$work/npm.log" 2>&1; then
        tail -n 20 "$work/npm.log"
        rm -rf "$work"
        return 1
    fi
    touch "$work/.complete"
    rm -rf "$folder"
    mv "$work" "$folder"
}

install_mcp_peers() {
    if ! command -v npm >/dev/null; then
        say "mcp: no npm; the tests that need it will fail"
        return 1
    fi
    mkdir -p "$mcp_peers"
    say "mcp: Node 22, conformance suites, Inspector and JavaScript client"
    npm_folder node node@22.23.3 &&
        npm_folder conformance-0.1 @modelcontextprotocol/conformance@0.1.16 &&
        npm_folder conformance-0.2 @modelcontextprotocol/conformance@0.2.0-alpha.12 &&
        npm_folder inspector @modelcontextprotocol/inspector@2.12.0 &&
        npm_folder client @modelcontextprotocol/client@2.4.0 || return 1
    export THREADBUS_MCP_PEERS=$mcp_peers
}
