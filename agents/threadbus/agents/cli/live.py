"""The live view of a super-task: who says what to whom, as it happens.

One line of columns for each event: when, who, what; long text is wrapped under itself and cut.
On a terminal the last lines say what each agent is doing now, and show the model's words as they
come. Piped, there are no control codes and no last lines. Everything that an event holds is made
harmless before it is printed.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from threadbus.agents.cli.describe import PLAYBOOK, Line, describe
from threadbus.agents.cli.text import duration, neutral, one_line, plural
from threadbus.bus import TaskState
from threadbus.schemas import (
    MAIN_THREAD,
    AgentName,
    AssignmentProgressed,
    Event,
    EventClass,
    EventId,
    HandlingEnded,
    ModelCalled,
    Recorded,
    Rejected,
    ToolCalled,
    ToolReturned,
)

_COLORS: Final = ("cyan", "magenta", "blue", "yellow", "green", "bright_red", "bright_cyan")
_BODY_LINES: Final = 8
_BODY_CHARS: Final = 4_000
_WHO_CELLS: Final = 12
_TIME_CELLS: Final = 7
_DELTA_CHARS: Final = 400
_EFFECTS: Final = frozenset({EventClass.CTL, EventClass.MSG, EventClass.WORK})


class _Live(msgspec.Struct):
    """What agents send to watchers."""

    kind: str = ""
    text: str = ""
    note: str = ""


class LiveView:
    """Shows one super-task on one console; a context, so that the last lines go away at the end."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._ascii = not (console.encoding or "").lower().startswith("utf")
        self._colors: dict[str, str] = {}
        self._senders: dict[EventId, AgentName] = {}
        self._opened_at = 0
        self._doing: dict[str, str] = {}
        self._written: dict[str, str] = {}
        self._calls: dict[AgentName, tuple[Recorded, Line]] = {}
        self._seen_calls: set[tuple[AgentName, str]] = set()
        self._live: Live | None = None
        self.model_calls = 0
        self.used_model = False

    def __enter__(self) -> LiveView:
        if self._console.is_terminal and not self._console.is_dumb_terminal:
            self._live = Live(
                get_renderable=self._now,
                console=self._console,
                transient=True,
                refresh_per_second=10,
                redirect_stdout=False,
                redirect_stderr=False,
                vertical_overflow="crop",
            )
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        for sender in list(self._calls):
            self._flush(sender)
        self.pause()

    def pause(self) -> None:
        """Take the last lines away, for a prompt or at the end."""
        if self._live is not None:
            self._live.stop()

    def resume(self) -> None:
        """Show the last lines again."""
        if self._live is not None and not self._live.is_started:
            self._live.start()

    def show(self, recorded: Recorded, *, counts: bool = True) -> None:
        """Show one event.

        Args:
            recorded: the event.
            counts: whether its sender takes part; a stranger's word is shown as such.
        """
        event = recorded.event
        self._senders[event.id] = event.sender
        if not self._opened_at:
            self._opened_at = recorded.stored_at
        self._note_work(event)
        asked_by = self._senders.get(event.cause, "") if event.cause is not None else ""
        line = describe(event, asked_by if asked_by != event.sender else "")
        if line is None or self._is_seen_otherwise(recorded, line):
            return
        if not counts:
            line = Line(f"(from outside, does not count) {line.head}", line.body, "dim")
        self._print(recorded, line)

    def show_rejected(self, rejected: Rejected) -> None:
        """Show that some bytes of the log are no event."""
        self._columns("", Text("not an event", "red"), Text(neutral(rejected.reason), "red"))

    def on_live(self, sender: AgentName, value: Any) -> None:
        """Take what an agent sends to watchers: the words of its model, its progress."""
        try:
            said = msgspec.convert(value, _Live)
        except msgspec.ValidationError:
            # Anybody may send anything here; it is for watchers only.
            return
        if said.kind == "delta":
            self._written[sender] = (self._written.get(sender, "") + said.text)[-_DELTA_CHARS:]
        elif said.kind == "progress":
            self._doing[sender] = said.note[:_DELTA_CHARS]

    def end(self, state: TaskState) -> None:
        """Say how it ended, in one line."""
        took = duration(max(0, state.closed_at - state.opened_at))
        parts = [f"{state.status} in {took}", plural(state.events, "event")]
        if self.model_calls:
            if self.used_model:
                parts.append(plural(self.model_calls, "model call"))
            else:
                parts.append(f"{plural(self.model_calls, 'playbook answer')}, no model")
            parts.append(plural(state.tokens_used, "token"))
        self.pause()
        self._console.print(Text(f" {self._symbol('·')} ".join(parts), "dim"))

    def _is_seen_otherwise(self, recorded: Recorded, line: Line) -> bool:
        """Whether this is a tool call that needs no line, as what the tool did has one.

        The line of a call waits for what its agent does next: an event of its own, such as the
        work that the tool gives out, says the same and more.
        """
        event = recorded.event
        if isinstance(event.data, ToolCalled):
            self._flush(event.sender)
            self._calls[event.sender] = (recorded, line)
            return True
        is_effect = event.event_class in _EFFECTS
        if is_effect and not isinstance(event.data, AssignmentProgressed):
            call = self._calls.pop(event.sender, None)
            if call is not None and isinstance(call[0].event.data, ToolCalled):
                self._seen_calls.add((event.sender, call[0].event.data.call_id))
            return False
        self._flush(event.sender)
        data = event.data
        if isinstance(data, ToolReturned) and data.error is None:
            return (event.sender, data.call_id) in self._seen_calls
        return False

    def _flush(self, sender: AgentName) -> None:
        call = self._calls.pop(sender, None)
        if call is not None:
            self._print(*call)

    def _note_work(self, event: Event) -> None:
        data = event.data
        if isinstance(data, ModelCalled):
            self.model_calls += 1
            self._written.pop(event.sender, None)
            self.used_model = self.used_model or data.system != PLAYBOOK
        elif isinstance(data, HandlingEnded):
            self._doing.pop(event.sender, None)
            self._written.pop(event.sender, None)

    def _print(self, recorded: Recorded, line: Line) -> None:
        event = recorded.event
        what = Text()
        names = [str(name) for name in event.mentions if name != event.sender]
        names = names or ([line.to] if line.to else [])
        if event.thread != MAIN_THREAD:
            what.append(f"[{event.thread}] ", "dim")
        what.append(neutral(line.head), line.style)
        for index, name in enumerate(names):
            what.append(", " if index else f" {self._symbol('→')} ", "bold")
            what.append(name, self._color(name))
        what.append(neutral(line.tail), line.style)
        body = self._body(line)
        if body:
            what.append("\n")
            what.append(body, "dim" if line.style == "dim" else "")
        since = max(0, recorded.stored_at - self._opened_at) / 1e9
        is_dim = line.style == "dim"
        who = Text(event.sender, f"{'' if is_dim else 'bold '}{self._color(event.sender)}")
        self._columns(f"{since:.1f}s", who, what, one=is_dim)

    def _body(self, line: Line) -> str:
        text = line.body.strip()
        cut = text[:_BODY_CHARS]
        lines = [neutral(each.rstrip()) for each in cut.splitlines()]
        lines = [each for each in lines if each]
        if len(lines) > _BODY_LINES or len(text) > len(cut):
            more = len(text) - sum(len(each) for each in lines[:_BODY_LINES])
            lines = [*lines[:_BODY_LINES], f"{self._symbol('…')} {more:,} more characters"]
        return "\n".join(lines)

    def _columns(self, when: str, who: Text, what: Text, *, one: bool = False) -> None:
        """Print under each other what does not fit; only the beginning where *one* line will do."""
        left = _TIME_CELLS + _WHO_CELLS + 3
        width = max(8, self._console.width - left)
        if who.cell_len > _WHO_CELLS:
            who.truncate(_WHO_CELLS, overflow="crop" if self._ascii else "ellipsis")
        who.pad_right(_WHO_CELLS - who.cell_len)
        if one:
            what.truncate(width, overflow="crop" if self._ascii else "ellipsis")
        lines = [what] if one else what.wrap(self._console, width, overflow="fold")
        for number, line in enumerate(lines):
            line.rstrip()
            start = (
                Text.assemble((f"{when:>{_TIME_CELLS}}", "dim"), "  ", who, " ")
                if number == 0
                else Text(" " * left)
            )
            self._console.print(Text.assemble(start, line), soft_wrap=True)

    def _now(self) -> RenderableType:
        rows: list[Text] = []
        width = self._console.width - 1
        for name in sorted({*self._doing, *self._written}):
            written = self._written.get(name, "")
            text = one_line(written[-width:], width) if written else self._doing[name]
            row = Text.assemble((f"{'':>{_TIME_CELLS}}  "), (f"{name} ", self._color(name)))
            row.append(self._symbol("…") + " " if written else "", "dim")
            row.append(neutral(text), "dim italic")
            row.truncate(width, overflow="ellipsis")
            rows.append(row)
        return Group(*rows[:8])

    def _color(self, name: str) -> str:
        return self._colors.setdefault(name, _COLORS[len(self._colors) % len(_COLORS)])

    def _symbol(self, character: str) -> str:
        return {"→": "->", "…": "...", "·": "-"}.get(character, "?") if self._ascii else character
