#!/bin/sh
# Open JupyterLab on the quickstart, with this repository as the workspace. Arguments go to `jupyter lab`.
set -eu
cd "$(dirname "$0")/.."

[ "$(id -u)" -ne 0 ] || set -- --allow-root "$@"
# Without a display, Jupyter would start a text browser in this terminal if it finds one.
if [ "$(uname)" = Linux ] && [ -z "${DISPLAY:-}${WAYLAND_DISPLAY:-}${BROWSER:-}" ]; then
    set -- --no-browser "$@"
fi

# As the default address and not as a file argument: the address that is printed then leads to the quickstart too.
exec .venv/bin/python -m jupyterlab \
    --ServerApp.root_dir="$PWD" \
    --LabApp.default_url=/lab/tree/notebooks/quickstart.ipynb \
    "$@"
