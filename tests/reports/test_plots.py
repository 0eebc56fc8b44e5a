"""Plots of any number of peers: names are complete, and peers are distinguishable."""

from __future__ import annotations

from adapters import registry
from reports import plots
from results.statistics import Figure

PEERS = registry.every()
LOOKS = plots.looks(PEERS, PEERS)
FIGURE = Figure(2e-6, 1e-6, 3e-6, 5)


def test_no_two_peers_look_alike() -> None:
    assert len(set(LOOKS.values())) == len(PEERS)


def test_the_legend_of_a_model_shows_its_lines() -> None:
    peers = PEERS[:2]
    lines = {peer: {1: FIGURE, 2: FIGURE} for peer in peers}
    said = {peer: {1: 1e-6, 2: 2e-6} for peer in peers}
    picture = plots.scaling("title", lines, "steps/s", "explorers", LOOKS, dict.fromkeys(peers, ""), predicted=said)
    (legend,) = picture.legends
    assert [text.get_text() for text in legend.get_texts()] == peers
    for handle, peer in zip(legend.legend_handles, peers, strict=True):
        assert (handle.get_linestyle(), handle.get_marker()) == (LOOKS[peer].line, LOOKS[peer].marker)
