"""Every bound: what is just inside travels, what is just over is refused with the numbers."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final, cast

import msgspec.inspect as mi
import pytest

from threadbus.schemas import (
    DATA_TYPES,
    MAIN_THREAD,
    MAX_LABELS,
    MAX_MENTIONS,
    MAX_NOTE_CHARS,
    MAX_PARTICIPANTS,
    MAX_PARTS,
    MAX_PLAN_STEPS,
    MAX_REASONS,
    MAX_SOURCES,
    MAX_TITLE_CHARS,
    MAX_WORD_CHARS,
    AgentName,
    AnswerSubmitted,
    AnyData,
    AssignmentMade,
    AssignmentProgressed,
    CritiqueGiven,
    CritiqueVerdict,
    DataPart,
    ErrorInfo,
    Event,
    EventId,
    FilePart,
    HandlingFailed,
    HandlingStarted,
    InvalidIdError,
    InvalidNameError,
    LimitExceededError,
    MalformedEventError,
    MentionStored,
    MessagePosted,
    ModelCalled,
    Part,
    PlanProposed,
    PlanStep,
    ProposalMade,
    ReferencePart,
    SchemaError,
    TaskId,
    TaskOpened,
    TextPart,
    ThreadClosed,
    ThreadOpened,
    ToolCalled,
    VoteCast,
    VoteVerdict,
    decode_event,
    encode_event,
    make_event,
)

ID: Final = "0199b2f04c107a31b2c3d4e5f6072a01"
CRITIQUE = CritiqueVerdict.ACCEPT
NAMES = tuple(f"agent-{number}" for number in range(MAX_PARTICIPANTS + 1))


def event(data: AnyData) -> Event:
    """Wrap *data* in an envelope."""
    return make_event(
        data, task=TaskId(ID), thread=MAIN_THREAD, sender=AgentName("a"), event_id=EventId(ID), at=1
    )


def posted(part: Part) -> MessagePosted:
    """Post one part."""
    return MessagePosted(parts=(part,))


def labels(count: int) -> TaskOpened:
    """Open a task with *count* labels."""
    return TaskOpened(title="", labels={str(number): "" for number in range(count)})


LIMITS: Final[dict[str, tuple[int, Callable[[int], AnyData], str, str]]] = {
    "parts": (
        MAX_PARTS,
        lambda n: MessagePosted(parts=(TextPart(""),) * n),
        "entries of message.posted.data.parts",
        "send several events",
    ),
    "title": (
        MAX_TITLE_CHARS,
        lambda n: TaskOpened(title="ü" * n),
        "characters of task.opened.data.title",
        "put it in a part",
    ),
    "participants": (
        MAX_PARTICIPANTS,
        lambda n: ThreadOpened(title="", participants=NAMES[:n]),
        "entries of thread.opened.data.participants",
        "add the others afterwards",
    ),
    "voters": (
        MAX_PARTICIPANTS,
        lambda n: ProposalMade(parts=(), voters=NAMES[:n]),
        "entries of proposal.made.data.voters",
        "let fewer vote",
    ),
    "stored mentions": (
        MAX_MENTIONS,
        lambda n: MentionStored(agents=NAMES[:n]),
        "entries of mention.stored.data.agents",
        "one event mentions no more",
    ),
    "labels": (MAX_LABELS, labels, "entries of task.opened.data.labels", "set fewer"),
    "label key": (
        MAX_WORD_CHARS,
        lambda n: TaskOpened(title="", labels={"k" * n: ""}),
        "characters of a key of task.opened.data.labels",
        "shorten it",
    ),
    "label value": (
        MAX_WORD_CHARS,
        lambda n: TaskOpened(title="", labels={"tenant id": "v" * n}),
        "characters of task.opened.data.labels['tenant id']",
        "shorten it",
    ),
    "plan steps": (
        MAX_PLAN_STEPS,
        lambda n: PlanProposed(steps=(PlanStep("x"),) * n),
        "entries of plan.proposed.data.steps",
        "plan coarser",
    ),
    "step detail": (
        MAX_NOTE_CHARS,
        lambda n: PlanProposed(steps=(PlanStep("x"), PlanStep("y", detail="d" * n))),
        "characters of plan.proposed.data.steps[1].detail",
        "put it in a part",
    ),
    "reasons": (
        MAX_REASONS,
        lambda n: CritiqueGiven(of=ID, verdict=CRITIQUE, reasons=("x",) * n),
        "entries of critique.given.data.reasons",
        "join some",
    ),
    "one reason": (
        MAX_NOTE_CHARS,
        lambda n: CritiqueGiven(of=ID, verdict=CRITIQUE, reasons=("", "x" * n)),
        "characters of critique.given.data.reasons[1]",
        "put it in a part",
    ),
    "sources": (
        MAX_SOURCES,
        lambda n: AnswerSubmitted(parts=(), sources=(ID,) * n),
        "entries of answer.submitted.data.sources",
        "matter most",
    ),
    "summary": (
        MAX_NOTE_CHARS,
        lambda n: ThreadClosed(summary="🚀" * n),
        "characters of thread.closed.data.summary",
        "put it in a part",
    ),
    "error message": (
        MAX_NOTE_CHARS,
        lambda n: HandlingFailed(error=ErrorInfo("E", "x" * n)),
        "characters of handling.failed.data.error.message",
        "put it in a part",
    ),
    "file name": (
        MAX_WORD_CHARS,
        lambda n: posted(FilePart(b"", name="n" * n)),
        "characters of message.posted.data.parts[0].name",
        "shorten it",
    ),
    "media type": (
        MAX_WORD_CHARS,
        lambda n: posted(TextPart("", media_type="t" * n)),
        "characters of message.posted.data.parts[0].media_type",
        "shorten it",
    ),
    "model": (
        MAX_WORD_CHARS,
        lambda n: ModelCalled(model="m" * n, started_at=0, duration_ns=0),
        "characters of model.called.data.model",
        "shorten it",
    ),
    "call id": (
        MAX_WORD_CHARS,
        lambda n: ToolCalled(call_id="c" * n, tool=""),
        "characters of tool.called.data.call_id",
        "shorten it",
    ),
    "token budget": (
        2**63 - 1,
        lambda n: TaskOpened(title="", token_budget=n),
        "task.opened.data.token_budget",
        "make it smaller",
    ),
    "size": (
        2**63 - 1,
        lambda n: posted(ReferencePart("0" * 64, n)),
        "message.posted.data.parts[0].size",
        "make it smaller",
    ),
}


@pytest.mark.parametrize(("limit", "make", "what", "way_out"), LIMITS.values(), ids=LIMITS)
def test_a_limit_is_inclusive_and_one_more_is_refused(
    limit: int, make: Callable[[int], AnyData], what: str, way_out: str
) -> None:
    """The error names the field, how much there is, how much there may be, and what to do."""
    inside, over = event(make(limit)), event(make(limit + 1))

    assert decode_event(encode_event(inside)) == inside
    with pytest.raises(LimitExceededError) as caught:
        encode_event(over)
    assert (caught.value.what, caught.value.value, caught.value.limit) == (what, limit + 1, limit)
    assert way_out in caught.value.way_out
    for words in (what, f"{limit + 1:,}", f"{limit:,}", way_out):
        assert words in str(caught.value)


@pytest.mark.parametrize("make", [make for _, make, _, _ in LIMITS.values()], ids=LIMITS)
def test_a_limit_holds_for_foreign_bodies_too(make: Callable[[int], AnyData]) -> None:
    """What another program sends over a limit is refused with the same error."""
    limit = next(limit for limit, maker, _, _ in LIMITS.values() if maker is make)
    inside = json.loads(encode_event(event(make(limit))))
    grown = json.dumps(inside | {"data": grow(inside["data"], limit)})

    with pytest.raises(LimitExceededError, match=f"{limit + 1:,} is over the limit of {limit:,}"):
        decode_event(grown.encode())


def grow(node: object, limit: int) -> object:
    """Return *node* with each text, list, dictionary and number of size *limit* one greater."""
    if isinstance(node, dict):
        members = cast("dict[str, object]", node)
        grown = {cast("str", grow(key, limit)): grow(item, limit) for key, item in members.items()}
        return {**grown, "one more": ""} if len(members) == limit else grown
    if isinstance(node, list):
        items = cast("list[object]", node)
        if len(items) == limit:
            return [*items, "x" * 32 if isinstance(items[0], str) else items[0]]
        return [grow(item, limit) for item in items]
    if isinstance(node, str):
        return node + node[0] if len(node) == limit else node
    return limit + 1 if node == limit else node


@pytest.mark.parametrize(
    ("data", "kind", "words"),
    [
        (TaskOpened(title="", token_budget=0), MalformedEventError, "is 0; it must be at least 1"),
        (TaskOpened(title="", deadline_at=-5), MalformedEventError, "deadline_at is -5; it must"),
        (HandlingStarted(attempt=0), MalformedEventError, "attempt is 0; it must be at least 1"),
        (AssignmentProgressed(assignment=ID, fraction=1.5), MalformedEventError, "at most 1"),
        (AssignmentProgressed(assignment=ID, fraction=-0.1), MalformedEventError, "at least 0"),
        (AssignmentProgressed(assignment=ID, fraction=float("nan")), SchemaError, "is nan"),
        (
            AssignmentMade(assignee="Web Agent", parts=()),
            InvalidNameError,
            "'web-agent-7d90d02c6d'",
        ),
        (AssignmentMade(assignee="", parts=()), InvalidNameError, "assignment.made.data.assignee"),
        (PlanProposed(steps=(PlanStep("", "Bob"),)), InvalidNameError, "steps[0].assignee 'Bob'"),
        (ThreadOpened(title="", participants=("a", "b.c")), InvalidNameError, "participants[1]"),
        (ThreadOpened(title="", parent="main\n"), InvalidNameError, "thread.opened.data.parent"),
        (VoteCast(proposal="x", verdict=VoteVerdict.APPROVE), InvalidIdError, "proposal 'x'"),
        (VoteCast(proposal=f"{ID}\n", verdict=VoteVerdict.APPROVE), InvalidIdError, "would do"),
        (AnswerSubmitted(parts=(), sources=(ID, ID.upper())), InvalidIdError, "sources[1]"),
        (
            ProposalMade(parts=(), voters=()),
            MalformedEventError,
            "length >= 1 - at `$.data.voters`",
        ),
        (posted(ReferencePart("A" * 64, 1)), MalformedEventError, "`$.data.parts[0].sha256`"),
        (
            posted(ReferencePart("0" * 64 + "\n", 1)),
            MalformedEventError,
            "`$.data.parts[0].sha256`",
        ),
        (
            posted(ReferencePart("0" * 64, -1)),
            MalformedEventError,
            "size is -1; it must be at least",
        ),
        (
            posted(ReferencePart("0" * 64, 1, of="video")),
            MalformedEventError,
            "`$.data.parts[0].of`",
        ),
        (posted(DataPart(1, media_type=cast("str", 5))), MalformedEventError, "`$.data.parts[0]"),
    ],
    ids=lambda value: ascii(value)[:70],
)
def test_what_a_type_does_not_allow_is_refused(
    data: AnyData, kind: type[SchemaError], words: str
) -> None:
    """The error names the field and the value, and a name or an id that would do."""
    with pytest.raises(kind) as caught:
        encode_event(event(data))

    assert words in str(caught.value)


def test_nothing_in_an_event_is_unbounded_but_the_parts() -> None:
    """Every text, list and number has a bound; the content of parts has the server's."""
    open_fields = {
        path for kind in DATA_TYPES.values() for path in unbounded(mi.type_info(kind), kind.TYPE)
    }

    assert {path.rpartition(".")[2] for path in open_fields} == {"text", "content", "data"} | {
        "arguments"
    }


def unbounded(kind: mi.Type, path: str) -> set[str]:
    """Return the paths of what may be of any size."""
    match kind:
        case mi.Metadata():
            return unbounded(kind.type, path)
        case mi.StructType():
            inner = [(field.type, f"{path}.{field.name}") for field in kind.fields]
        case mi.UnionType():
            inner = [(option, path) for option in kind.types]
        case mi.VarTupleType() if kind.max_length is not None:
            inner = [(kind.item_type, path)]
        case mi.DictType() if kind.max_length is not None:
            inner = [(kind.key_type, path), (kind.value_type, path)]
        case mi.StrType():
            return set() if kind.max_length is not None or kind.pattern is not None else {path}
        case mi.IntType() | mi.FloatType():
            return set() if kind.ge is not None and kind.le is not None else {path}
        case mi.BoolType() | mi.NoneType() | mi.EnumType():
            return set()
        case _:
            return {path}
    return {found for item, where in inner for found in unbounded(item, where)}
