"""What the page shows, as data: the run flattened, texts harmless, times in microseconds.

Agents, threads, turns and steps are referred to by their place in the lists. Field names are short
because a page has thousands of them.
"""

from __future__ import annotations

import msgspec


class PageAgent(msgspec.Struct, omit_defaults=True):
    """An agent, or a person."""

    name: str
    person: bool = False
    turns: int = 0
    waited: int = 0
    worked: int = 0
    model: int = 0
    tin: int = 0
    tout: int = 0
    tools: int = 0
    failures: int = 0
    messages: int = 0
    cost: str = ""


class PageThread(msgspec.Struct, omit_defaults=True):
    """A thread."""

    id: str
    title: str
    parent: int = -1
    outcome: str = ""
    summary: str = ""
    members: tuple[str, ...] = ()
    t: int = 0


class PageTurn(msgspec.Struct, omit_defaults=True):
    """A turn."""

    s: int
    """The sequence of its mention."""
    a: int
    """The agent."""
    h: int
    """The thread."""
    by: int = -1
    """Who asked."""
    q: int = 0
    """When it was asked."""
    b: int = 0
    """When the work began."""
    e: int = 0
    """When it ended."""
    o: str = ""
    """What came of it."""
    n: int = 0
    """The last attempt."""
    begun: bool = False
    waited: int = -1
    worked: int = -1
    tin: int = 0
    tout: int = 0
    x: str = ""
    """What was asked."""


class PageStep(msgspec.Struct, omit_defaults=True):
    """A step."""

    s: int
    """The sequence."""
    i: str
    """The id of the event."""
    t: int
    """When it was stored; for a model call when it began."""
    a: int
    h: int
    k: str
    """``said``, ``model``, ``tool`` or ``failure``."""
    v: str
    """What was done."""
    y: str = ""
    """The type of the event."""
    d: int = 0
    """How long it took."""
    m: str = "plain"
    f: tuple[str, ...] = ()
    x: str = ""
    """What was said."""
    n: int = 0
    """Characters of it that were left out."""
    o: tuple[int, ...] = ()
    """To whom."""
    p: tuple[str, ...] = ()
    """Steps of a plan."""
    r: bool = False
    """Whether it is a reply."""
    u: int = -1
    """The turn."""
    c: int = -1
    """The step that caused it."""
    ab: int = -1
    """The step that it is about."""


class PageFinding(msgspec.Struct, omit_defaults=True):
    """A finding."""

    id: str
    name: str
    kind: str
    s: int
    at: int
    """The step that shows it."""
    text: str
    a: int = -1
    evidence: tuple[int, ...] = ()


class PageSuspect(msgspec.Struct, omit_defaults=True):
    """A suspect."""

    s: int
    at: int
    score: float
    reasons: tuple[str, ...]
    a: int = -1
    findings: tuple[str, ...] = ()


class PageChange(msgspec.Struct, omit_defaults=True):
    """A step of a plan, and what became of it."""

    kind: str
    title: str
    who: str = ""
    was: str = ""
    detail: str = ""


class PagePlan(msgspec.Struct, omit_defaults=True):
    """A version of a plan."""

    version: int
    h: int
    a: int
    t: int
    at: int
    reasons: tuple[str, ...] = ()
    steps: tuple[PageChange, ...] = ()


class PageVote(msgspec.Struct, omit_defaults=True):
    """Something put to the vote."""

    at: int
    a: int
    h: int
    t: int
    text: str
    needed: int
    votes: tuple[tuple[str, str], ...] = ()
    silent: tuple[str, ...] = ()
    result: str = ""


class PageArtifact(msgspec.Struct, omit_defaults=True):
    """An artifact."""

    at: int
    a: int
    name: str
    type: str
    size: str
    sha: str = ""


class PageAnswer(msgspec.Struct, omit_defaults=True):
    """The answer."""

    at: int
    a: int
    text: str
    more: int = 0
    accepted: bool = False
    dissent: tuple[str, ...] = ()


class Page(msgspec.Struct, kw_only=True):
    """Everything that the page shows."""

    task: str
    title: str
    status: str
    question: str
    summary: str
    opened_by: str
    opened: str
    """In words."""
    start_ms: int
    duration: int
    over: bool
    totals: dict[str, float]
    cost: str
    """Empty where no table of prices was given."""
    notes: tuple[str, ...]
    commands: tuple[str, ...]
    part: str
    """Which part of the run it is; empty where it is all of it."""
    answer: PageAnswer | None
    agents: list[PageAgent]
    threads: list[PageThread]
    turns: list[PageTurn]
    steps: list[PageStep]
    plans: list[PagePlan]
    votes: list[PageVote]
    artifacts: list[PageArtifact]
    findings: list[PageFinding]
    suspects: list[PageSuspect]
