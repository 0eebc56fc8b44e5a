"""Peers by name: which exist, which a name selects, and what a record stores about them."""

from __future__ import annotations

import importlib
from collections.abc import Collection
from email.message import Message
from typing import cast

from adapters import external, features, venvs
from adapters.base import Adapter, Peer, PeerInfo, Unavailable
from adapters.catalog import (
    ALL,
    ON_REQUEST,
    OURS,
    OURS_IN_A_SERVER,
    OVER_HOSTS,
    OVER_HOSTS_ON_REQUEST,
    PEERS,
    SEQUENCES,
    SEQUENCES_ON_REQUEST,
    SEQUENCES_TOGETHER,
    SERVED,
    SHARED,
    SHARED_ON_REQUEST,
    TRAINING_ARMS,
    classes,
)
from adapters.hosts import HostsAdapter
from adapters.sequences import SequenceAdapter
from adapters.training_arm import TrainingArm
from adapters.venvs import NotInstalled

#: The reference of each kind of buffer, for ratios: single-process buffers, shared buffers, buffers over hosts, buffers
#: inside a learner, and buffers that draw sequences.
REFERENCES = ("cpprb", "cpprb[MP]", "cpprb[replay server]", "stable-baselines3[training]", "torchrl[SliceSampler]")

#: Prefixes of the segments that a killed launch can leave in /dev/shm: this project's and multiprocessing's.
SEGMENT_PREFIXES = ("cpprb_impl-", "psm_", "pym-", "sem.mp-")


class UnknownPeer(KeyError):  # noqa: N818 (named like its siblings in base)
    """There is no such peer. The message lists all peers."""

    def __str__(self) -> str:  # KeyError would put the message in quotes
        return str(self.args[0])


def family(name: str) -> str:
    """Return the peer that a variant belongs to: "cpprb" for "cpprb[MP]"."""
    return name.partition("[")[0]


def is_ours(name: str) -> bool:
    """Return whether this project is responsible for the peer's failures."""
    return family(name) == OURS and name != OURS_IN_A_SERVER


def every() -> list[str]:
    """Return the names of all peers."""
    return list(dict.fromkeys([*alone(), *together(), *over_hosts(), *training_arms(), *sequences()]))


def _external() -> dict[str, type[Adapter]]:
    found = external.adapters()
    if taken := found.keys() & classes().keys():
        raise external.BadAdapter(
            f"an adapter's name must differ from the names of this project's peers, got {taken.pop()!r}"
        )
    return found


def alone() -> list[str]:
    """Return the names of single-process peers."""
    return [*PEERS, *ON_REQUEST, *_external()]


def together() -> list[str]:
    """Return the names of buffers shared by explorers and a learner, however their processes start."""
    return [*SHARED, *SHARED_ON_REQUEST, *SERVED]


def over_hosts() -> list[str]:
    """Return the names of buffers whose rows are on different hosts from the processes that use them."""
    return [*OVER_HOSTS, *OVER_HOSTS_ON_REQUEST]


def training_arms() -> list[str]:
    """Return the names of buffers inside a library's own learner."""
    return list(TRAINING_ARMS)


def sequences() -> list[str]:
    """Return the names of buffers that draw sequences of steps."""
    return [*SEQUENCES, *SEQUENCES_TOGETHER, *SEQUENCES_ON_REQUEST]


def sequences_together() -> list[str]:
    """Return those that processes share."""
    return list(SEQUENCES_TOGETHER)


def chosen(names: Collection[str]) -> list[str]:
    """Return the peers that `names` select and, if there is an external adapter, its peer. A name selects the peer and
    its variants, except variants used without a learner that need a different venv from the peer's: only their own
    names select them. "all" selects every peer, and an empty collection selects the default peers. Raises
    `UnknownPeer`."""
    if not names:
        on_request = {**ON_REQUEST, **SHARED_ON_REQUEST, **OVER_HOSTS_ON_REQUEST, **SEQUENCES_ON_REQUEST}
        return [name for name in every() if name not in on_request]
    venv = {name: peer_class(name).venv for name in names if name != ALL}

    def is_variant(name: str) -> bool:
        named = family(name)
        return named in venv and (name in TRAINING_ARMS or peer_class(name).venv == venv[named])

    wanted = {*names, *_external()}
    return [name for name in every() if ALL in wanted or name in wanted or is_variant(name)]


def peer_class(name: str) -> type[Peer]:
    """Import the peer's module, but not its library, and return its class. Raises `UnknownPeer`."""
    if name in _external():
        return _external()[name]
    target = classes().get(name)
    if target is None:
        known = ", ".join(every())
        raise UnknownPeer(f"unknown peer {name!r}; known peers: {known}")
    module, _, attribute = target.partition(":")
    cls: type[Peer] = getattr(importlib.import_module(module), attribute)
    return cls


def adapter_class(name: str) -> type[Adapter]:
    """Return the adapter class of a buffer that is used without a learner."""
    return cast("type[Adapter]", peer_class(name))


def learner_class(name: str) -> type[TrainingArm]:
    """Return the class of a buffer inside a learner."""
    return cast("type[TrainingArm]", peer_class(name))


def sequences_class(name: str) -> type[SequenceAdapter]:
    """Return the adapter class of a buffer that draws sequences."""
    return cast("type[SequenceAdapter]", peer_class(name))


def hosts_class(name: str) -> type[HostsAdapter]:
    """Return the adapter class of a buffer over several hosts."""
    return cast("type[HostsAdapter]", adapter_class(name))


def describe(name: str) -> PeerInfo:
    """Return what a record stores about a peer. Does not import the library, and never raises for a known name."""
    cls = peer_class(name)
    sentences, version, reason = features.sentences(cls.contract), None, None
    try:
        version = cls.version()
        sentences["licence"] = _licence(cls)
    except Unavailable as unavailable:
        reason = str(unavailable)
    except NotInstalled as missing:
        reason = str(missing)
    except Exception as error:  # broken metadata must affect only one row of the report
        reason = f"{type(error).__name__}: {error}"
    return PeerInfo(name, version, cls.usage, sentences, reason, features.facts(cls.contract))


def _licence(cls: type[Peer]) -> str:
    """Return the licence stated in the contract, with the installed library's metadata as evidence."""
    stated = cls.contract.licence
    if cls.distribution is None:
        return stated
    library = venvs.installed(cls.distribution, cls.venv)
    about = cast(Message, library.metadata)
    classifiers = [text.rpartition(" :: ")[2] for text in about.get_all("Classifier", ()) if text.startswith("License")]
    found = about.get("License-Expression") or " and ".join(classifiers) or (about.get("License") or "").split("\n")[0]
    if found:
        return f"{stated} [its metadata: {found}]"
    for name in about.get_all("License-File") or ():
        text = library.read_text(f"licenses/{name}") or library.read_text(name) or ""
        if text.strip():
            return f"{stated} [its {name}: {text.split()[0]} {text.split()[1]}]"
    return stated


def python(name: str) -> str:
    """Return the interpreter for launches of this peer."""
    return venvs.python(peer_class(name).venv)
