#!/bin/sh
# Prepare .venv with everything the other commands need. Does nothing when nothing has changed since the last time.
#
#   scripts/setup.sh          what `make run` and `make demo` need
#   scripts/setup.sh test     also the second sandbox, the tracer, the browser and the clients that `make test` tries
#   scripts/setup.sh bench    also the programs that `make bench` compares with
#
# PYTHON=/path/to/python chooses the interpreter; otherwise the first on PATH that is new enough is taken.
set -eu
cd "$(dirname "$0")/.."

say() { printf 'setup: %s\n' "$*" >&2; }

# Debian packages that are missing: installed when we may, otherwise named. Each argument is program:package.
need() {
    missing=
    for pair in "$@"; do
        command -v "${pair%%:*}" >/dev/null 2>&1 || missing="$missing ${pair#*:}"
    done
    [ -n "$missing" ] || return 0
    apt_install "$missing" || say "going on without:$missing; what needs them is left out"
}

apt_install() {
    if ! command -v apt-get >/dev/null 2>&1; then
        say "please install with your package manager:$1"
        return 1
    elif [ "$(id -u)" -ne 0 ]; then
        say "please run: sudo apt-get install --yes$1"
        return 1
    fi
    say "installing$1"
    # shellcheck disable=SC2086  # a list of words
    (apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install --yes -qq --no-install-recommends $1) >&2
}

find_python() {
    for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11 python3.10}; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    say "Python 3.10 or later is needed and was not found; name one with: make PYTHON=/path/to/python ..."
    return 1
}

make_venv() {
    # Debian ships Python without ensurepip; the package is named after the version.
    if ! "$1" -c 'import ensurepip, venv' 2>/dev/null; then
        apt_install " python$("$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv" || {
            say "this Python cannot make a virtual environment without it: $1"
            return 1
        }
    fi
    "$1" -m venv --clear .venv
}

# What `make bench` compares with; it leaves out what is missing.
bench_peers() {
    need fdfind:fd-find node:nodejs npm:npm
    peers="$(cksum <benchmarks/package.json) $PWD"
    [ "$(cat benchmarks/node_modules/setup-done 2>/dev/null)" != "$peers" ] || return 0
    if npm install --prefix benchmarks --no-save --no-package-lock --silent >&2; then
        printf '%s\n' "$peers" >benchmarks/node_modules/setup-done
    else
        say "going on without: the MCP servers of benchmarks/package.json"
    fi
}

need git:git bwrap:bubblewrap
case "${1:-}" in
test) need runsc:runsc strace:strace chromium:chromium node:nodejs npm:npm ;;
bench) need runsc:runsc && bench_peers ;;
esac

# The folder is part of the key: a copied or moved .venv still points at the old one. Kernelspecs are copied into it.
key="$(cat pyproject.toml scripts/setup.sh wap_kernel/kernelspec/* | cksum) $PWD"
if [ "$(cat .venv/setup-done 2>/dev/null)" != "$key" ] || ! .venv/bin/python -c '' 2>/dev/null; then
    python=$(find_python)
    say "making .venv with $python"
    make_venv "$python"
    say "installing wap-kernel and its development tools; the first time takes a minute or two"
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
    printf '%s\n' "$key" >.venv/setup-done
fi

case "${1:-}" in
test | bench) scripts/peers.sh ;;
esac
