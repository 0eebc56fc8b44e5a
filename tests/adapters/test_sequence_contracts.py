"""Each peer that draws sequences keeps what its adapter states about them."""

from __future__ import annotations

from adapters import registry
from adapters.sequence_checks import check, observed


def test_a_peer_keeps_its_contract_with_one_stream(sequence_peer: str, prioritized: bool) -> None:
    check(registry.sequences_class(sequence_peer), prioritized=prioritized)


def test_a_peer_behaves_exactly_as_stated_with_two_streams(sequence_peer: str, prioritized: bool) -> None:
    kind = registry.sequences_class(sequence_peer)
    stated = kind.sequences.behaviours
    for name, seen in observed(kind, prioritized=prioritized, streams=2).items():
        assert seen.word is stated[name], (name, seen)
