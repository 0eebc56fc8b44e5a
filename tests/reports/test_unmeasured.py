"""The first screen says which peers were not measured and why, and whether nothing was compared."""

from __future__ import annotations

import html
import re

import pytest

from reports.answer.heatmap import heat_map
from reports.sections import context_of

from .conftest import pages_of
from .synthetic_runs import JOBS, throughput_cell, throughput_run

FIXED = "stores obs, act, rew, next_obs, done, and no other fields"
pytestmark = pytest.mark.usefixtures("without_pictures")


def told(run) -> list[str]:
    """Return the text of both pages, without markup."""
    return [" ".join(html.unescape(re.sub(r"<[^>]*>", "", page)).split()) for page in pages_of(run)]


def skip(run, peer: str, reason: str, jobs=JOBS) -> None:
    run.add_peer(peer, "1", f"how {peer} is used")
    for benchmark, batch in jobs:
        throughput_cell(run, benchmark, batch, peer, "CartPole-v1").fail("skipped", reason)


def test_peers_without_a_figure_are_on_the_first_screen_with_their_reasons():
    run = throughput_run(peers=("cpprb_impl", "cpprb", "baselines-style"))
    for peer in ("rllib", "reverb"):
        skip(run, peer, f"{peer} {FIXED}")
    skip(run, "flashbax", "no wheel for this Python")
    skip(run, "chainerrl-style", "chainerrl-style has no priorities", JOBS[4:])
    throughput_cell(run, "add", 1, "chainerrl-style", "CartPole-v1").add_sample(0, 1e-6)
    for page in told(run):
        assert f"Not measured on CartPole-v1: rllib and reverb ({FIXED}); flashbax (no wheel for this Python)." in page


@pytest.mark.parametrize("rivals", [(), ("cpprb",)])
def test_only_a_run_without_a_rival_says_that_nothing_was_compared(rivals):
    run = throughput_run(peers=("cpprb_impl", *rivals))
    assert bool(heat_map(context_of(run)).tables) is bool(rivals)
    for page in told(run):
        remark = "One process: nothing was compared, because only cpprb_impl has figures."
        assert (remark in page) is not bool(rivals) and "Not measured on" not in page
