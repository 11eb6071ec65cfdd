"""The `wap` kernel: the language of `%wap` lines in cells of its own, with no Python behind it.

`python -m wap_kernel.kernel -f CONNECTION_FILE` starts it; Jupyter does, by the kernelspec that is installed with us.
"""
