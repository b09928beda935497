"""A run in forms that other programs show: a page, a report, diagrams, a trace.

A form takes a timeline and gives pieces of text. It does no input or output, and what it writes is
harmless in the program that it is for, whatever agents, models and tools wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias

from threadbus.replay.forms import chrome_trace, dot, html, markdown, mermaid
from threadbus.replay.forms.options import FormOptions
from threadbus.replay.story import Timeline

Form: TypeAlias = Callable[[Timeline, FormOptions], Iterator[str]]
"""Writes a timeline, piece by piece."""

FORMS: Final[Mapping[str, Form]] = {
    "chrome-trace": chrome_trace.write,
    "dot": dot.write,
    "html": html.write,
    "markdown": markdown.write,
    "mermaid": mermaid.write,
}
"""The forms by the name that ``--format`` takes."""

__all__ = ["FORMS", "Form", "FormOptions"]
