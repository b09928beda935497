"""What is right: numbers, lists and texts in one form; and what many attempts come to."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadbus.agents.evaluation import final_answer, is_right
from threadbus.agents.evaluation.report import pass_at_k


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("24", "24"),
        ("24.0", "24"),
        ("$1,234.50", "1234.5"),
        ("17 %", "17"),
        ("1e3", "1000"),
        ("-3", "-3"),
        (" mercury. ", "Mercury"),
        ("Saint Petersburg", "saintpetersburg"),
        ("St. John's", "St Johns"),
        ("a,b , C", "A, b, c"),
        ("2; 3; 5", "2, 3, 5"),
        ("$2, 3.0", "2, 3"),
        ("", "..."),
        ("Ärger", "ärger"),
    ],
)
def test_what_is_the_same_is_right(said: str, expected: str) -> None:
    """Signs, separators, blanks, case and punctuation do not count."""
    assert is_right(said, expected)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("25", "24"),
        ("24 legs", "24"),
        ("twenty-four", "24"),
        ("", "24"),
        ("nan", "24"),
        ("a, b", "a, b, c"),
        ("b, a", "a, b"),
        ("a b", "a, b"),
        ("a., b", "a, b"),
        ("2, 4", "2, 3"),
        ("Mercur", "Mercury"),
        ("1" * 100_000, "1"),
        ("٣", "3"),
    ],
)
def test_what_differs_is_wrong(said: str, expected: str) -> None:
    """Order and number of elements count, and a number is nothing but a number."""
    assert not is_right(said, expected)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("4", "4"),
        ("Because.\nFINAL ANSWER: 4\n", "4"),
        ("Final answer: 3\nNo.\n**FINAL ANSWER:** `4`\nDone.", "4"),
        ("FINAL ANSWER:\n\n4", "4"),
        ("FINAL ANSWER:", ""),
    ],
)
def test_the_line_behind_the_mark_is_what_counts(text: str, answer: str) -> None:
    """The last one, without marks of emphasis; all of it where there is none."""
    assert final_answer(text) == answer


@given(st.text(max_size=200), st.text(max_size=200))
def test_any_two_texts_can_be_compared(said: str, expected: str) -> None:
    """Nothing raises, and whatever is no broken number is right by itself."""
    assert is_right(said, expected) in {True, False}
    assert is_right(expected.strip(), expected) in {True, False}
    assert final_answer(said) in said


@pytest.mark.parametrize("attempts", [1, 2, 3, 5])
def test_pass_at_k_is_the_share_of_choices_with_a_right_one(attempts: int) -> None:
    """The formula agrees with counting all choices."""
    for right, k in itertools.product(range(attempts + 1), range(1, attempts + 1)):
        outcomes = [number < right for number in range(attempts)]
        choices = list(itertools.combinations(outcomes, k))
        counted = sum(any(choice) for choice in choices) / len(choices)
        assert pass_at_k(attempts, right, k) == pytest.approx(counted)
