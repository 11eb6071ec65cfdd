"""Test which provider is chosen: the configured one or none; `auto` takes one that works."""

from __future__ import annotations

import pytest

from tests.support.provider_workspace import SERVER, skip_unless_works
from wap_kernel.files.contained.root import Root
from wap_kernel.model.errors import InvalidArgument, ProviderUnavailable
from wap_kernel.providers.base import Probe
from wap_kernel.providers.selection import NAMES, ProviderChoice, choose, probe


def chosen(name: str, root: Root) -> ProviderChoice:
    choice = choose(name, root, secrets=(), server_environment=SERVER)
    choice.provider.close()
    return choice


def failing(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    found = Probe(name, False, "it is too old.", fix="buy a new one")
    module = "gvisor.provider" if name == "gvisor" else name
    monkeypatch.setattr(f"wap_kernel.providers.{module}.probe", lambda: found)


def test_auto_takes_the_sandbox_that_works(root: Root) -> None:
    skip_unless_works("bubblewrap")
    choice = chosen("auto", root)
    assert (choice.provider.name, choice.provider.confines) == ("bubblewrap", True)
    assert "bubblewrap 0." in choice.reason


def test_auto_does_without_and_says_why(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, "bubblewrap")
    choice = chosen("auto", root)
    assert (choice.provider.name, choice.provider.confines) == ("local", False)
    assert choice.reason.endswith("not confined: it is too old. To change that: buy a new one")


@pytest.mark.parametrize("name", ["bubblewrap", "gvisor"])
def test_a_named_one_that_cannot_start_is_not_replaced(root: Root, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    failing(monkeypatch, name)
    with pytest.raises(ProviderUnavailable, match=f"{name} cannot start: it is too old") as refusal:
        chosen(name, root)
    assert refusal.value.hint == "buy a new one"


@pytest.mark.parametrize("name", ["local", "bubblewrap", "gvisor"])
def test_a_named_one(root: Root, name: str) -> None:
    skip_unless_works(name)
    choice = chosen(name, root)
    assert choice.provider.name == name
    assert f'Provider "{name}" was chosen in the configuration' in choice.reason


@pytest.mark.parametrize("name", ["e2b", "firecracker", "docker", "", "LOCAL"])
def test_an_unknown_name(root: Root, name: str) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        chosen(name, root)
    assert all(known in (refusal.value.hint or "") for known in NAMES)


def test_local_promises_nothing() -> None:
    assert not any(probe("local").promises.values())
