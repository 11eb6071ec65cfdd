#!/bin/sh
# Open JupyterLab on the quickstart, in a fresh folder of examples. Arguments go to `jupyter lab`.
set -eu
cd "$(dirname "$0")/.."

folder="$(mktemp -d "${TMPDIR:-/tmp}/wap-XXXXXX")/tour"
mkdir "$folder"
cp notebooks/*.ipynb "$folder"
printf 'run: the examples are in %s\n' "$folder" >&2

[ "$(id -u)" -ne 0 ] || set -- --allow-root "$@"
# Without a display, Jupyter would start a text browser in this terminal if it finds one.
if [ "$(uname)" = Linux ] && [ -z "${DISPLAY:-}${WAYLAND_DISPLAY:-}${BROWSER:-}" ]; then
    set -- --no-browser "$@"
fi

# The quickstart is the default address and not a file argument, so that the printed address leads to it too.
exec .venv/bin/python -m jupyterlab \
    --ServerApp.root_dir="$folder" \
    --LabApp.default_url=/lab/tree/quickstart.ipynb \
    "$@"
