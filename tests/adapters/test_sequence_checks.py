"""The checks of sequences find each kind of wrong sequence, and none in a sound buffer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from adapters.base import WrongAnswer
from adapters.behaviours import LastSteps, SequenceBounds, SequencePadding, SequencePriorities, SequenceStarts
from adapters.sequence_checks import check, observed
from adapters.sequences import SequenceContract

from . import sequence_peers as peers


def words(kind: type[peers.Sound], *, prioritized: bool = False, streams: int = 2, seed: int = 0) -> dict:
    found = observed(kind, prioritized=prioritized, streams=streams, seed=seed)
    return {name: seen.word for name, seen in found.items()}


@pytest.mark.parametrize("streams", [1, 2, 3])
def test_a_sound_buffer_keeps_the_usual_contract(streams: int) -> None:
    found = {prioritized: words(peers.Sound, prioritized=prioritized, streams=streams) for prioritized in (False, True)}
    assert {**found[False], **found[True]} == SequenceContract().behaviours


@pytest.mark.parametrize(
    ("kind", "name", "word"),
    [
        (peers.CrossesEnds, "bounds", SequenceBounds.ONE_STREAM),
        (peers.MixesStreams, "bounds", SequenceBounds.BROKEN),
        (peers.CrossesTheWritePosition, "bounds", SequenceBounds.BROKEN),
        (peers.SkipsAStep, "bounds", SequenceBounds.BROKEN),
        (peers.ReturnsOverwrittenSteps, "bounds", SequenceBounds.BROKEN),
        (peers.PadsInsideEpisodes, "bounds", SequenceBounds.BROKEN),
        (peers.PadsMoreThanTheBurnIn, "bounds", SequenceBounds.BROKEN),
        (peers.DrawsEpisodesAlike, "starts", SequenceStarts.EPISODES_EVEN),
        (peers.DrawsOneTooOften, "starts", SequenceStarts.UNEVEN),
        (peers.NeverDrawsLastSteps, "starts", SequenceStarts.UNEVEN),
        (peers.NeverDrawsLastSteps, "last_steps", LastSteps.NEVER),
        (peers.PadsBurnIn, "padding", SequencePadding.MASKED_BURN_IN),
        (peers.PadsWithoutMask, "padding", SequencePadding.UNMASKED),
        (peers.RepeatsFirstSteps, "padding", SequencePadding.REPEATED),
        (peers.RepeatsStepsOfTheMiddle, "bounds", SequenceBounds.BROKEN),
        (peers.JoinsEpisodes, "bounds", SequenceBounds.JOINED),
        (peers.JoinsWithoutGaps, "bounds", SequenceBounds.BROKEN),
        (peers.JoinsFromTheMiddle, "bounds", SequenceBounds.BROKEN),
        (peers.JoinsBeforeTheEnd, "bounds", SequenceBounds.BROKEN),
        (peers.JoinsAfterEvenEpisodes, "starts", SequenceStarts.EPISODES_EVEN),
        (peers.HoldsTooFewSequences, "starts", SequenceStarts.UNEVEN),
        (peers.HoldsTooManySequences, "starts", SequenceStarts.UNEVEN),
        (peers.OverwritesAnEpisodeTooMany, "starts", SequenceStarts.UNEVEN),
    ],
)
@pytest.mark.parametrize("seed", [0, 1])
def test_each_other_behaviour_is_named(kind: type[peers.Sound], name: str, word: str, seed: int) -> None:
    assert words(kind, seed=seed)[name] is word


@pytest.mark.parametrize(
    "kind",
    [
        peers.CrossesEnds,
        peers.PadsBurnIn,
        peers.DrawsEpisodesAlike,
        peers.RepeatsFirstSteps,
        peers.JoinsEpisodes,
    ],
)
def test_one_behaviour_does_not_hide_another(kind: type[peers.Sound]) -> None:
    found, usual = words(kind), words(peers.Sound)
    assert sum(found[name] is not usual[name] for name in usual) == 1


@pytest.mark.parametrize("kind", [peers.CountsSequences, peers.OverwritesEpisodes])
@pytest.mark.parametrize("streams", [1, 2, 3])
def test_other_capacities_keep_the_usual_contract(kind: type[peers.Sound], streams: int) -> None:
    usual = words(peers.Sound, streams=streams)
    assert words(kind, streams=streams) == usual


@pytest.mark.parametrize(
    "kind", [peers.CrossesEnds, peers.MixesStreams, peers.CrossesTheWritePosition, peers.RepeatsFirstSteps]
)
def test_prioritized_sequences_are_checked_alike(kind: type[peers.Sound]) -> None:
    assert words(kind, prioritized=True)["prioritized_bounds"] is words(kind)["bounds"]


@pytest.mark.parametrize("kind", [peers.IgnoresPriorities, peers.UpdatesNeighbours])
def test_lost_updates_are_noticed(kind: type[peers.Sound]) -> None:
    assert words(kind, prioritized=True)["prioritized"] is SequencePriorities.OTHER


@pytest.mark.parametrize("kind", [peers.WeighsAllAlike, peers.WeighsWithoutBeta])
def test_weights_that_do_not_belong_to_the_priorities_are_a_wrong_answer(kind: type[peers.Sound]) -> None:
    with pytest.raises(WrongAnswer, match="weights: wrong by a factor"):
        observed(kind, prioritized=True, streams=1)


def test_batches_that_are_drawn_ahead_may_have_older_weights_if_that_is_stated() -> None:
    assert words(peers.DrawsAhead, prioritized=True)["prioritized"] is SequencePriorities.BY_PRIORITY
    with pytest.raises(WrongAnswer, match="weights: wrong by a factor"):
        observed(peers.DrawsAheadSilently, prioritized=True, streams=1)


def test_a_peer_without_priorities_declines_them() -> None:
    with pytest.raises(NotImplementedError, match="sound has no prioritized sequences"):
        observed(peers.HasNoPriorities, prioritized=True, streams=1)


def test_rows_that_were_never_added_are_a_wrong_answer() -> None:
    with pytest.raises(WrongAnswer, match="mixes values of different added rows"):
        observed(peers.MixesRows, prioritized=False, streams=1)


def test_a_mask_over_stored_steps_is_a_wrong_answer() -> None:
    with pytest.raises(WrongAnswer, match="mask: false for step"):
        observed(peers.MasksStoredSteps, prioritized=False, streams=1)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (peers.CrossesEnds, "bounds: crosses the ends of episodes, but the adapter promises 'one episode'"),
        (peers.CrossesTheWritePosition, "bounds: not consecutive steps"),
        (peers.DrawsOneTooOften, "starts: uneven"),
        (peers.NeverDrawsLastSteps, "starts: uneven"),
        (peers.PadsWithoutMask, "padding: without a mask"),
    ],
)
def test_a_broken_promise_is_a_wrong_answer(kind: type[peers.Sound], reason: str) -> None:
    with pytest.raises(WrongAnswer, match=reason):
        check(kind, prioritized=False)


def test_a_stated_hazard_is_accepted_but_a_stated_fault_is_not() -> None:
    class Crosses(peers.CrossesEnds):
        sequences = replace(SequenceContract(), bounds=SequenceBounds.ONE_STREAM)

    class Broken(peers.CrossesTheWritePosition):
        sequences = replace(SequenceContract(), bounds=SequenceBounds.BROKEN)

    check(Crosses, prioritized=False)
    with pytest.raises(WrongAnswer, match="not consecutive"):
        check(Broken, prioritized=False)
