"""wap: hands for agents, inside Jupyter. The engine; it imports nothing of the Jupyter server.

Import what you need from its module, e.g. `from wap_kernel.workspace import Workspace`; this module stays light.
"""

__version__ = "0.1.0"
