"""Plots of any number of peers: names are complete, and peers are distinguishable."""

from __future__ import annotations

import matplotlib as mpl
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Picture

from adapters import registry
from reports import plots
from reports.figures.formatting import scale_for
from reports.figures.statistics import Figure

PEERS = registry.every()
LOOKS = plots.looks(PEERS, PEERS)
FIGURE = Figure(2e-6, 1e-6, 3e-6, 5)


def dots() -> Picture:
    entries = [plots.Dot(peer, "†§◊", FIGURE, "ok") for peer in PEERS]
    return plots.dots("sample 32", entries, scale_for("s/call", [FIGURE.value]), "lower", LOOKS)


def multiples() -> Picture:
    return plots.multiples({"CartPole-v1": {"plain": dict.fromkeys(PEERS, 1.5)}}, PEERS, LOOKS)


@pytest.mark.parametrize("make", [dots, multiples])
def test_the_longest_name_is_not_cut(make) -> None:
    with mpl.rc_context(plots.RC):
        picture = make()
        canvas = FigureCanvasAgg(picture)
        canvas.draw()
        (axes,) = picture.axes
        for text in [*axes.get_yticklabels(), axes.title, *axes.texts]:
            box = text.get_window_extent(canvas.get_renderer())
            assert box.x0 >= 0, text.get_text()
            assert box.x1 <= picture.bbox.x1, text.get_text()


def test_names_of_usual_length_change_no_plot() -> None:
    assert plots.names_width(["cpprb_impl", "chainerrl-style"]) == plots.NAMES


def test_no_two_peers_look_alike() -> None:
    assert len(set(LOOKS.values())) == len(PEERS)


def test_fill_levels_are_drawn_a_few_peers_at_a_time() -> None:
    points = [(0.0, 10.0), (0.25, 20.0), (0.5, 30.0), (1.0, 40.0)]
    curves = dict.fromkeys(PEERS, points)
    parts = plots.in_parts(list(curves), LOOKS)
    assert sorted(peer for part in parts for peer in part) == sorted(PEERS)
    for part in parts:
        assert len(part) <= plots.LINES_A_PLOT
        picture = plots.filling("CartPole-v1", curves, part, LOOKS)
        (legend,) = picture.legends
        assert [text.get_text() for text in legend.get_texts()] == part
        assert len(picture.axes[0].lines) == len(PEERS)  # the others in grey: what a part shows can be compared


@pytest.mark.parametrize("values", [(0.0, 0.0, 30.0, 40.0), (0.0, 0.0, 0.0, 0.0)])
def test_a_fill_level_without_any_bytes_is_drawn_at_the_lower_end(values) -> None:
    curves = {PEERS[0]: list(zip((0.0, 0.25, 0.5, 1.0), values, strict=True))}
    axes = plots.filling("CartPole-v1", curves, PEERS[:1], LOOKS).axes[0]
    low, high = axes.get_ylim()
    drawn = axes.lines[0].get_ydata()
    assert 0 < low < min(drawn) and max(drawn) < high and min(drawn) == drawn[0]


def test_few_peers_are_one_part() -> None:
    assert plots.in_parts(["cpprb_impl", "cpprb"], LOOKS) == [["cpprb_impl", "cpprb"]]
    assert plots.in_parts([], LOOKS) == []


def test_the_legend_of_a_model_shows_its_lines() -> None:
    peers = PEERS[:2]
    lines = {peer: {1: FIGURE, 2: FIGURE} for peer in peers}
    said = {peer: {1: 1e-6, 2: 2e-6} for peer in peers}
    picture = plots.scaling("title", lines, "steps/s", "explorers", LOOKS, dict.fromkeys(peers, ""), predicted=said)
    (legend,) = picture.legends
    assert [text.get_text() for text in legend.get_texts()] == peers
    for handle, peer in zip(legend.legend_handles, peers, strict=True):
        assert (handle.get_linestyle(), handle.get_marker()) == (LOOKS[peer].line, LOOKS[peer].marker)
