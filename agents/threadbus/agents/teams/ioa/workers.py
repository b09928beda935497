"""Agents of third parties: each is one function from a text to a text."""

from __future__ import annotations

import re
import statistics
from typing import Final

from threadbus.agents.agent import from_callable

_NUMBER: Final = re.compile(r"-?\d{1,12}(?:\.\d{1,6})?")
_MOST: Final = 10_000


def centre(task: str) -> str:
    """Compute the mean and the median, the middle of a list of numbers."""
    values = _numbers(task)
    return f"mean {statistics.mean(values):g}, median {statistics.median(values):g}"


def spread(task: str) -> str:
    """Compute the range and the standard deviation, how far numbers lie apart."""
    values = _numbers(task)
    deviation = statistics.pstdev(values)
    return f"range {max(values) - min(values):g}, standard deviation {deviation:.1f}"


def glossary(task: str) -> str:
    """Explain statistical words, such as median, in plain language for the public."""
    known = {
        "median": "the median is the value in the middle: half of the values lie below it",
        "mean": "the mean is the sum shared out evenly",
    }
    found = [text for word, text in known.items() if word in task.lower()]
    return "; ".join(found) or "there is no word in it that needs to be explained"


def weather(task: str) -> str:
    """Forecast the weather of a city for the weekend."""
    return f"no forecast for {task[:80]!r}: the service is not connected"


def _numbers(text: str) -> list[float]:
    found = [float(number) for number in _NUMBER.findall(text)[:_MOST]]
    if not found:
        raise ValueError(f"there are no numbers in {text[:80]!r}")
    return found


centre_agent = from_callable(centre)
spread_agent = from_callable(spread)
glossary_agent = from_callable(glossary)
weather_agent = from_callable(weather)
