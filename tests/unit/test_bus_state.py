"""What threads and tasks are: pure folds, whatever comes in whatever order twice."""

import random
from collections.abc import Sequence

import pytest

from threadbus.bus import TaskState, fold_task
from threadbus.schemas import (
    MAIN_THREAD,
    AgentName,
    AnswerSubmitted,
    AnyData,
    ArtifactAdded,
    ConversationState,
    EventId,
    InputGiven,
    InputRequested,
    MessagePosted,
    ModelCalled,
    ParticipantAdded,
    ParticipantRemoved,
    Recorded,
    TaskClosed,
    TaskOpened,
    TaskStatus,
    TaskStatusChanged,
    TextPart,
    ThreadClosed,
    ThreadId,
    ThreadOpened,
    ThreadOutcome,
    ThreadStateChanged,
    make_event,
    new_event_id,
    new_task_id,
)

TASK = new_task_id()
SIDE = ThreadId("side")
PART = (TextPart("x"),)
USED = ModelCalled(model="m", started_at=1, duration_ns=1, input_tokens=10, output_tokens=5)


class Script:
    """Events of one task, one after the other."""

    def __init__(self) -> None:
        self.items: list[Recorded] = []

    def say(
        self,
        sender: str,
        data: AnyData,
        *,
        thread: ThreadId = MAIN_THREAD,
        event_id: EventId | None = None,
        mentions: Sequence[str] = (),
    ) -> EventId:
        """Add an event and return its id."""
        event = make_event(
            data,
            task=TASK,
            thread=thread,
            sender=AgentName(sender),
            event_id=event_id,
            mentions=tuple(map(AgentName, mentions)),
            at=len(self.items) + 1,
        )
        self.items.append(Recorded(len(self.items) * 3 + 1, event))
        return event.id

    def fold(self) -> TaskState:
        """Return the state after all of them."""
        return fold_task(TASK, self.items)


def opened(*participants: str) -> Script:
    """Begin a task of ``user`` and others."""
    script = Script()
    script.say("user", TaskOpened(title="T", participants=participants, parts=PART))
    return script


def test_a_task_is_as_it_was_opened() -> None:
    """Title, opener, question and participants, those mentioned among them, are the opening's."""
    script = Script()
    script.say(
        "user",
        TaskOpened(title="T", participants=("web",), parts=PART, token_budget=7, deadline_at=9),
        mentions=["coder", "web"],
    )
    script.say("web", TaskOpened(title="again", participants=(), parts=()))
    state = script.fold()

    assert (state.title, state.opened_by, state.opened_at) == ("T", "user", 1)
    assert (state.question, state.token_budget, state.deadline_at) == (PART, 7, 9)
    assert list(state.threads[MAIN_THREAD].participants) == ["user", "web", "coder"]
    assert state.is_open


def test_nothing_is_there_before_the_opening() -> None:
    """An empty log, or one of observations alone, has no task."""
    script = Script()
    script.say("web", USED)

    for state in (TaskState(task=TASK), script.fold()):
        assert not state.exists
        assert not state.is_open
        assert state.answer is None
    assert script.fold().tokens_used == 0


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (TaskStatusChanged(status=TaskStatus.PAUSED, note="n"), TaskStatus.PAUSED),
        (InputRequested(parts=PART), TaskStatus.INPUT_REQUIRED),
        (TaskClosed(outcome=TaskStatus.FAILED, summary="s"), TaskStatus.FAILED),
        (TaskClosed(outcome=TaskStatus.CANCELLED), TaskStatus.CANCELLED),
    ],
)
def test_control_events_move_the_status(data: AnyData, status: TaskStatus) -> None:
    """Each control event of the main thread leaves the task where it says."""
    script = opened("web")
    script.say("web", data)

    assert script.fold().status is status


def test_input_counts_once_for_each_request() -> None:
    """The task works again when the last request has its answer; an unknown one changes nothing."""
    script = opened("web")
    first = script.say("web", InputRequested(parts=PART))
    second = script.say("web", InputRequested(parts=PART))
    script.say("user", InputGiven(request=new_event_id(), parts=PART))
    script.say("user", InputGiven(request=first, parts=PART))
    waiting = script.fold()
    script.say("user", InputGiven(request=second, parts=PART))

    assert (waiting.status, list(waiting.requests)) == (TaskStatus.INPUT_REQUIRED, [second])
    assert (script.fold().status, script.fold().requests) == (TaskStatus.WORKING, {})


def test_input_that_nobody_asked_for_moves_nothing() -> None:
    """An answer to no request leaves a paused task paused."""
    script = opened("web")
    script.say("web", TaskStatusChanged(status=TaskStatus.PAUSED))
    script.say("user", InputGiven(request=new_event_id(), parts=PART))

    assert script.fold().status is TaskStatus.PAUSED


