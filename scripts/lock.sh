#!/usr/bin/env bash
# Writes requirements-build.lock and requirements.lock from requirements-build.in and
# pyproject.toml: every platform, every file by its hash, no trace of this machine's own
# package sources. Spark stands beside, in one requirements-spark-VERSION.lock for each version
# that is supported. Needs uv (https://docs.astral.sh/uv/).
#
#   scripts/lock.sh            keep what is locked where it still fits
#   scripts/lock.sh --upgrade  take the newest that fits
set -eu

cd "$(dirname "$0")/.."
command -v uv >/dev/null || {
    echo "lock: uv is not installed: pip install uv, then call this again" >&2
    exit 1
}

compile() {
    local out=$1
    shift
    echo "lock: $out"
    uv pip compile --quiet --no-config --universal --python-version 3.11 --generate-hashes \
        --allow-unsafe --default-index https://pypi.org/simple --no-emit-index-url \
        --no-annotate --custom-compile-command "make lock" --output-file "$out" "$@"
}

compile requirements-build.lock "$@" requirements-build.in
compile requirements.lock "$@" --group dev --no-emit-package pyspark --no-emit-package py4j \
    pyproject.toml
for lock in requirements-spark-*.lock; do # for a new version: make an empty one, then call this
    version=${lock#requirements-spark-}
    echo "pyspark==${version%.lock}.*" | compile "$lock" "$@" -
done
