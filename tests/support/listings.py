"""How the tests of listing ask for one."""

from __future__ import annotations

from wap_kernel.files.contained.root import Root
from wap_kernel.files.list_folder import list_files
from wap_kernel.model.command import Deadline
from wap_kernel.model.operations import ListFiles
from wap_kernel.model.results import FileList, Limits


def listed(
    root: Root,
    path: str = ".",
    limit: int = 500,
    deadline: Deadline | None = None,
    own_limit: int | None = None,
    **options: object,
) -> FileList:
    operation = ListFiles.model_validate({"path": path, "limit": own_limit, **options})
    return list_files(root, operation, Limits(max_directory_entries=limit), root.path, deadline or Deadline(60))


def paths(result: FileList) -> list[str]:
    return [entry.path for entry in result.files]
