"""The registry knows every peer by name without importing any library."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from types import SimpleNamespace

import pytest

import adapters.base
import adapters.peers.reverb.server
from adapters.base import Field, Peer, Spec, Unavailable
from adapters.registry import (
    ALL,
    ON_REQUEST,
    OVER_HOSTS_ON_REQUEST,
    PEERS,
    SEQUENCES_ON_REQUEST,
    SHARED_ON_REQUEST,
    UnknownPeer,
    adapter_class,
    chosen,
    describe,
    every,
    peer_class,
)
from adapters.venvs import NotInstalled

from .conftest import FIELDS, make

EVERY = every()


@pytest.mark.parametrize("name", EVERY)
def test_every_name_returns_a_peer_with_that_name(name: str) -> None:
    cls = peer_class(name)
    assert issubclass(cls, Peer)
    assert cls.name == name
    assert cls.usage


@pytest.mark.parametrize("name", EVERY)
def test_every_peer_is_described(name: str) -> None:
    info = describe(name)
    assert info.name == name
    assert (info.version is None) != (info.reason is None)
    assert all(info.features.values()), info.features


def test_the_error_for_an_unknown_peer_lists_the_known_ones() -> None:
    with pytest.raises(UnknownPeer) as error:
        adapter_class("cpprbb")
    assert "'cpprbb'" in str(error.value)
    assert all(name in str(error.value) for name in EVERY)


def test_the_name_of_a_library_selects_its_peers() -> None:
    assert chosen([ALL]) == EVERY
    on_request = {*ON_REQUEST, *SHARED_ON_REQUEST, *OVER_HOSTS_ON_REQUEST, *SEQUENCES_ON_REQUEST}
    assert set(chosen([])) == set(EVERY) - on_request
    assert chosen(["cpprb"]) == [name for name in EVERY if name.partition("[")[0] == "cpprb"]
    assert len(chosen(["cpprb"])) == 7
    assert set(PEERS) <= set(chosen([]))
    ours = chosen(["cpprb_impl"])
    assert "cpprb_impl[lock=none]" in ours and "cpprb_impl[SB3]" in ours
    assert "cpprb_impl[TorchRL]" not in ours  # it needs a venv other than that of cpprb_impl
    assert "cpprb_impl[TorchRL]" in chosen([ALL]) and chosen(["cpprb_impl[TorchRL]"]) == ["cpprb_impl[TorchRL]"]
    with pytest.raises(UnknownPeer):
        chosen(["cpprb", "cpprbb"])


@pytest.fixture
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(distribution: str) -> str:
        raise importlib.metadata.PackageNotFoundError(distribution)

    monkeypatch.setattr(importlib.metadata, "distribution", version)


@pytest.mark.usefixtures("nothing_installed")
def test_for_a_peer_that_is_not_installed_the_reason_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapters.base, "sys", SimpleNamespace(version_info=(3, 11, 0)))  # which has wheels
    assert describe("rllib").reason == "ray is not installed"
    assert describe("rllib").features
    assert describe("baselines-style").version == "in this project"


@pytest.mark.usefixtures("nothing_installed")
@pytest.mark.parametrize(
    ("name", "last"), [("reverb", (3, 11)), ("cpprb", (3, 12)), ("cpprb[MP]", (3, 12)), ("rlox", (3, 13))]
)
def test_a_peer_that_has_no_wheels_for_a_later_python_is_not_a_failure(
    name: str, last: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def on(*version_info: int) -> None:
        monkeypatch.setattr(adapters.base, "sys", SimpleNamespace(version_info=version_info))

    on(*last, 9)
    with pytest.raises(NotInstalled):
        adapter_class(name).version()
    on(last[0], last[1] + 1, 0)
    reason = f"has wheels up to Python {last[0]}.{last[1]}, but this is {last[0]}.{last[1] + 1}"
    with pytest.raises(Unavailable, match=reason):
        adapter_class(name).version()


def test_looking_up_a_peer_imports_no_library() -> None:
    code = f"""
import sys
from adapters.registry import adapter_class, describe
for name in {EVERY!r}:
    describe(name)
print(*sorted({{"cpprb", "cpprb_impl", "ray", "reverb", "rlox", "tensorflow"}} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_rlox_is_loaded_without_the_package_that_needs_pytorch() -> None:
    code = """
import sys
from adapters.peers.rlox import load_core
core = load_core()
assert load_core() is core
print(core.ReplayBuffer(4, 2, 1).__class__.__name__, *sorted({"rlox", "torch"} & set(sys.modules)))
"""
    try:
        adapter_class("rlox").version()
    except Unavailable as reason:
        pytest.skip(str(reason))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["ReplayBuffer"]


@pytest.mark.usefixtures("nothing_left")
class TestReverbServerThatDoesNotStart:
    SPEC = Spec(capacity=8, fields=FIELDS["CartPole-v1"])

    def test_the_error_contains_what_the_server_printed(self) -> None:
        fields = {**FIELDS["CartPole-v1"], "obs": Field((4,), "no such dtype")}
        with pytest.raises(RuntimeError, match=r"exited during start-up(.|\n)*no such dtype"):
            make("reverb", Spec(capacity=8, fields=fields))

    def test_a_server_that_does_not_start_has_a_time_limit(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(adapters.peers.reverb.server, "START_SECONDS", 0.0)
        with pytest.raises(RuntimeError, match="did not start in"):
            make("reverb", self.SPEC)
