"""A server for a class: what is not allowed is not started, by whatever way."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.kernelspec import NATIVE_KERNEL_NAME, NoSuchKernel
from tornado.httpclient import HTTPClientError

import wap_kernel


@pytest.fixture
def jp_server_config(jp_server_config: Any) -> Any:
    jp_server_config["ServerApp"]["kernel_spec_manager_class"] = "jupyter_ext.kernels.AllowedKernels"
    jp_server_config["KernelSpecManager"] = {"allowed_kernelspecs": {"wap"}, "ensure_native_kernel": False}
    return jp_server_config


@pytest.mark.parametrize("name", [NATIVE_KERNEL_NAME, NATIVE_KERNEL_NAME.upper(), "python"])
@pytest.mark.parametrize("by", ["kernels", "sessions"])
async def test_no_other_kernel_is_started(jp_fetch: Any, jp_serverapp: Any, name: str, by: str) -> None:
    session = {"path": "a.ipynb", "name": "a", "type": "notebook", "kernel": {"name": name}}
    body = {"name": name} if by == "kernels" else session
    with pytest.raises(HTTPClientError):
        await jp_fetch("api", by, method="POST", body=json.dumps(body))
    assert json.loads((await jp_fetch("api", "kernels")).body) == []
    with pytest.raises(NoSuchKernel):
        jp_serverapp.kernel_spec_manager.get_kernel_spec(name)


def test_the_allowed_one_is_there(jp_data_dir: Path, jp_serverapp: Any) -> None:
    shutil.copytree(Path(wap_kernel.__file__).parent / "kernelspec", jp_data_dir / "kernels" / "wap")
    assert jp_serverapp.kernel_spec_manager.get_kernel_spec("wap").language == "wap"
