"""The causal graph (Graphviz): every step a node by its agent, an edge from what caused it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from threadbus.replay.finding import Finding, FindingKind
from threadbus.replay.forms.flat import Act, Flat
from threadbus.replay.forms.options import FormOptions
from threadbus.replay.story import AnyStep, SaidStep, Timeline
from threadbus.replay.text import first_line, neutral, offset
from threadbus.replay.words import words_of
from threadbus.schemas import EventId

MAX_NODES: Final = 2_000
"""Steps that are drawn: what Graphviz lays out in a time that a person waits."""

COLORS: Final = (
    "#1f77b4",
    "#d95f02",
    "#2a9d5c",
    "#8e44ad",
    "#b8860b",
    "#0e8a8a",
    "#c2185b",
    "#5d6d7e",
)
_MARKS: Final = {
    FindingKind.VIOLATION: "#c62828",
    FindingKind.SYMPTOM: "#e67700",
    FindingKind.HINT: "#8a6d00",
}
_BAD: Final = "#c62828"


def write(timeline: Timeline, options: FormOptions) -> Iterator[str]:
    """Write *timeline* as a graph for Graphviz.

    The steps of a turn have one cause, its mention. They are drawn as a chain that begins there.

    Args:
        timeline: the run, or a part of it.
        options: what else is to know.
    """
    flat = Flat(timeline, options.selection)
    acts, left = flat.acts[:MAX_NODES], max(len(flat.acts) - MAX_NODES, 0)
    title = first_line(timeline.title, 200) or "a run without its opening"
    if left:
        page = options.command(timeline, "html")
        title += f" (the first {len(acts):,} steps; {left:,} left out, all of them in: {page})"
    yield "digraph run {\n"
    yield f"  label={quoted(title)};\n"
    yield '  labelloc=t; rankdir=TB; newrank=true; fontname="sans-serif";\n'
    yield '  node [shape=box, style="rounded,filled", fillcolor=white, '
    yield 'fontname="sans-serif", fontsize=10];\n'
    yield '  edge [color="#666666", arrowsize=0.7];\n'
    nodes = {act.step.id: f"n{number}" for number, act in enumerate(acts)}
    marks = flat.findings_by_seq()
    for number, agent in enumerate(flat.agents()):
        own = [act.step for act in acts if act.step.agent == agent]
        if not own:
            continue
        color = COLORS[number % len(COLORS)]
        yield f"  subgraph cluster_{number} {{\n"
        yield f"    label={quoted(agent)}; color={quoted(color)}; fontcolor={quoted(color)};\n"
        for step in own:
            found = marks.get(step.seq, [])
            yield f"    {nodes[step.id]} [{_attributes(step, flat, color, found)}];\n"
        yield "  }\n"
    yield from _edges(acts, nodes)
    yield "}\n"


def quoted(text: str) -> str:
    """Return *text* as a string of the language, in one line and harmless."""
    return '"' + neutral(text).replace("\\", "\\\\").replace('"', '\\"') + '"'


def _attributes(step: AnyStep, flat: Flat, color: str, found: list[Finding]) -> str:
    words = words_of(step, flat.timeline)
    said = [f"{offset(step.at - flat.start)}  #{step.seq}", first_line(words.verb, 48)]
    if words.text:
        said.append(first_line(words.text, 48))
    said += [f"⚠ {one.detector}: {first_line(one.text, 60)}" for one in found]
    # Each line by itself, since the line end is the one escape that is meant.
    label = "\\n".join([quoted(line)[1:-1] for line in said])
    border = color
    if found:
        border = next(mark for kind, mark in _MARKS.items() if any(f.kind is kind for f in found))
    elif words.mood == "bad":
        border = _BAD
    tip = quoted("; ".join([*words.facts, words.text]) or words.verb)
    heavy = ", penwidth=2.5" if border != color else ""
    return f'label="{label}", color="{border}"{heavy}, tooltip={tip}'


def _edges(acts: list[Act], nodes: dict[EventId, str]) -> Iterator[str]:
    last_of: dict[int, str] = {}
    for step, turn in acts:
        node = nodes[step.id]
        before = None if turn is None else last_of.get(id(turn))
        cause = None if step.cause is None else nodes.get(step.cause)
        if turn is not None:
            last_of[id(turn)] = node
            if before is not None and step.cause == turn.mention:
                cause = before
        if cause is not None and cause != node:
            yield f"  {cause} -> {node};\n"
        if isinstance(step, SaidStep) and step.about in nodes:
            about = nodes[EventId(step.about)]
            if about not in (cause, node):
                yield f"  {about} -> {node} [style=dashed, constraint=false];\n"
