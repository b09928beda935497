"""The sequence diagram (Mermaid): who said what to whom, in the order of the log.

What viewers of Markdown draw is limited (50,000 characters of text), and so is what a person
reads: there is a bound on the messages, and a note that says what was left out.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from typing import Final

from threadbus.replay.finding import Finding
from threadbus.replay.forms.flat import Act, Flat
from threadbus.replay.forms.options import FormOptions
from threadbus.replay.story import (
    FailureStep,
    ModelStep,
    SaidStep,
    Timeline,
    ToolStep,
    Turn,
)
from threadbus.replay.text import duration, first_line, neutral, offset, plural
from threadbus.replay.words import thread_name, words_of
from threadbus.schemas import MAIN_THREAD, AgentName, EventId, ThreadId

MAX_MESSAGES: Final = 300
"""Messages and notes that are drawn."""

MAX_CHARS: Final = 45_000
"""Characters of the diagram; what viewers draw by default is 50,000."""

_MAX_TEXT: Final = 110
_LINE: Final = 44
# Beyond ASCII nothing means anything to the parser, but for the signs by which it marks entities.
_ODD: Final = re.compile(r"[^\w \-.,!?()'/+*=|\u00a0-\U0010ffff]|[ﬂ°¶ß]")
_END: Final = re.compile(r"\bend\b", re.IGNORECASE)
_BACK: Final = "-->>"
_LOST: Final = "--x"
_THERE: Final = "->>"
_ASYNC: Final = "-)"


def write(timeline: Timeline, options: FormOptions) -> Iterator[str]:
    """Write *timeline* as a Mermaid sequence diagram.

    Args:
        timeline: the run, or a part of it.
        options: what else is to know.
    """
    flat = Flat(timeline, options.selection)
    yield "sequenceDiagram\n"
    yield f"  title {safe(first_line(timeline.title, 100) or 'A run without its opening')}\n"
    names = _participants(flat)
    for name, key in names.items():
        kind = "actor" if timeline.is_outside(name) else "participant"
        yield f"  {kind} {key} as {safe(name)}\n"
    if names:
        yield from _Diagram(flat, names, options).lines()


def _participants(flat: Flat) -> dict[AgentName, str]:
    return {name: f"p{number}" for number, name in enumerate(flat.agents())}


def safe(text: str) -> str:
    """Return *text* as one piece that means nothing to the parser: entities for what would."""
    text = _ODD.sub(lambda found: f"#{ord(found[0])};", neutral(text))
    return _END.sub(lambda found: f"#{ord(found[0][0])};{found[0][1:]}", text) or "…"


def _lines(text: str, limit: int = _MAX_TEXT) -> str:
    """Return *text* in lines of a width that is read well."""
    wrapped = textwrap.wrap(first_line(text, limit), _LINE, break_long_words=True)
    return "<br/>".join([safe(line) for line in wrapped]) or "…"


class _Diagram:
    def __init__(self, flat: Flat, names: dict[AgentName, str], options: FormOptions) -> None:
        self._flat = flat
        self._timeline = flat.timeline
        self._names = names
        self._options = options
        self._authors: dict[EventId, AgentName] = {}
        self._calls: dict[AgentName, list[str]] = {}
        self._active: dict[int, AgentName] = {}
        self._thread: ThreadId = MAIN_THREAD
        everyone = list(names.values())
        self._everyone = everyone[0] if len(everyone) == 1 else f"{everyone[0]},{everyone[-1]}"

    def lines(self) -> Iterator[str]:
        """Write what happened, act by act, up to the bounds."""
        ends = {id(act.turn): number for number, act in enumerate(self._flat.acts) if act.turn}
        findings = self._flat.findings_by_seq()
        written = chars = 0
        for number, act in enumerate(self._flat.acts):
            block = [*self._enter(act.step.thread), *self._act(act)]
            block += [self._finding(one, act) for one in findings.get(act.step.seq, ())]
            if act.turn is not None and ends[id(act.turn)] == number:
                block += self._leave(act.turn)
            written += sum(":" in line for line in block)
            chars += sum(len(line) for line in block)
            yield from block
            if written >= MAX_MESSAGES or chars >= MAX_CHARS:
                left = len(self._flat.acts) - number - 1
                yield from self._close()
                if left:
                    yield self._left_out(left)
                return
        for agent in self._names:
            yield from self._told(agent)
        yield from self._close()

    def _close(self) -> Iterator[str]:
        """End what is open: everything that was begun must have its end."""
        for agent in self._active.values():
            yield f"  deactivate {self._names[agent]}\n"
        self._active.clear()
        if self._thread != MAIN_THREAD:
            yield "  end\n"

    def _left_out(self, left: int) -> str:
        page = self._options.command(self._timeline, "html")
        text = (
            f"{plural(left, 'later step')} left out so that the diagram can be drawn. "
            f"--thread or --agent choose a part; all of it is in: {page}"
        )
        return f"  Note over {self._everyone}: {_lines(text, 400)}\n"

    def _enter(self, thread: ThreadId) -> Iterator[str]:
        """Begin or end the box around what was said in a thread beside the main one."""
        if thread == self._thread:
            return
        if self._thread != MAIN_THREAD:
            yield "  end\n"
        self._thread = thread
        if thread != MAIN_THREAD:
            yield "  rect rgba(128, 128, 192, 0.12)\n"
            title = _lines(f"thread: {thread_name(self._timeline, thread)}")
            yield f"  Note over {self._everyone}: {title}\n"

    def _leave(self, turn: Turn) -> Iterator[str]:
        yield from self._told(turn.agent)
        if self._active.pop(id(turn), None) is not None:
            yield f"  deactivate {self._names[turn.agent]}\n"

    def _act(self, act: Act) -> Iterator[str]:
        step, turn = act
        self._authors[step.id] = step.agent
        if turn is not None and id(turn) not in self._active:
            self._active[id(turn)] = turn.agent
            yield f"  activate {self._names[turn.agent]}\n"
        match step:
            case ModelStep() if step.error is None:
                name = "playbook" if step.is_playbook else f"model {step.model}"
                self._call(step.agent, f"{name}, {duration(step.duration_ns)}")
            case ToolStep() if step.returned and step.error is None:
                self._call(step.agent, f"tool {step.tool}, {duration(step.duration_ns or 0)}")
            case ModelStep() | ToolStep() | FailureStep():
                yield from self._told(step.agent)
                words = words_of(step, self._timeline)
                mark = "⚠" if words.mood == "warn" else "✗"
                text = f"{words.verb}: {words.text}" if words.text else words.verb
                yield self._note(step.agent, f"{mark} {text}")
            case SaidStep():
                yield from self._told(step.agent)
                yield from self._said(step, turn)

    def _call(self, agent: AgentName, text: str) -> None:
        self._calls.setdefault(agent, []).append(text)

    def _told(self, agent: AgentName) -> Iterator[str]:
        """Tell in one note what the agent called since it last spoke."""
        calls = self._calls.pop(agent, [])
        if calls:
            shown = "; ".join(calls[:3])
            more = f"; and {plural(len(calls) - 3, 'more call')}" if len(calls) > 3 else ""
            yield self._note(agent, f"{shown}{more}")

    def _note(self, agent: AgentName, text: str) -> str:
        return f"  Note over {self._names[agent]}: {_lines(text)}\n"

    def _finding(self, finding: Finding, act: Act) -> str:
        place = self._names.get(finding.agent or act.step.agent, self._everyone)
        text = _lines(f"⚠ {finding.kind.value} {finding.detector}: {finding.text}", 200)
        return f"  Note over {place}: {text}\n"

    def _said(self, step: SaidStep, turn: Turn | None) -> Iterator[str]:
        arrow, receivers = self._direction(step, turn)
        words = words_of(step, self._timeline)
        time = offset(step.at - self._flat.start)
        if not receivers:
            text = f"{words.verb}: {words.text}" if words.text else words.verb
            place = self._everyone if step.type == "task.closed" else self._names[step.agent]
            limit = 300 if step.type.startswith("plan.") else _MAX_TEXT
            yield f"  Note over {place}: {_lines(f'{time} {text}', limit)}\n"
            return
        said = words.text or words.verb
        if step.type not in ("message.posted", "task.opened", "assignment.finished"):
            said = f"{words.verb}: {words.text}" if words.text else words.verb
        for receiver in receivers:
            sender, to = self._names[step.agent], self._names[receiver]
            yield f"  {sender}{arrow}{to}: {_lines(f'{time} {said}')}\n"

    def _direction(self, step: SaidStep, turn: Turn | None) -> tuple[str, list[AgentName]]:
        """Return the arrow and to whom it points; nobody for what is said to everyone."""
        timeline = self._timeline
        back: AgentName | None = None
        arrow = _BACK
        to = list(step.to)
        match step.type:
            case "assignment.made":
                arrow = _ASYNC if step.verdict == "async" else _THERE
                to = [AgentName(step.about)]
            case "assignment.accepted" | "assignment.progressed" | "assignment.finished":
                back = self._assigner(step)
            case "assignment.failed":
                arrow, back = _LOST, self._assigner(step)
            case "assignment.cancelled":
                work = timeline.assignments.get(EventId(step.about))
                arrow, back = _THERE, work.assignee if work else None
            case "proposal.made":
                arrow, to = _THERE, [AgentName(name) for name in step.items]
            case "vote.cast":
                proposal = timeline.proposals.get(EventId(step.about))
                back = proposal.made_by if proposal else None
            case "critique.given":
                back = self._authors.get(EventId(step.about))
            case "task.input_requested" | "answer.submitted":
                back = timeline.opened_by
            case "task.input_given":
                request = timeline.requests.get(EventId(step.about))
                back = request.asked_by if request else None
            case "message.posted":
                arrow = _BACK if step.is_reply else _THERE
                if step.is_reply and not to and turn is not None:
                    back = turn.woken_by
            case "task.opened":
                arrow = _THERE
            case _:
                to = []
        if back is not None:
            to = [back]
        return arrow, [name for name in to if name in self._names]

    def _assigner(self, step: SaidStep) -> AgentName | None:
        work = self._timeline.assignments.get(EventId(step.about))
        return work.made_by if work else None
