"""Keep the house in order: module names, folder sizes, unique class names, vocabulary, first words of prose."""

from __future__ import annotations

import ast
import collections
import re
from collections.abc import Container, Iterator
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[1]
PACKAGES = ("wap_kernel", "jupyter_ext")
Modules = dict[str, ast.Module]
"""Syntax trees by path."""

MAX_MODULES = 16
"""Modules in one folder, `__init__` aside."""

GERUND_NAMES: dict[str, str] = {}
"""Modules whose name ends in -ing and is a noun all the same, with the reason."""

ADVERBS = frozenset("aside beside elsewhere further inside once outside plain together".split())

RETIRED = {
    "hands": "WorkspaceClient",
    "ledger": "store",
    "touch": "path access",
    "touches": "path accesses",
    "beside": "concurrent",
    "aside": "quarantine",
    "parking": "pending calls",
    "settle": "recover",
    "settling": "recovery",
    "bury": "recover",
    "told": "name what it is: message, answer, record",
    "said": "name what it is: message, text, verdict",
    "shown": "name what it is: preview, rendered text",
    "kept": "name what it is: stored, retained",
    "held": "name what it is: locked, owned",
    "question": "approval",
    "questions": "approvals",
    "asked": "approval",
    "binding": "bound policy",
    "direct": "fast path",
    "agreement": "approval",
    "agreements": "approvals",
    "plain": "fast path, literal, simple",
    "plainly": "on the fast path",
    "place": "path, endpoint, target",
    "places": "paths, endpoints, targets",
    "foresee": "preview",
    "foreseen": "preview",
    "look": "lstat",
    "looks": "lstats",
}
"""Words that no identifier holds any more, with what to write instead."""

RETIRED_NAMES_ALLOWED = {"_DirectElicitation": "the stream of the call itself carries it, as opposed to a later call"}
"""Identifiers that hold a retired word for a reason."""

OPENINGS = re.compile(
    r"(Of|For|By|With|In|From|What|Who|Whoever|Whose|Whether|Which|Somebody|Nobody|It|The same|And|Also|Until|Where"
    r"|When|How|As|On|At|To|That|Those|There|None|Or|Nothing|Else|Without|Once|If|Only|Not|All that)\b"
)
"""First words of prose that hide the subject or the verb."""

SUBJECTS = re.compile(
    r"^(wap: )?(?i:It|They|That|Something|What)\b|(?:^|[.:;] )(Whoever|Somebody|Nobody|It is|It was|What is|Who )"
)
"""Beginnings of sentences in errors and log lines that do not name their subject."""

SUBJECTS_ALLOWED = {
    "It takes either edits, or oldText and newText.": "follows the name of the tool",
    "It opens: X.": "follows the name of the token",
    "What was shown to the user has changed since.": "names the prompt by what the user knows of it",
}
"""Texts of the Coding Environment dialect that begin so for a reason."""

MESSAGE_CALLS = frozenset({"build_git_error", "PydanticCustomError", "debug", "info", "warning", "error", "exception"})
"""Calls besides the errors whose texts a person reads."""


@pytest.fixture(scope="module")
def modules() -> Modules:
    return {
        str(path.relative_to(PROJECT)): ast.parse(path.read_text())
        for package in PACKAGES
        for path in sorted((PROJECT / package).rglob("*.py"))
    }


def test_a_module_is_named_by_a_noun(modules: Modules) -> None:
    names = {Path(path).stem for path in modules}
    assert {name for name in names if name.endswith("ing")} - GERUND_NAMES.keys() == set()
    assert names & ADVERBS == set()


def test_a_folder_can_be_taken_in_at_a_glance(modules: Modules) -> None:
    sizes = collections.Counter(str(Path(path).parent) for path in modules if not path.endswith("__init__.py"))
    assert {folder: size for folder, size in sizes.items() if size > MAX_MODULES} == {}


def test_every_module_that_a_document_names_is_there(modules: Modules) -> None:
    paths = [
        f"/{path}" for path in (*modules, *(str(path.relative_to(PROJECT)) for path in PROJECT.glob("tests/**/*.py")))
    ]
    named = {
        (document.name, name)
        for document in (*PROJECT.glob("docs/*.md"), *PROJECT.glob("*.md"))
        for name in re.findall(r"`([\w/]+\.py)`", document.read_text())
    }
    known = {"jupyter_server_config.py", "pydantic.py", "app.py", "a.py"}  # files of the reader's, not of the project
    assert {
        (doc, name) for doc, name in named if name not in known and not any(p.endswith(f"/{name}") for p in paths)
    } == set()


def test_no_two_public_classes_have_the_same_name(modules: Modules) -> None:
    homes = collections.defaultdict(list)
    for path, tree in modules.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and "/dialects/" not in path:
                homes[node.name].append(path)
    assert {name: found for name, found in homes.items() if len(found) > 1} == {}


def test_a_limit_of_the_table_is_defined_nowhere_else(modules: Modules) -> None:
    table = "wap_kernel/model/limits.py"
    limits = {name for name in _constants(modules[table]) if "MAX_" in name}
    repeated = {
        (path, name) for path, tree in modules.items() if path != table for name in limits & {*_constants(tree)}
    }
    assert limits and repeated == set()


def _constants(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))


def test_identifiers_are_in_the_vocabulary(modules: Modules) -> None:
    found = {
        f"{path}: {name}": RETIRED[word]
        for path, tree in modules.items()
        for name in _defined(tree)
        for word in re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().split("_")
        if word in RETIRED and name not in RETIRED_NAMES_ALLOWED
    }
    assert found == {}


def _defined(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


def test_prose_begins_with_its_verb_or_its_noun(modules: Modules) -> None:
    firsts = {(path, text.strip().split("\n")[0]) for path, tree in modules.items() for text in _docstrings(tree)}
    assert sorted((path, first) for path, first in firsts if OPENINGS.match(first)) == []


def _docstrings(tree: ast.Module) -> Iterator[str]:
    """Yield the docstrings of modules, classes, functions, fields and constants."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else ():
            match statement:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    yield text


def test_an_error_names_its_subject(modules: Modules) -> None:
    errors = {node.name for node in modules["wap_kernel/model/errors.py"].body if isinstance(node, ast.ClassDef)}
    texts = {(path, text) for path, tree in modules.items() for text in _error_texts(tree, errors)}
    assert sorted((path, text) for path, text in texts if SUBJECTS.search(text) and text not in SUBJECTS_ALLOWED) == []


def _error_texts(tree: ast.Module, errors: Container[str]) -> Iterator[str]:
    """Yield the messages and hints of those errors that a module creates, and its log lines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and (_name_of(node.func) in errors or _name_of(node.func) in MESSAGE_CALLS):
            for part in (*node.args, *(word.value for word in node.keywords if word.arg == "hint")):
                yield from _texts(part)


def _name_of(called: ast.expr) -> str:
    return called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""


def _texts(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        yield "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)
