#!/usr/bin/env bash
# Installs Grafana's own types of dashboards, and a TypeScript compiler that checks against them,
# into build/grafana, and prints that folder; 1 where node is missing or the packages cannot be had.
set -u

cd "$(dirname "$0")/.."

PACKAGES="@grafana/schema@13.2.3 typescript@7.0.2"
FOLDER=$PWD/build/grafana

if [ "$(cat "$FOLDER/packages" 2>/dev/null)" != "$PACKAGES" ]; then
    command -v npm >/dev/null || {
        echo "grafana: npm not found; install Node.js 20 or newer to check dashboards" >&2
        exit 1
    }
    mkdir -p "$FOLDER"
    # shellcheck disable=SC2086 # two packages
    npm install --prefix "$FOLDER" --no-save --no-audit --no-fund --ignore-scripts --loglevel error \
        $PACKAGES >&2 || {
        echo "grafana: npm could not install $PACKAGES" >&2
        exit 1
    }
    echo "$PACKAGES" >"$FOLDER/packages"
fi
echo "$FOLDER"
