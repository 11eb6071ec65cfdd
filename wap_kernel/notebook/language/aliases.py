"""Commands that people know from other tools, and their names here."""

from __future__ import annotations

_WORDS = {
    "ls": "dir ll la list files explore",
    "ls -r": "tree",
    "read": "cat less more head tail type view open print",
    "search": "grep egrep rg ag ack",
    "write": "create touch new save put tee",
    "edit": "replace sed change modify",
    "rm": "del delete remove unlink",
    "sh": "bash shell exec cmd command",
    "runs": "history log jobs ps",
    "revert": "undo rollback restore",
    "cancel": "stop kill abort",
    "approve": "yes allow accept ok agree",
    "deny": "no reject refuse disallow",
    "status": "info pwd",
}
_COMMANDS = "cp mv mkdir rmdir ln chmod find wc sort diff echo python python3 pip make pytest npm node curl which env"
PROGRAMS = ("ls", "rm")
"""Sub-commands with the name of a program, whose options people expect."""
_NAMES = {word: name for name, words in _WORDS.items() for word in words.split()}
_NAMES |= {word: f"sh {word}" for word in _COMMANDS.split()}


def find_alias(word: str, rest: str) -> tuple[str, str] | None:
    """Return the sub-command for `word` and the line to write instead, or None where `word` is not known."""
    if word == "cd":
        return "sh -C DIR", "sh -C DIR COMMAND. Paths begin at the workspace, always."
    if word.startswith("!") and word != "!":
        return "sh", f"sh {word[1:]} {rest}".strip()
    name = _NAMES.get(word)
    if name is None:
        return None
    has_options = any(part.startswith("-") for part in rest.split())
    return name, name if has_options and not name.startswith("sh") else f"{name} {rest}".strip()
