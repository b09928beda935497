# Sourced by run: a Docker engine for the tests that need one.
#
# start_docker uses the engine that is running, or else starts one of its own (installed from
# Debian's package docker.io when it is missing) with all its data in a temporary folder, and
# exports DOCKER_HOST. stop_docker ends the engine that start_docker started, and removes the data.

docker_pid=''
docker_folder=''

# Whether an engine answers on the socket $1.
docker_answers() {
    python3 - "$1" <<'PYTHON' 2>/dev/null
import socket, sys

door = socket.socket(socket.AF_UNIX)
door.settimeout(5)
door.connect(sys.argv[1])
door.sendall(b"GET /_ping HTTP/1.0\r\nHost: docker\r\n\r\n")
sys.exit(b" 200 " not in door.recv(1024))
PYTHON
}

start_docker() {
    local flags variant running=${DOCKER_HOST:-unix:///var/run/docker.sock}
    if docker_answers "${running#unix://}"; then
        say "docker: using the engine that is running"
        return 0
    fi
    if ! command -v dockerd >/dev/null; then
        if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
            say "docker: no engine, and none can be installed without root and apt-get"
            return 1
        fi
        say "docker: installing the package docker.io"
        { apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
            apt-get install -qq -y --no-install-recommends docker.io; } >"$work/apt.log" 2>&1 || {
            tail -n 20 "$work/apt.log"
            return 1
        }
    fi
    docker_folder=$(mktemp -d)
    # The second variant is for machines that cannot make bridges, firewall rules or overlays.
    for variant in '' '--iptables=false --ip6tables=false --bridge=none --storage-driver=vfs'; do
        read -ra flags <<<"$variant"
        say "docker: starting dockerd ${variant:-with its defaults}"
        dockerd --host "unix://$docker_folder/sock" --pidfile "$docker_folder/pid" \
            --data-root "$docker_folder/data" --exec-root "$docker_folder/exec" \
            "${flags[@]}" >"$docker_folder/log" 2>&1 </dev/null &
        docker_pid=$!
        if wait_for_docker; then
            export DOCKER_HOST="unix://$docker_folder/sock"
            say "docker: ready"
            return 0
        fi
        say "docker: dockerd did not get ready; the end of its log:"
        tail -n 10 "$docker_folder/log"
        stop_dockerd
    done
    return 1
}

wait_for_docker() {
    local deadline=$((SECONDS + 60))
    while ((SECONDS < deadline)) && kill -0 "$docker_pid" 2>/dev/null; do
        docker_answers "$docker_folder/sock" && return 0
        sleep 0.5
    done
    return 1
}

stop_dockerd() {
    [ -n "$docker_pid" ] || return 0
    kill "$docker_pid" 2>/dev/null || true
    for _ in {1..60}; do
        kill -0 "$docker_pid" 2>/dev/null || break
        sleep 0.5
    done
    kill -KILL "$docker_pid" 2>/dev/null || true
    wait "$docker_pid" 2>/dev/null || true
    docker_pid=''
}

stop_docker() {
    stop_dockerd
    [ -n "$docker_folder" ] || return 0
    # dockerd leaves the mount of its own network namespace behind.
    awk -v below="$docker_folder/" 'index($2, below) == 1 { print $2 }' /proc/mounts |
        sort -r | xargs -r umount 2>/dev/null || true
    rm -rf --one-file-system "$docker_folder"
    docker_folder=''
}
