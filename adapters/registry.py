"""The one place that knows peers by name. A new peer is one file in this room and one line here."""

from __future__ import annotations

import importlib
from collections.abc import Collection
from dataclasses import asdict

from adapters import environments
from adapters.base import Adapter, PeerInfo, Unavailable
from adapters.environments import NotInstalled

#: The peers that live in one process and are measured unless others are named, in the order of the report's tables.
PEERS: dict[str, str] = {
    "cpprb_impl": "adapters.peers.cpprb_impl:CpprbImpl",
    "cpprb": "adapters.peers.cpprb.adapter:Cpprb",
    "rlox": "adapters.peers.rlox:Rlox",
    "baselines-style": "adapters.peers.baselines_style:BaselinesStyle",
    "chainerrl-style": "adapters.peers.chainerrl_style:ChainerRLStyle",
    "rllib": "adapters.peers.rllib.adapter:RLlib",
    "reverb": "adapters.peers.reverb.adapter:Reverb",
}

#: Single-process peers that are measured only when named, or by PEERS=all: libraries with an environment of their own,
#: and other ways of using the peers above.
ON_REQUEST: dict[str, str] = {
    "torchrl": "adapters.peers.torchrl.adapter:TorchRL",
    "torchrl[TensorDictReplayBuffer]": "adapters.peers.torchrl.adapter:TorchRLTensorDict",
    "torchrl[memmap]": "adapters.peers.torchrl.adapter:TorchRLMemmap",
    "torchrl[shared]": "adapters.peers.torchrl.shared:TorchRLShared",
    "torchrl[prefetch]": "adapters.peers.torchrl.variants:TorchRLPrefetch",
    "torchrl[compile]": "adapters.peers.torchrl.variants:TorchRLCompile",
    "torchrl[naive]": "adapters.peers.torchrl.adapter:TorchRLNaive",
    "stable-baselines3": "adapters.peers.stable_baselines3:StableBaselines3",
    "stable-baselines3[vector]": "adapters.peers.stable_baselines3:StableBaselines3Vector",
    "tianshou": "adapters.peers.tianshou:Tianshou",
    "tianshou[vector]": "adapters.peers.tianshou:TianshouVector",
    "pfrl": "adapters.peers.pfrl:Pfrl",
    "pfrl[naive]": "adapters.peers.pfrl:PfrlNaive",
    "d3rlpy": "adapters.peers.d3rlpy:D3rlpy",
    "baselines": "adapters.peers.baselines:Baselines",
    "chainerrl": "adapters.peers.chainerrl:ChainerRL",
    "flashbax": "adapters.peers.flashbax:Flashbax",
    "flashbax[jitted step]": "adapters.peers.flashbax:FlashbaxJittedStep",
    "flashbax[naive]": "adapters.peers.flashbax:FlashbaxNaive",
    "tf-agents": "adapters.peers.tf_agents:TFAgents",
    "tf-agents[get_next]": "adapters.peers.tf_agents:TFAgentsGetNext",
    "tf-agents[vector]": "adapters.peers.tf_agents:TFAgentsVector",
    "seed-rl-style": "adapters.peers.seed_rl_style:SeedRLStyle",
    "reverb[naive]": "adapters.peers.reverb.variants:Naive",
    "reverb[Writer]": "adapters.peers.reverb.variants:ByWriter",
    "reverb[TrajectoryWriter]": "adapters.peers.reverb.variants:ByTrajectoryWriter",
    "reverb[shared chunks]": "adapters.peers.reverb.variants:SharingChunks",
    "reverb[TFClient]": "adapters.peers.reverb.variants:ByTFClient",
    "reverb[TimestepDataset]": "adapters.peers.reverb.variants:OutByTimestepDataset",
    "reverb[in-process]": "adapters.peers.reverb.variants:InProcess",
    "rllib[episodes]": "adapters.peers.rllib.episodes:RLlibEpisodes",
}

#: Stands for all peers there are.
ALL = "all"