def test_the_accepted_answer_is_the_one_that_the_close_names() -> None:
    """Of several answers the close chooses; one that is nowhere leaves the task without."""
    script = opened("web", "coder")
    script.say("coder", AnswerSubmitted(parts=PART))
    chosen = script.say("web", AnswerSubmitted(parts=PART))
    script.say("web", TaskClosed(outcome=TaskStatus.COMPLETED, answer=chosen))
    script.say("user", TaskClosed(outcome=TaskStatus.FAILED))
    state = script.fold()
    lost = opened("web")
    lost.say("web", TaskClosed(outcome=TaskStatus.COMPLETED, answer=new_event_id()))

    assert (state.status, state.accepted, len(state.answers)) == (
        TaskStatus.COMPLETED,
        chosen,
        2,
    )
    assert state.answer is not None
    assert state.answer.id == chosen
    assert lost.fold().answer is None


def test_threads_change_by_their_own_events() -> None:
    """Opening, letting in and out, state and close of a thread leave the main one alone."""
    script = opened("web", "coder")
    script.say(
        "web", ThreadOpened(title="S", participants=("coder",), goal="g", max_turns=2), thread=SIDE
    )
    script.say("web", ParticipantAdded(participant="user"), thread=SIDE)
    script.say("user", ParticipantRemoved(participant="coder"), thread=SIDE)
    script.say(
        "web",
        ThreadStateChanged(state=ConversationState.CONCLUSION, next_speakers=("web",)),
        thread=SIDE,
    )
    script.say("web", ThreadClosed(summary="s", outcome=ThreadOutcome.ABANDONED), thread=SIDE)
    script.say("user", ThreadClosed(summary="second"), thread=SIDE)
    state = script.fold()
    side = state.threads[SIDE]

    assert (side.title, side.goal, side.max_turns, side.parent) == ("S", "g", 2, MAIN_THREAD)
    assert (list(side.participants), side.removed) == (["web", "user"], {"coder"})
    assert (side.conversation, side.next_speakers) == (ConversationState.CONCLUSION, ("web",))
    assert (side.is_open, side.summary, side.outcome) == (False, "s", "abandoned")
    assert state.threads[MAIN_THREAD].is_open
    assert state.is_open


def test_strangers_change_nothing() -> None:
    """Whatever somebody outside a thread says does not count, and is counted as that."""
    script = opened("web")
    before = script.fold()
    for data in (
        TaskClosed(outcome=TaskStatus.FAILED),
        ParticipantAdded(participant="stranger"),
        InputRequested(parts=PART),
        AnswerSubmitted(parts=PART),
        ArtifactAdded(name="a", part=TextPart("x")),
        USED,
        MessagePosted(parts=PART),
    ):
        script.say("stranger", data)
    after = script.fold()

    assert after.threads[MAIN_THREAD].ignored == 3
    assert after.ignored == 4
    assert (after.status, after.requests, after.answers, after.artifacts, after.tokens_used) == (
        before.status,
        before.requests,
        before.answers,
        before.artifacts,
        0,
    )
    assert after.threads[MAIN_THREAD].participants == before.threads[MAIN_THREAD].participants


def test_who_was_removed_counts_no_more_but_what_it_used_does() -> None:
    """After its removal an agent says nothing that counts; the tokens of its last turn do."""
    script = opened("web")
    script.say("web", USED)
    script.say("user", ParticipantRemoved(participant="web"))
    script.say("web", USED)
    script.say("web", AnswerSubmitted(parts=PART))
    script.say("web", TaskClosed(outcome=TaskStatus.COMPLETED))
    state = script.fold()

    assert state.tokens_used == 30
    assert state.answers == {}
    assert state.is_open


def test_an_id_counts_once() -> None:
    """An event that stands in the log twice is counted once, the first; for threads as well."""
    script = opened("web")
    added = script.say("user", ParticipantAdded(participant="coder"))
    used = script.say("web", USED)
    script.say("user", ParticipantRemoved(participant="coder"))
    script.say("user", ParticipantAdded(participant="coder"), event_id=added)
    script.say("web", USED, event_id=used)
    state = script.fold()

    assert state.tokens_used == 15
    assert list(state.threads[MAIN_THREAD].participants) == ["user", "web"]
    assert state.events == 4


def test_folding_again_changes_nothing() -> None:
    """Events at or before the last sequence are passed over, in any order and number."""
    script = opened("web")
    script.say("web", ThreadOpened(title="S"), thread=SIDE)
    script.say("web", AnswerSubmitted(parts=PART))
    script.say("web", TaskClosed(outcome=TaskStatus.COMPLETED))
    state = script.fold()
    again = script.fold()
    shuffled = [*script.items, *script.items]
    random.Random(7).shuffle(shuffled)
    for item in shuffled:
        again.apply(item)
        again.threads[item.event.thread].apply(item.seq, item.event)

    assert again == state


def test_a_copy_is_folded_on_alone() -> None:
    """What is folded into a copy of a thread does not show in the thread."""
    script = opened("web")
    thread = script.fold().threads[MAIN_THREAD]
    copy = thread.copy()
    script.say("user", ParticipantRemoved(participant="web"))
    copy.apply(script.items[-1].seq, script.items[-1].event)

    assert list(copy.participants) == ["user"]
    assert list(thread.participants) == ["user", "web"]
    assert (thread.removed, len(thread.control_seqs)) == (set(), 1)
