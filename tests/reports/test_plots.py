"""Plots of any number of peers have complete names and distinguishable peers."""

from __future__ import annotations

import pytest

from adapters import registry
from reports import plots
from reports.sections import apex, context_of, trainings
from results.statistics import Figure

from .test_apex_section import APEX_ARMS, apex_grid
from .test_trainings import learners_run

PEERS = registry.every()
LOOKS = plots.looks(PEERS, PEERS)
FIGURE = Figure(2e-6, 1e-6, 3e-6, 5)


def test_every_peer_has_a_distinct_style() -> None:
    assert len(set(LOOKS.values())) == len(PEERS)


def test_the_legend_names_each_peer_with_its_signs() -> None:
    peers = PEERS[:2]
    lines = {peer: {1: FIGURE, 2: FIGURE} for peer in peers}
    picture = plots.scaling("title", lines, "steps/s", "explorers", LOOKS, {peers[0]: "✗", peers[1]: ""})
    (legend,) = picture.legends
    assert [text.get_text() for text in legend.get_texts()] == [f"{peers[0]} ✗", peers[1]]


@pytest.mark.parametrize(
    ("section", "make"),
    [(apex, lambda: apex_grid(dict(list(APEX_ARMS.items())[:2]))), (trainings, lambda: learners_run(seeds=3))],
    ids=["apex", "trainings"],
)
def test_curves_are_drawn_for_both_pages(section, make) -> None:
    """The tests of the sections draw no pictures."""
    (part,) = section.parts(context_of(make()))
    assert part.pictures
    for picture in part.pictures:
        assert picture.svg.startswith("<svg") and picture.png.startswith(b"\x89PNG")