#: The buffers that forked explorers and one learner share: each takes `add_batch` from the explorers and
#: `sample` and `update_priorities` from the process that made it.
SHARED: dict[str, str] = {
    "cpprb_impl[lock=none]": "adapters.peers.cpprb_impl:CpprbImplNoLock",
    "cpprb_impl[lock=buffer]": "adapters.peers.cpprb_impl:CpprbImplBufferLock",
    "cpprb_impl[lock=critical]": "adapters.peers.cpprb_impl:CpprbImplCriticalLock",
    "cpprb[PER behind one lock]": "adapters.peers.cpprb.shared:CpprbBehindOneLock",
    "cpprb[MP]": "adapters.peers.cpprb.shared:CpprbMP",
}

#: More of them, whose library brings a server or shared memory of its own: `start_method` says how processes start
#: that use it, since most must not be forked from one that has.
SERVED: dict[str, str] = {
    "reverb": "adapters.peers.reverb.adapter:Reverb",
    "rllib[Ray actor]": "adapters.peers.rllib.actor:RLlibActor",
    "torchrl[shared]": "adapters.peers.torchrl.shared:TorchRLShared",
}

#: What the project itself makes: who has this name, or is a variant of it, must be sound.
OURS = "cpprb_impl"

#: The peers that ratios are taken to: alone, and where processes share a buffer.
REFERENCES = ("cpprb", "cpprb[MP]")

#: How the segments of our buffer and of Python's multiprocessing begin: what a killed launch can leave in /dev/shm.
SEGMENT_PREFIXES = ("cpprb_impl-", "psm_", "pym-", "sem.mp-")


class UnknownPeer(KeyError):  # noqa: N818 (named like its siblings in base)
    """No such peer; the message lists those there are."""

    def __str__(self) -> str:  # KeyError would show the message in quotes
        return str(self.args[0])


def family(name: str) -> str:
    """What a variant is one of: "cpprb" for "cpprb[MP]"."""
    return name.partition("[")[0]


def is_ours(name: str) -> bool:
    return family(name) == OURS


def every() -> list[str]:
    """All names."""
    return list(dict.fromkeys([*PEERS, *ON_REQUEST, *SHARED, *SERVED]))


def alone() -> list[str]:
    """Those that live in one process."""
    return [*PEERS, *ON_REQUEST]


def together() -> list[str]:
    """The buffers that explorers and a learner share, however their processes start (`Adapter.start_method`)."""
    return [*SHARED, *SERVED]


def chosen(names: Collection[str]) -> list[str]:
    """The peers that these names stand for: one for itself and its variants, "all" for all, and none for those that are
    measured unless others are named. Raises `UnknownPeer`."""
    if not names:
        return [name for name in every() if name not in ON_REQUEST]
    for name in names:
        if name != ALL:
            adapter_class(name)
    return [name for name in every() if ALL in names or name in names or family(name) in names]


def adapter_class(name: str) -> type[Adapter]:
    """The adapter's class. Imports the adapter's module, but not the peer's library."""
    target = PEERS.get(name) or ON_REQUEST.get(name) or SHARED.get(name) or SERVED.get(name)
    if target is None:
        known = ", ".join(every())
        raise UnknownPeer(f"unknown peer {name!r}; known peers: {known}")
    module, _, attribute = target.partition(":")
    return getattr(importlib.import_module(module), attribute)


def describe(name: str) -> PeerInfo:
    """What the record says of a peer. Cheap (the library is not imported) and never raises for a known name."""
    cls = adapter_class(name)
    features, version, reason = asdict(cls.features), None, None
    try:
        version = cls.version()
        features["licence"] = _licence(cls)
    except Unavailable as unavailable:
        reason = str(unavailable)
    except NotInstalled as missing:
        reason = str(missing)
    except Exception as error:  # broken metadata must cost one row, not the report
        reason = f"{type(error).__name__}: {error}"
    return PeerInfo(name=name, version=version, usage=cls.usage, features=features, reason=reason)


def _licence(cls: type[Adapter]) -> str:
    """What the adapter says, with what the installed library says of itself as evidence."""
    stated = cls.features.licence
    if cls.distribution is None or stated.endswith("]"):
        return stated
    library = environments.installed(cls.distribution, cls.environment)
    about = library.metadata
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
    """The interpreter that a launch of this peer runs in."""
    return environments.python(adapter_class(name).environment)
