#!/usr/bin/env bash
# Makes everything `make run` and `make test` need: an environment with the locked dependencies,
# the package itself (editable), and a Java runtime. Says what it does; a second call finds that
# nothing changed and installs nothing.
#
#   scripts/setup.sh VENV SPARK   the environment's folder, and the version of Spark in it (4.3)
set -eu

cd "$(dirname "$0")/.."
. scripts/packages.sh

VENV=$1
SPARK=$2
STAMP=$VENV/.idlestate-setup
LOCKS=(requirements-build.lock requirements.lock "requirements-spark-$SPARK.lock")

say() { echo "setup: $*"; }
fail() {
    echo "setup: $*" >&2
    exit 1
}

# ------------------------------------------------------------------ Python

is_new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

can_make_venvs() { "$1" -c 'import ensurepip, venv' >/dev/null 2>&1; }

# The first Python 3.11+ that can make virtual environments; else the first that is new enough.
find_python() {
    local name fallback=""
    for name in ${PYTHON:-python3 python3.11 python3.12 python3.13 python3.14}; do
        command -v "$name" >/dev/null && is_new_enough "$name" || continue
        if can_make_venvs "$name"; then
            echo "$name"
            return 0
        fi
        fallback=${fallback:-$name}
    done
    [ -n "$fallback" ] && echo "$fallback"
}

# Debian and Ubuntu keep venv in a package of its own.
install_venv_module() {
    local version package
    version=$("$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    package=python$version-venv
    install_system_package "$package" || true
    can_make_venvs "$1" ||
        fail "Python $version has no venv module: install it (Debian, Ubuntu: sudo apt-get" \
            "install $package), then call this again"
}

make_venv() {
    local python
    python=$(find_python) || fail "no Python 3.11 or newer found: install one, or name it by" \
        "PYTHON=/path/to/python, then call this again"
    can_make_venvs "$python" || install_venv_module "$python"
    say "making $VENV with $("$python" -V)"
    "$python" -m venv --clear "$VENV"
}

# ------------------------------------------------------------------ packages

fingerprint() { cat "$@" | cksum; }

stamped() { sed -n "s/^$1 //p" "$STAMP" 2>/dev/null || true; }

pip_install() {
    "$VENV/bin/python" -m pip install --disable-pip-version-check --no-input --quiet "$@"
}

# Build tools first and by hash; they then build what comes as source (pyspark, ourselves).
# Everything else has to come as a wheel: nothing in C is compiled here. Nor does pip compile
# Python's modules, half of its work, of which most are never imported: what processes of a job
# import is compiled at once, all else by the first process that imports it.
install_dependencies() {
    say "installing the locked dependencies (Spark is 450 MB: minutes, the first time)"
    pip_install --require-hashes --no-deps --no-compile -r requirements-build.lock
    pip_install --require-hashes --no-deps --no-compile --no-build-isolation \
        --only-binary :all: --no-binary pyspark -r requirements.lock -r "${LOCKS[2]}"
    local packages
    packages=$("$VENV/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    "$VENV/bin/python" -m compileall -q -j 0 -x /tests/ \
        "$packages"/{pyspark,py4j,pyarrow,numpy,pandas}
}

install_package() {
    say "installing idlestate itself (editable)"
    # setuptools warns that an editable package is read from its folder: that is the purpose.
    PYTHONWARNINGS=ignore pip_install --no-deps --no-build-isolation --editable .
}

# ------------------------------------------------------------------ the way through

if [ ! -f "${LOCKS[2]}" ]; then
    versions=$(printf '%s\n' requirements-spark-*.lock | sed 's/.*-\(.*\)\.lock/\1/' | paste -sd ' ')
    fail "Spark $SPARK is not supported: SPARK is one of $versions"
fi

# An environment counts when its set-up ended, in this folder (its scripts name the folder, so
# that a copy of it would run the original) and with a Python that is still there.
here=$(pwd -P)
if [ "$(stamped folder)" != "$here" ] || ! is_new_enough "$VENV/bin/python"; then
    make_venv
fi

locked=$(fingerprint "${LOCKS[@]}")
project=$(fingerprint "${LOCKS[@]}" pyproject.toml)
did=nothing
if [ "$(stamped locked)" != "$locked" ]; then
    install_dependencies
    did=installed
fi
if [ "$(stamped project)" != "$project" ]; then
    install_package
    did=installed
fi
if [ $did = installed ]; then
    printf 'folder %s\nlocked %s\nproject %s\n' "$here" "$locked" "$project" >"$STAMP"
fi

java_home=$(scripts/java.sh --install) || exit 1

if [ $did = installed ]; then
    say "ready: $("$VENV/bin/python" -V) in $VENV, Java in $java_home"
else
    say "up to date: $("$VENV/bin/python" -V) in $VENV, Java in $java_home"
fi
