"""The `wap` kernel: the language of `%wap` lines in cells of its own, with no Python behind it.

Jupyter starts it by the installed kernelspec: `python -m wap_kernel.notebook.kernel -f CONNECTION_FILE`.
"""
