#!/usr/bin/env bash
# Installs what `make demo` or `make test` needs, and only what is missing. Says what it does.
#
#   tools/setup.sh demo    toolchain, emulator, .venv with what the demo needs
#   tools/setup.sh test    the same and everything the tests need (torch among it)
#
# PYTHON=...  another interpreter, 3.11 or newer. Without root, sudo is used for system packages.
# A second run costs well under a second: it is keyed by pyproject.toml and the interpreter.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
extra="${1:-test}"
case "$extra" in
    demo | test) ;;
    *)
        echo "setup: expected 'demo' or 'test', got '$extra'" >&2
        exit 2
        ;;
esac

say() { echo "setup: $*"; }

has_newlib() {
    local archive
    archive="$(arm-none-eabi-gcc -print-file-name=libc.a 2>/dev/null)" && [[ "$archive" == /* ]]
}

has_c_headers() { echo '#include <stdio.h>' | cc -E - >/dev/null 2>&1; }

find_python() {
    local candidate
    for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11}; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$candidate"
            return 0
        fi
    done
    return 1
}

has_venv() { "$1" -c 'import ensurepip, venv' 2>/dev/null; }

# Debian splits ensurepip off, per version: python3.12 of Ubuntu wants python3.12-venv.
venv_package() { "$1" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])'; }

missing_packages() {
    local missing=()
    command -v arm-none-eabi-gcc >/dev/null || missing+=(gcc-arm-none-eabi)
    has_newlib || missing+=(libnewlib-arm-none-eabi)
    command -v qemu-system-arm >/dev/null || missing+=(qemu-system-arm)
    command -v cc >/dev/null || missing+=(gcc)
    has_c_headers || missing+=(libc6-dev)
    command -v make >/dev/null || missing+=(make)
    local python
    if ! python="$(find_python)"; then
        missing+=(python3 python3-venv)
    elif ! has_venv "$python"; then
        missing+=("$(venv_package "$python")")
    fi
    echo "${missing[*]}"
}

install_packages() {
    local missing=("$@") root=()
    if ! command -v apt-get >/dev/null; then
        say "missing: ${missing[*]} (Debian's names); install them, then run this again" >&2
        exit 4
    fi
    if [[ "$(id -u)" != 0 ]]; then
        if ! command -v sudo >/dev/null; then
            say "missing: ${missing[*]}; as root run: apt-get install ${missing[*]}" >&2
            exit 4
        fi
        root=(sudo)
    fi
    say "installing with apt-get: ${missing[*]}"
    "${root[@]}" apt-get update -q
    "${root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get install -q -y --no-install-recommends "${missing[@]}"
}

make_venv() {
    local python="$1" stamp=".venv/.poet-mcu-$extra" key
    key="$(sha256sum <pyproject.toml) $("$python" -V) $(pwd)"
    if [[ -f "$stamp" && "$(cat "$stamp")" == "$key" ]]; then
        return 0
    fi
    if ! .venv/bin/python -c 'import pip' 2>/dev/null; then
        say "making .venv with $("$python" -V)"
        "$python" -m venv --clear .venv
    fi
    say "installing poet-mcu with the extra '$extra' into .venv"
    .venv/bin/python -m pip install --disable-pip-version-check -q -e ".[$extra]"
    echo "$key" >"$stamp"
}

missing="$(missing_packages)"
if [[ -n "$missing" ]]; then
    read -r -a names <<<"$missing"
    install_packages "${names[@]}"
fi
if ! python="$(find_python)"; then
    say "expected Python 3.11 or newer, got none; install it or set PYTHON=/path/to/python3.11" >&2
    exit 4
fi
make_venv "$python"
