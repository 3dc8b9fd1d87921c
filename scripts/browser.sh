#!/usr/bin/env bash
# Finds a headless browser for the tests of the pages, and what these need from npm. Prints the
# browser's path; 1 with a line that says what is missing.
#
#   scripts/browser.sh FOLDER           npm's packages are in FOLDER/node_modules
#   scripts/browser.sh --install FOLDER the same, but install first what is missing, where allowed
set -u

cd "$(dirname "$0")/.."
. scripts/packages.sh

find_browser() {
    local name
    for name in chromium-headless-shell chromium chromium-browser google-chrome; do
        command -v "$name" && return 0
    done
    return 1
}

# The packages of the lock file, by hash; none runs a script of its own.
install_modules() {
    mkdir -p "$1" && cp tests/page/package.json tests/page/package-lock.json "$1" &&
        npm ci --prefix "$1" --fetch-retries 1 --fetch-timeout 20000 --ignore-scripts --no-audit --no-fund --silent >&2 &&
        cp tests/page/package-lock.json "$1/node_modules/.idlestate-lock"
}

are_installed() {
    cmp -s tests/page/package-lock.json "$1/node_modules/.idlestate-lock" 2>/dev/null
}

may_install=false
if [ "${1:-}" = "--install" ]; then
    may_install=true
    shift
fi
FOLDER=$1

if $may_install; then
    find_browser >/dev/null || install_system_package chromium-headless-shell chromium
    command -v npm >/dev/null || install_system_package npm
    are_installed "$FOLDER" || { command -v npm >/dev/null && install_modules "$FOLDER"; }
fi

if ! command -v node >/dev/null; then
    echo "browser: no Node.js found: install nodejs and npm, then run make page-test" >&2
elif ! are_installed "$FOLDER"; then
    echo "browser: the npm packages of tests/page are not installed: run make page-test" >&2
elif ! find_browser; then
    echo "browser: no Chromium found: install chromium, then run make page-test" >&2
else
    exit 0
fi
exit 1
