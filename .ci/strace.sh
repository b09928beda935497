# Sourced by run: strace, which slows down and breaks disks of servers in the chaos suite.

install_strace() {
    if ! command -v strace >/dev/null; then
        if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
            say "strace: none, and none can be installed without root and apt-get"
            return 1
        fi
        say "strace: installing (strace of the distribution)"
        { apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
            apt-get install -qq -y --no-install-recommends strace; } >"$work/apt.log" 2>&1 || {
            tail -n 20 "$work/apt.log"
            return 1
        }
    fi
}
