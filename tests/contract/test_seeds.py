"""Each sentence of the four specifications has a test that proves it, or a departure."""

import sys

import pytest

from conftest import REPOSITORY

sys.path.append(str(REPOSITORY / "docs"))
import seeds


def test_every_sentence_has_a_test_or_a_departure():
    """Only sentences that are listed as open have neither, and no marker names an unknown one."""
    sentences, opened, problems = seeds.collect()
    unproved = [sentence.words for sentence in sentences if not sentence.is_proved]

    assert [] == problems
    assert [] == [words for words in unproved if words not in opened]
    assert set(opened) <= {sentence.words for sentence in sentences}
    assert set(seeds.NAMES) == {sentence.seed for sentence in sentences}


def test_the_page_is_current():
    """docs/seeds.md is what `python docs/seeds.py` writes."""
    assert seeds.page() == seeds.PAGE.read_text()


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("Close the session.", ["Close the session."]),
        ("- Filename   scheme", ["Filename scheme"]),
        ("Filename scheme is not part of", ["Filename scheme is not", "Filename scheme"]),
        ("Filename scheme is not", ["Filename scheme is not"]),
        ("scheme", []),
    ],
)
def test_a_sentence_is_found_by_its_first_words(words, found):
    """The words of a marker may be fewer or more than those of the list; an exact match is alone."""
    known = ["Close the session.", "Filename scheme is not", "| Filename scheme"]
    sentences = [seeds.Sentence("000", text, "") for text in known]

    assert found == [seeds.plain(each.words) for each in seeds.matching(sentences, "000", words)]
    assert [] == seeds.matching(sentences, "001", words)
