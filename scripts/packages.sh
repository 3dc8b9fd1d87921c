# Packages of the system, for the scripts beside this one, which source it.

# Runs a command as root: directly, or by a sudo that asks for no password.
as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -n "$@"; fi
}

may_install() {
    command -v apt-get >/dev/null && as_root true 2>/dev/null
}

# Installs the first of the named packages that there is; fails where that is not allowed. Speaks
# to stderr alone.
install_system_package() {
    local package
    may_install || return 1
    as_root apt-get update -qq >&2 || true # the lists that are there may do
    for package in "$@"; do
        apt-cache show "$package" >/dev/null 2>&1 || continue
        echo "setup: installing $package from the system's packages" >&2
        as_root env DEBIAN_FRONTEND=noninteractive \
            apt-get install -y -qq --no-upgrade --no-install-recommends "$package" >&2 && return 0
    done
    return 1
}
