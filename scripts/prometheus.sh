#!/usr/bin/env bash
# Unpacks Prometheus, promtool, amtool and jsonnet into build/prometheus and prints the folder of
# the programs; 1 where they cannot be had. Nothing is installed and no daemon starts. Programs on
# PATH are taken instead, if all of them are there.
set -u

cd "$(dirname "$0")/.."

PROGRAMS="prometheus promtool amtool jsonnet"
PACKAGES="prometheus prometheus-alertmanager jsonnet libjsonnet0"
FOLDER=$PWD/build/prometheus

fail() {
    echo "prometheus: $*; install Prometheus, Alertmanager and jsonnet so that $PROGRAMS are on PATH" >&2
    exit 1
}

all_in() {
    local program
    for program in $PROGRAMS; do
        [ -x "$1/$program" ] || return 1
    done
}

if all_in "$FOLDER/bin"; then
    echo "$FOLDER/bin"
    exit 0
fi

mkdir -p "$FOLDER/bin"
for program in $PROGRAMS; do
    found=$(command -v "$program") && ln -sf "$found" "$FOLDER/bin/$program"
done
all_in "$FOLDER/bin" && {
    echo "$FOLDER/bin"
    exit 0
}

command -v apt-get >/dev/null && command -v dpkg >/dev/null || fail "there is no apt-get here"
mkdir -p "$FOLDER/packages" "$FOLDER/unpacked"
# shellcheck disable=SC2086 # several packages
(cd "$FOLDER/packages" && apt-get -o APT::Sandbox::User=root download -qq $PACKAGES) >&2 ||
    fail "apt-get could not download $PACKAGES"
for package in "$FOLDER"/packages/*.deb; do
    dpkg -x "$package" "$FOLDER/unpacked" || fail "dpkg could not unpack $package"
done
for program in $PROGRAMS; do
    rm -f "$FOLDER/bin/$program"
    # jsonnet's library is beside it, not where the system looks.
    cat >"$FOLDER/bin/$program" <<END
#!/bin/sh
LD_LIBRARY_PATH=\$(echo "$FOLDER"/unpacked/usr/lib/*-linux-gnu*) exec "$FOLDER/unpacked/usr/bin/$program" "\$@"
END
    chmod +x "$FOLDER/bin/$program"
done
rm -rf "$FOLDER/packages"
echo "$FOLDER/bin"
