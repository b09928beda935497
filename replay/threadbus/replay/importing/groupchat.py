"""Group chats: Who&When (AG2 and Magentic-One) and AgentRx's Magentic-One runs.

``{"question": …, "question_ID": …, "history": [{"content": …, "role": …, "name": …}]}``. Labels
(``mistake_…``, ``ground_truth``, ``is_correct``) are never looked at.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from threadbus.replay.importing.building import RunBuilder, said
from threadbus.replay.importing.shape import Json, record, records, text, word
from threadbus.schemas import (
    DataPart,
    ErrorInfo,
    MessagePosted,
    Part,
    PlanProposed,
    PlanRevised,
    PlanStep,
    TaskClosed,
    TaskStatus,
    TextPart,
    ToolCalled,
    ToolReturned,
    clean_text,
)

_ROLE: Final = re.compile(r"(?P<name>.*?)\s*\((?P<note>[^()]*)\)\s*", re.DOTALL)
_EXIT: Final = re.compile(r"\s*exitcode:\s*(?P<code>-?\d+)", re.IGNORECASE)
_NO_CODE: Final = re.compile(r"\s*(there is no code|no code (was )?found)", re.IGNORECASE)
_CODE: Final = re.compile(r"```[\w+-]*\n(.*?)```", re.DOTALL)
_PLAN: Final = re.compile(
    r"(initial plan|new plan|updated plan|revised plan|here is the plan|"
    r"plan to follow as best as possible)",
    re.IGNORECASE,
)
_BULLET: Final = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s+(.+)$", re.MULTILINE)
_END: Final = re.compile(r"TERMINATE\W*\Z")
_TERMINALS: Final = frozenset(
    {"computer_terminal", "computerterminal", "executor", "code_executor"}
)
_PEOPLE: Final = frozenset({"human", "user", "user_proxy"})
_MAX_CODE_CHARS: Final = 20_000
_MAX_STEPS: Final = 64


def is_group_chat(document: Json) -> bool:
    """Whether a document is a run of this kind."""
    history = records(document.get("history"))
    return bool(history) and all("content" in one for one in history[:3])


def tell(builder: RunBuilder, document: Json) -> None:
    """Put a run into *builder*."""
    history = records(document.get("history"))
    question = text(document.get("question"))
    if not question and history:
        question = text(history[0].get("content"))
    _Teller(builder).tell(history, question)


class _Teller:
    def __init__(self, builder: RunBuilder) -> None:
        self._builder = builder
        self._last = 1
        self._author = ""
        self._code: list[str] = []
        self._asked: dict[str, tuple[int, str]] = {}
        self._woken: dict[str, int] = {}
        self._at_work: dict[str, int] = {}
        self._plan = 0

    def tell(self, history: list[Json], question: str) -> None:
        actors = [_actor(message) for message in history]
        # Some say whom they ask; elsewhere it is whoever speaks next.
        is_told = any(note.startswith("->") for _, note in actors)
        speakers = [
            index for index, (name, _) in enumerate(actors) if name.lower() not in _TERMINALS
        ]
        names = [actors[index][0] for index in speakers]
        first = next((name for name in names if name.lower() not in _PEOPLE), "")
        self._builder.open(question, question, "user", [first] if first else [])
        self._woken[first] = 1
        for index, message in enumerate(history):
            self._builder.step()
            following = next((at for at in speakers if at > index), None)
            then = "" if following is None or is_told else actors[following][0]
            self._message(message, then, is_last=index == len(history) - 1)
        self._end_turns("")

    def _message(self, message: Json, then: str, *, is_last: bool) -> None:
        name, note = _actor(message)
        content = text(message.get("content"))
        if name.lower() not in _TERMINALS:
            self._end_turns(name)
            self._builder.restart_step()
            if name in self._woken:
                self._at_work[name] = self._woken[name]
        if name.lower() in _TERMINALS:
            self._terminal(name, content)
        elif note == "termination condition":
            self._last = self._builder.add(name, _closed(content), cause=self._last)
        elif note == "thought":
            self._thought(name, content)
        elif note.startswith("->"):
            asked = note.removeprefix("->").strip()
            self._say(name, content, (asked,))
            self._asked[asked] = (self._last, name)
        elif name in self._asked:
            _, asker = self._asked.pop(name)
            self._say(name, content, (asker,))
        else:
            self._say(name, content, (then,) if then not in {"", name} else ())
        if is_last and _END.search(content):
            self._builder.add(
                name,
                TaskClosed(outcome=TaskStatus.COMPLETED, summary="TERMINATE"),
                cause=self._last,
            )

    def _end_turns(self, speaker: str) -> None:
        """Whoever was woken and has spoken is done once somebody else speaks."""
        for name in [name for name in self._at_work if name != speaker]:
            self._builder.end_turn(name, self._at_work.pop(name))

    def _cause(self, name: str) -> int:
        """Return what *name* answers: what woke it last, or what was said last."""
        return self._woken.get(name, self._last)

    def _say(self, name: str, content: str, to: tuple[str, ...]) -> None:
        posted = MessagePosted(parts=said(content))
        self._last = self._builder.add(name, posted, cause=self._cause(name), to=to)
        for woken in to:
            self._woken[woken] = self._last
        if name.lower() not in _PEOPLE:
            self._author = name
            self._code = _CODE.findall(content)

    def _thought(self, name: str, content: str) -> None:
        """A plan is a plan; a ledger is data beside its words."""
        steps = _steps(content)
        if steps:
            data: PlanProposed | PlanRevised = PlanProposed(steps=steps, reasons=())
            if self._plan:
                data = PlanRevised(replaces="0" * 31 + "1", steps=steps)
            self._plan = self._last = self._builder.add(
                name, data, cause=self._cause(name), replaces=self._plan
            )
            return
        ledger = _ledger(content)
        parts: tuple[Part, ...] = said(content)
        if ledger:
            parts = (TextPart(_progress(ledger)), DataPart(ledger, name="ledger"))
        posted = MessagePosted(parts=parts)
        self._last = self._builder.add(name, posted, cause=self._cause(name))

    def _terminal(self, name: str, content: str) -> None:
        """What a terminal says is the return of the code that somebody has just sent."""
        author = self._author or name
        call_id = f"call-{self._builder.number()}"
        code = clean_text("\n\n".join(self._code), _MAX_CODE_CHARS)
        arguments = {"code": code} if code else None
        called = ToolCalled(call_id=call_id, tool=name[:256], arguments=arguments)
        cause = self._cause(author)
        self._builder.add(author, called, cause=cause)
        failed = _EXIT.match(content)
        error = None
        if failed is not None and int(failed["code"][:9]) != 0:
            error = ErrorInfo(f"exitcode {failed['code'][:9]}", clean_text(content, 16_000))
        elif _NO_CODE.match(content):
            error = ErrorInfo("no code", clean_text(content, 16_000))
        self._builder.restart_step()
        self._last = self._builder.add(
            author,
            ToolReturned(
                call_id=call_id, tool=name[:256], duration_ns=0, parts=said(content), error=error
            ),
            cause=cause,
        )
        self._code = []


def _actor(message: Json) -> tuple[str, str]:
    """Return who speaks, and what stands in brackets behind the name."""
    name = word(message, "name") or word(message, "role") or "unknown"
    match = _ROLE.fullmatch(name)
    if match is None or not match["name"]:
        return name, ""
    note = match["note"].strip()
    return match["name"], note if note.startswith("->") else note.lower()


def _closed(content: str) -> TaskClosed:
    return TaskClosed(outcome=TaskStatus.FAILED, summary=clean_text(content, 16_000))


def _steps(content: str) -> tuple[PlanStep, ...]:
    match = _PLAN.search(content)
    if match is None:
        return ()
    lines = _BULLET.findall(content[match.end() :])[:_MAX_STEPS]
    return tuple(PlanStep(clean_text(line.strip(), 400)) for line in lines)


def _ledger(content: str) -> dict[str, object]:
    start, end = content.find("{"), content.rfind("}")
    if start < 0 or end < start or end - start > 100_000:
        return {}
    try:
        found = record(msgspec.json.decode(content[start : end + 1]))
    except (msgspec.DecodeError, RecursionError):
        return {}
    known = {"is_request_satisfied", "is_in_loop", "is_progress_being_made", "next_speaker"}
    return dict(found) if known & set(found) else {}


def _progress(ledger: dict[str, object]) -> str:
    said_of: list[str] = []
    for key, value in ledger.items():
        answer = record(value).get("answer")
        if isinstance(answer, str | bool):
            said_of.append(f"{key.replace('_', ' ')}: {clean_text(str(answer), 400)}")
    return "; ".join(said_of) or "ledger"
