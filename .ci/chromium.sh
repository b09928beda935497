# Sourced by run: what the tests of busreplay's forms need, Chromium, Graphviz and Mermaid.
#
# install_viewers installs Debian's packages chromium and graphviz when they are missing, and the
# npm package mermaid into $work/viewers, and exports THREADBUS_MERMAID, the script of that package.

readonly mermaid_version=11.17.2

install_viewers() {
    local missing=()
    command -v chromium >/dev/null || missing+=(chromium)
    command -v dot >/dev/null || missing+=(graphviz)
    command -v npm >/dev/null || missing+=(npm)
    if ((${#missing[@]})); then
        if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
            say "viewers: no ${missing[*]}, and none can be installed without root and apt-get"
            return 1
        fi
        say "viewers: installing the packages ${missing[*]}"
        { apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
            apt-get install -qq -y --no-install-recommends "${missing[@]}"; } >"$work/apt.log" 2>&1 || {
            tail -n 20 "$work/apt.log"
            return 1
        }
    fi
    say "viewers: installing mermaid $mermaid_version"
    npm install --silent --no-audit --no-fund --no-save --ignore-scripts --prefix "$work/viewers" \
        "mermaid@$mermaid_version" >"$work/npm.log" 2>&1 </dev/null || {
        tail -n 20 "$work/npm.log"
        return 1
    }
    export THREADBUS_MERMAID="$work/viewers/node_modules/mermaid/dist/mermaid.min.js"
}
