"""The list of all peers. A new peer is a file or folder in `adapters/peers` and a line here."""

from __future__ import annotations

import importlib
from collections.abc import Collection
from email.message import Message
from typing import cast

from adapters import environments, external, features
from adapters.base import Adapter, Peer, PeerInfo, Unavailable
from adapters.environments import NotInstalled
from adapters.hosts import HostsAdapter
from adapters.learners import LearnerArm

#: Single-process peers that are measured by default, in the order of the report's tables.
PEERS: dict[str, str] = {
    "cpprb_impl": "adapters.peers.cpprb_impl:CpprbImpl",
    "cpprb": "adapters.peers.cpprb.adapter:Cpprb",
    "rlox": "adapters.peers.rlox:Rlox",
    "baselines-style": "adapters.peers.baselines_style:BaselinesStyle",
    "chainerrl-style": "adapters.peers.chainerrl_style.adapter:ChainerRLStyle",
    "rllib": "adapters.peers.rllib.adapter:RLlib",
    "reverb": "adapters.peers.reverb.adapter:Reverb",
}

#: Single-process peers that are only measured if named, or with PEERS=all: libraries that need their own environment,
#: and other ways of using the peers above.
ON_REQUEST: dict[str, str] = {
    "torchrl": "adapters.peers.torchrl.adapter:TorchRL",
    "torchrl[TensorDictReplayBuffer]": "adapters.peers.torchrl.adapter:TorchRLTensorDict",
    "torchrl[memmap]": "adapters.peers.torchrl.adapter:TorchRLMemmap",
    "torchrl[shared]": "adapters.peers.torchrl.shared:TorchRLShared",
    "torchrl[prefetch]": "adapters.peers.torchrl.variants:TorchRLPrefetch",
    "torchrl[compile]": "adapters.peers.torchrl.variants:TorchRLCompile",
    "torchrl[naive]": "adapters.peers.torchrl.adapter:TorchRLNaive",
    "cpprb_impl[TorchRL]": "adapters.peers.torchrl.ours:CpprbImplForTorchRL",
    "stable-baselines3": "adapters.peers.stable_baselines3:StableBaselines3",
    "stable-baselines3[vector]": "adapters.peers.stable_baselines3:StableBaselines3Vector",
    "sb3-extra-buffers": "adapters.peers.sb3_extra_buffers:ExtraBuffers",
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

#: The name that selects every peer.
ALL = "all"

#: Buffers shared by forked explorers and one learner. Explorers call `add_batch`; the process that created the buffer
#: calls `sample` and `update_priorities`.
SHARED: dict[str, str] = {
    "cpprb_impl[lock=none]": "adapters.peers.cpprb_impl:CpprbImplNoLock",
    "cpprb_impl[lock=buffer]": "adapters.peers.cpprb_impl:CpprbImplBufferLock",
    "cpprb_impl[lock=critical]": "adapters.peers.cpprb_impl:CpprbImplCriticalLock",
    "cpprb[PER behind one lock]": "adapters.peers.cpprb.shared:CpprbBehindOneLock",
    "cpprb[MP behind one lock]": "adapters.peers.cpprb.shared:CpprbMPBehindOneLock",
    "cpprb[MP]": "adapters.peers.cpprb.shared:CpprbMP",
}

#: The same, but only measured if named, or with PEERS=all.
SHARED_ON_REQUEST: dict[str, str] = {
    "cpprb[tf2rl]": "adapters.peers.cpprb.shared:CpprbTf2rl",
    "cpprb[queue]": "adapters.peers.cpprb.shared:CpprbQueue",
}

#: Shared buffers of libraries with their own server or shared memory. `start_method` says how their processes start,
#: because most of them must not be forked from a process that uses the library.
SERVED: dict[str, str] = {
    "reverb": "adapters.peers.reverb.adapter:Reverb",
    "rllib[Ray actor]": "adapters.peers.rllib.actor:RLlibActor",
    "torchrl[shared]": "adapters.peers.torchrl.shared:TorchRLShared",
}

#: This project's own buffer. A wrong answer from it or one of its variants fails the run.
OURS = "cpprb_impl"

#: Our buffer in a server as users write it first. When the server hangs, that is not a fault of this project.
OURS_IN_A_SERVER = "cpprb_impl[replay server]"

#: Buffers over several hosts. They are measured by the hosts suite only, with its own profile.
OVER_HOSTS: dict[str, str] = {
    "cpprb_impl[Ray]": "adapters.peers.cpprb_impl_on_ray:CpprbImplOnRay",
    "cpprb_impl[Ray, unencrypted]": "adapters.peers.cpprb_impl_on_ray:CpprbImplOnRayUnencrypted",
    "cpprb_impl[Ray, uncompressed]": "adapters.peers.cpprb_impl_on_ray:CpprbImplOnRayUncompressed",
    OURS_IN_A_SERVER: "adapters.peers.replay_server:CpprbImplReplayServer",
    "cpprb[replay server]": "adapters.peers.replay_server:CpprbReplayServer",
    "reverb[hosts]": "adapters.peers.reverb.on_hosts:ReverbOnHosts",
    "rllib[Ray actor, hosts]": "adapters.peers.rllib.on_ray:RLlibOnRay",
}

#: The same, but only measured if named, or with PEERS=all.
OVER_HOSTS_ON_REQUEST: dict[str, str] = {
    "torchrl[Ray]": "adapters.peers.torchrl.on_ray:TorchRLOnRay",
}

#: Buffers inside a library's own learner. They are measured by the learners suite only.
IN_LEARNERS: dict[str, str] = {
    "cpprb_impl[SB3]": "adapters.peers.in_stable_baselines3:CpprbImplInSB3",
    "cpprb_impl[SB3, exact]": "adapters.peers.in_stable_baselines3:CpprbImplExact",
    "cpprb_impl[SB3, frames once]": "adapters.peers.in_stable_baselines3:CpprbImplFramesOnce",
    "cpprb_impl[SB3, compressed]": "adapters.peers.in_stable_baselines3:CpprbImplCompressed",
    "cpprb_impl[SB3, prioritized]": "adapters.peers.in_stable_baselines3:CpprbImplPrioritized",
    "cpprb_impl[SB3, prioritized, buffer maximum]": "adapters.peers.in_stable_baselines3:CpprbImplBufferMaximum",
    "cpprb_impl[SB3, prioritized, 3 steps]": "adapters.peers.in_stable_baselines3:CpprbImplThreeSteps",
    "cpprb_impl[SB3, alpha 0, 3 steps]": "adapters.peers.in_stable_baselines3:CpprbImplUniformThreeSteps",
    "stable-baselines3[training]": "adapters.peers.in_stable_baselines3:Training",
    "stable-baselines3[training, optimized]": "adapters.peers.in_stable_baselines3:TrainingOptimized",
    "sb3-extra-buffers[lz4]": "adapters.peers.in_stable_baselines3:ExtraBuffersLZ4",
}

#: The peers to which ratios are taken: for single-process buffers, for shared buffers, for those over hosts, and for
#: those inside a learner.
REFERENCES = ("cpprb", "cpprb[MP]", "cpprb[replay server]", "stable-baselines3[training]")

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
    """Return whether this project answers for the failures of the peer."""
    return family(name) == OURS and name != OURS_IN_A_SERVER


def every() -> list[str]:
    """Return the names of all peers."""
    return list(dict.fromkeys([*alone(), *together(), *over_hosts(), *in_learners()]))


def _external() -> dict[str, type[Adapter]]:
    found = external.adapters()
    ours = {**PEERS, **ON_REQUEST, **SHARED, **SHARED_ON_REQUEST, **SERVED, **OVER_HOSTS, **IN_LEARNERS}
    if taken := found.keys() & ours.keys():
        raise external.BadAdapter(f"an adapter's name must not be that of a peer of this project, got {taken.pop()!r}")
    return found


def alone() -> list[str]:
    """Return the names of single-process peers."""
    return [*PEERS, *ON_REQUEST, *_external()]


def together() -> list[str]:
    """Return the names of buffers shared by explorers and a learner, however their processes start."""
    return [*SHARED, *SHARED_ON_REQUEST, *SERVED]


def over_hosts() -> list[str]:
    """Return the names of buffers whose rows are on other hosts than the processes that use them."""
    return [*OVER_HOSTS, *OVER_HOSTS_ON_REQUEST]


def in_learners() -> list[str]:
    """Return the names of buffers inside a library's own learner."""
    return list(IN_LEARNERS)


def chosen(names: Collection[str]) -> list[str]:
    """Return the peers that `names` select, and another project's. A name selects the peer and its variants, "all"
    selects every peer, and an empty collection selects the default peers. Raises `UnknownPeer`."""
    if not names:
        on_request = {**ON_REQUEST, **SHARED_ON_REQUEST, **OVER_HOSTS_ON_REQUEST}
        return [name for name in every() if name not in on_request]
    for name in names:
        if name != ALL:
            peer_class(name)
    wanted = {*names, *_external()}
    return [name for name in every() if ALL in wanted or name in wanted or family(name) in wanted]


def peer_class(name: str) -> type[Peer]:
    """Import the peer's module, but not its library, and return its class. Raises `UnknownPeer`."""
    if name in _external():
        return _external()[name]
    target = {
        **PEERS,
        **ON_REQUEST,
        **SHARED,
        **SHARED_ON_REQUEST,
        **SERVED,
        **OVER_HOSTS,
        **OVER_HOSTS_ON_REQUEST,
        **IN_LEARNERS,
    }.get(name)
    if target is None:
        known = ", ".join(every())
        raise UnknownPeer(f"unknown peer {name!r}; known peers: {known}")
    module, _, attribute = target.partition(":")
    cls: type[Peer] = getattr(importlib.import_module(module), attribute)
    return cls


def adapter_class(name: str) -> type[Adapter]:
    """Return the adapter class of a buffer that is used without a learner."""
    return cast("type[Adapter]", peer_class(name))


def learner_class(name: str) -> type[LearnerArm]:
    """Return the class of a buffer inside a learner."""
    return cast("type[LearnerArm]", peer_class(name))


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
    library = environments.installed(cls.distribution, cls.environment)
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
    return environments.python(peer_class(name).environment)
