#!/usr/bin/env bash
# Installs Redis, a peer in the benchmarks, where there is none and that is allowed. They leave it
# out where it is missing, so that this never fails.
set -u

. "$(dirname "$0")/packages.sh"

command -v redis-server >/dev/null || install_system_package redis-server ||
    echo "redis: none found, and the benchmarks leave it out: install one (Debian, Ubuntu: sudo" \
        "apt-get install redis-server; Fedora: redis; Mac: brew install redis) to see it" >&2
