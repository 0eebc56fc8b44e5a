"""The list of all peers. A new peer is a file or folder in `adapters/peers` and a line here.

This module imports nothing, so that names can be checked before anything is installed.
"""

from __future__ import annotations

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

#: Single-process peers that are only measured if named, or with PEERS=all: libraries that need their own venv,
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

#: Our buffer in a simple replay server, such as users typically write first. If the server hangs, this project is not
#: at fault.
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

#: Buffers inside a library's own learner. They are measured by the paired_training suite only.
TRAINING_ARMS: dict[str, str] = {
    "cpprb_impl[SB3]": "adapters.peers.in_stable_baselines3:CpprbImplInSB3",
    "cpprb_impl[SB3, exact]": "adapters.peers.in_stable_baselines3:CpprbImplExact",
    "cpprb_impl[SB3, frames once]": "adapters.peers.in_stable_baselines3:CpprbImplFramesOnce",
    "cpprb_impl[SB3, compressed]": "adapters.peers.in_stable_baselines3:CpprbImplCompressed",
    "cpprb_impl[SB3, prioritized]": "adapters.peers.in_stable_baselines3:CpprbImplPrioritized",
    "cpprb_impl[SB3, prioritized, buffer maximum]": "adapters.peers.in_stable_baselines3:CpprbImplBufferMaximum",
    "cpprb_impl[SB3, prioritized, 3 steps]": "adapters.peers.in_stable_baselines3:CpprbImplThreeSteps",
    "cpprb_impl[SB3, alpha 0, 3 steps]": "adapters.peers.in_stable_baselines3:CpprbImplUniformThreeSteps",
    "stable-baselines3[training]": "adapters.peers.in_stable_baselines3:OwnBuffer",
    "stable-baselines3[training, optimized]": "adapters.peers.in_stable_baselines3:OwnBufferOptimized",
    "sb3-extra-buffers[lz4]": "adapters.peers.in_stable_baselines3:ExtraBuffersLZ4",
}

#: Buffers that draw sequences of steps, in their own way. They are measured by the sequences suite, and checked by the
#: conformance suite.
SEQUENCES: dict[str, str] = {
    "cpprb_impl[sequences]": "adapters.peers.cpprb_impl_sequences:CpprbImplSequences",
}

#: The same, if processes share them.
SEQUENCES_TOGETHER: dict[str, str] = {
    "cpprb_impl[shared sequences]": "adapters.peers.cpprb_impl_sequences:CpprbImplSharedSequences",
}

#: The same, but only measured if named, or with PEERS=all.
SEQUENCES_ON_REQUEST: dict[str, str] = {
    "torchrl[SliceSampler]": "adapters.peers.torchrl.sequences:TorchRLSlices",
    "flashbax[trajectories]": "adapters.peers.flashbax_sequences:FlashbaxTrajectories",
    "rllib[episode rows]": "adapters.peers.rllib.sequences:RLlibRows",
    "tianshou[stack_num]": "adapters.peers.tianshou_sequences:TianshouStacks",
    "tianshou[sample_avail]": "adapters.peers.tianshou_sequences:TianshouAvailable",
    "reverb[trajectories]": "adapters.peers.reverb.sequences:ReverbTrajectories",
    "dreamerv3[Uniform]": "adapters.peers.dreamerv3:DreamerV3Uniform",
}


def classes() -> dict[str, str]:
    """Return the location of every peer's adapter class, by the peer's name."""
    return {
        **PEERS,
        **ON_REQUEST,
        **SHARED,
        **SHARED_ON_REQUEST,
        **SERVED,
        **OVER_HOSTS,
        **OVER_HOSTS_ON_REQUEST,
        **TRAINING_ARMS,
        **SEQUENCES,
        **SEQUENCES_TOGETHER,
        **SEQUENCES_ON_REQUEST,
    }
