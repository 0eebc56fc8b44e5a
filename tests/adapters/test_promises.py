"""Every peer's statement is in words that a check can see."""

import pytest

from adapters.promises import FAULT, HAZARD, SOUND, VOCABULARY, Promises


def test_every_check_has_its_words_and_a_default_that_is_no_fault():
    words = Promises().words
    assert list(words) == list(VOCABULARY)
    for check, word in words.items():
        assert VOCABULARY[check][word] in (SOUND, HAZARD)
        assert set(VOCABULARY[check].values()) <= {SOUND, HAZARD, FAULT}


def test_a_word_that_no_check_sees_is_refused():
    with pytest.raises(ValueError, match="weights: 'over the moon' is none of over the buffer, over the batch"):
        Promises(weights="over the moon")
