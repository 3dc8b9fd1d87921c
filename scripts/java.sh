#!/usr/bin/env bash
# Finds Java 17 or newer and prints its home, or installs one where that is allowed.
#
#   scripts/java.sh           print the home of the Java that is there; 1 when there is none
#   scripts/java.sh --install the same, but install one first when there is none
#
# Looked at, in this order: JAVA_HOME, java on PATH, /usr/lib/jvm (IDLESTATE_JVM_DIR names
# another folder), the Mac's own register.
set -u

. "$(dirname "$0")/packages.sh"

WANTED=17

# Major version of the Java under a home: from its `release` file, else by asking it.
major_of() {
    local version=""
    [ -x "$1/bin/java" ] || return 1
    if [ -r "$1/release" ]; then
        version=$(sed -n 's/^JAVA_VERSION="\([^"]*\)".*/\1/p' "$1/release" | head -n 1)
    fi
    if [ -z "$version" ]; then
        version=$("$1/bin/java" -version 2>&1 |
            sed -n 's/.* version "\([^"]*\)".*/\1/p' | head -n 1)
    fi
    version=${version#1.}
    version=${version%%[!0-9]*}
    [ -n "$version" ] && echo "$version"
}

is_enough() {
    local major
    major=$(major_of "$1") && [ "$major" -ge "$WANTED" ]
}

# The home behind `java` on PATH, symlinks followed (readlink -f is not everywhere).
home_on_path() {
    local java link
    java=$(command -v java) || return 1
    while [ -L "$java" ]; do
        link=$(readlink "$java")
        case $link in
            /*) java=$link ;;
            *) java=$(dirname "$java")/$link ;;
        esac
    done
    (cd "$(dirname "$java")/.." 2>/dev/null && pwd -P)
}

find_java() {
    local home
    if [ -n "${JAVA_HOME:-}" ]; then
        if is_enough "$JAVA_HOME"; then
            echo "$JAVA_HOME"
            return 0
        fi
        echo "java: JAVA_HOME=$JAVA_HOME holds no Java $WANTED or newer: looking elsewhere" >&2
    fi
    if home=$(home_on_path) && is_enough "$home"; then
        echo "$home"
        return 0
    fi
    for home in "${IDLESTATE_JVM_DIR:-/usr/lib/jvm}"/*; do
        if is_enough "$home"; then
            echo "$home"
            return 0
        fi
    done
    if [ -x /usr/libexec/java_home ] &&
        home=$(/usr/libexec/java_home -v "$WANTED+" 2>/dev/null) && is_enough "$home"; then
        echo "$home"
        return 0
    fi
    return 1
}

if find_java; then
    exit 0
fi
if [ "${1:-}" = "--install" ]; then
    if install_system_package openjdk-17-jre-headless openjdk-21-jre-headless \
        default-jre-headless && find_java; then
        exit 0
    fi
    echo "java: no Java $WANTED or newer found: install one (Debian, Ubuntu: sudo apt-get install" \
        "openjdk-17-jre-headless; Fedora: java-17-openjdk-headless; Mac: brew install" \
        "openjdk@17) or set JAVA_HOME, then call this again" >&2
fi
exit 1
