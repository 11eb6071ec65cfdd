"""The `wap` kernel: cells in the language of `%wap` lines, without Python.

Jupyter starts it by the installed kernelspec: `python -m wap_kernel.notebook.kernel -f CONNECTION_FILE`.
"""
