#!/bin/sh
# Prepare a JupyterHub for a test of `make test-all`: the hub, its culler and this project in .venv-hub, and the hub's
# proxy from npm in the same folder. Does nothing when nothing has changed since the last time.
set -eu
cd "$(dirname "$0")/.."

key="$(cat pyproject.toml scripts/hub.sh | cksum) $PWD"
if [ "$(cat .venv-hub/setup-done 2>/dev/null)" = "$key" ] && .venv-hub/bin/python -c '' 2>/dev/null; then
    exit 0
fi
.venv/bin/python -m venv --clear .venv-hub
.venv-hub/bin/python -m pip install --quiet --disable-pip-version-check \
    --editable . 'jupyterhub==5.*' 'jupyterhub-idle-culler==1.*' >&2
npm install --prefix .venv-hub --no-save --no-package-lock --silent 'configurable-http-proxy@4' >&2
printf '%s\n' "$key" >.venv-hub/setup-done
