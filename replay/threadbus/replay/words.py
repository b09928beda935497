"""The story in words: what one step is called, for the tree and for the live feed alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from threadbus.replay.story import AnyStep, FailureStep, ModelStep, SaidStep, Timeline, ToolStep
from threadbus.replay.text import duration, first_line, money, plural, size
from threadbus.schemas import EventId, ThreadId

MAX_LINE_CHARS: Final = 240
"""Characters of what was said that one line may show, where no terminal is narrower."""

_MAX_NAMES: Final = 8
MAX_ARGUMENTS_CHARS: Final = 72
"""Characters of the arguments of a call that one line shows."""


class Words(NamedTuple):
    """A line about one step. Texts are as the event had them: whoever shows them cleans them."""

    verb: str
    """What was done: ``asks document``."""
    facts: tuple[str, ...] = ()
    """What follows between dots: durations, tokens, sizes."""
    text: str = ""
    """The first line of what was said or returned."""
    lead: str = ": "
    """What stands before the text."""
    mood: str = "plain"
    """``bad`` for failures, ``good`` for an end, ``warn`` for what waits, ``dim`` for routine."""
    wraps: bool = False
    """Whether all of the text matters, so that it is wrapped rather than cut."""


def words_of(step: AnyStep, timeline: Timeline) -> Words:
    """Return the line about *step*."""
    match step:
        case ModelStep():
            return _model(step, timeline)
        case ToolStep():
            return _tool(step)
        case FailureStep():
            return _failure(step)
        case SaidStep():
            return _SAID.get(step.type, _unknown)(step, timeline)


def names(agents: tuple[str, ...]) -> str:
    """Return some names for a sentence."""
    shown = ", ".join(agents[:_MAX_NAMES])
    return f"{shown} and {len(agents) - _MAX_NAMES} more" if len(agents) > _MAX_NAMES else shown


def tokens(input_tokens: int, output_tokens: int) -> str:
    """Return token counts: ``512 in, 88 out``."""
    return f"{input_tokens:,} in, {output_tokens:,} out"


def thread_name(timeline: Timeline, thread: ThreadId) -> str:
    """Return what to call a thread: its title, or its id where it has none."""
    story = timeline.threads.get(thread)
    return (story.title if story is not None and thread != "main" else "") or thread


def said(step: SaidStep | ToolStep | ModelStep) -> str:
    """Return the first line of the text of a step, saying where more of it follows."""
    line = first_line(step.text, MAX_LINE_CHARS)
    cut_off = step.chars > len(step.text) and not line.endswith("…")
    return f"{line} …" if cut_off else line


def _model(step: ModelStep, timeline: Timeline) -> Words:
    who = f"model {step.model}"
    if step.is_playbook:
        who = "playbook" if step.model == step.system else f"playbook as {step.model}"
    facts = [duration(step.duration_ns)]
    if step.input_tokens or step.output_tokens:
        facts.append(tokens(step.input_tokens, step.output_tokens))
    if step.cost is not None:
        facts.append(money(step.cost, timeline.currency))
    elif timeline.currency and not step.is_playbook:
        facts.append("no price")
    if step.attempts > 1:
        facts.append(f"{step.attempts:,} attempts")
    if step.error is not None:
        return Words(
            f"{who} failed", tuple(facts), f"{step.error.kind}: {step.error.message}", mood="bad"
        )
    if step.finish_reason in {"length", "content_filter"}:
        facts.append(f"stopped by {step.finish_reason}")
    return Words(who, tuple(facts), mood="dim")


def _tool(step: ToolStep) -> Words:
    verb = f"tool {call(step)}"
    if not step.returned:
        return Words(verb, ("has not returned",), mood="warn")
    facts = (duration(step.duration_ns or 0),)
    if step.error is not None:
        error = f"{step.error.kind}: {step.error.message}"
        return Words(f"{verb} failed", facts, error, mood="bad")
    return Words(verb, facts, said(step), " → ", "dim")


def call(step: ToolStep) -> str:
    """Return the call of a tool as one line: ``run_python(code="print(1)")``."""
    return f"{step.tool}({first_line(step.arguments, MAX_ARGUMENTS_CHARS)})"


def _failure(step: FailureStep) -> Words:
    error = f"{step.error.kind}: {step.error.message}"
    if step.gave_up:
        return Words(f"gives up after {plural(step.attempt, 'attempt')}", text=error, mood="bad")
    if step.retry_in_ns is None:
        return Words(f"attempt {step.attempt} failed", text=error, mood="bad")
    again = f"tries again in {duration(step.retry_in_ns)}"
    return Words(f"attempt {step.attempt} failed", (again,), error, mood="bad")


def _message(step: SaidStep, _: Timeline) -> Words:
    to = f" {names(step.to)}" if step.to else ""
    if step.is_reply:
        return Words(f"replies to{to}" if to else "replies", text=said(step))
    return Words(f"asks{to}" if to else "says", text=said(step))


def _opened(step: SaidStep, _: Timeline) -> Words:
    return Words(f"asks {names(step.to)}" if step.to else "opens the task", text=said(step))


def _status(step: SaidStep, _: Timeline) -> Words:
    return Words(f"sets the status to {step.verdict}", text=said(step), mood="warn")


def _closed(step: SaidStep, _: Timeline) -> Words:
    mood = "good" if step.verdict == "completed" else "bad"
    return Words(f"closes the task as {step.verdict}", text=said(step), mood=mood)


def _forked(step: SaidStep, timeline: Timeline) -> Words:
    facts: tuple[str, ...] = ()
    if timeline.fork is not None and timeline.fork.woken:
        facts = (f"wakes {names(timeline.fork.woken)}",)
    return Words("ends the copy: from here on the fork lives", facts, mood="warn")


def _input_requested(step: SaidStep, timeline: Timeline) -> Words:
    request = timeline.requests.get(step.id)
    verb = f"needs to know from {timeline.opened_by or 'whoever opened the task'}"
    if request is None or request.answered_at is None:
        fact = "no answer yet" if timeline.closed_at is None else "never answered"
    else:
        fact = f"answered after {duration(request.answered_at - request.asked_at)}"
    return Words(verb, (fact,), said(step), mood="warn")


def _input_given(step: SaidStep, timeline: Timeline) -> Words:
    request = timeline.requests.get(EventId(step.about))
    whom = f" {request.asked_by}" if request is not None else ""
    return Words(f"answers{whom}", text=said(step))


def _artifact(step: SaidStep, timeline: Timeline) -> Words:
    artifact = timeline.artifacts.get(step.id)
    facts = () if artifact is None else (artifact.media_type, size(artifact.size))
    text = first_line(step.items[0], MAX_LINE_CHARS) if step.items else ""
    return Words(f"saves {first_line(step.text, 80)}", facts, text)


def _thread_opened(step: SaidStep, _: Timeline) -> Words:
    who = (f"with {names(step.items)}",) if step.items else ()
    return Words(f"opens thread {first_line(step.text, 80)}", who)


def _thread_closed(step: SaidStep, _: Timeline) -> Words:
    mood = "bad" if step.verdict == "failed" else "plain"
    return Words(f"closes the thread as {step.verdict}", text=said(step), mood=mood)


def _state(step: SaidStep, _: Timeline) -> Words:
    following = (f"next {names(step.items)}",) if step.items else ()
    return Words(f"moves the conversation to {step.verdict}", following, said(step))


def _added(step: SaidStep, _: Timeline) -> Words:
    return Words(f"adds {step.about}")


def _removed(step: SaidStep, _: Timeline) -> Words:
    return Words(f"removes {step.about}", text=said(step))


def _plan(step: SaidStep, _: Timeline) -> Words:
    verb = "revises the plan to" if step.type == "plan.revised" else "plans"
    listed = "  ".join(f"{number}. {item}" for number, item in enumerate(step.items, 1))
    why = f" (because {first_line(step.text, 120)})" if step.text else ""
    text = f"{first_line(listed, 400)}{why}"
    return Words(f"{verb} {plural(len(step.items), 'step')}", text=text, wraps=True)


def _assigned(step: SaidStep, timeline: Timeline) -> Words:
    how = " without waiting" if step.verdict == "async" else ""
    record = timeline.assignments.get(step.id)
    if record is None:
        return Words(f"assigns {step.about}{how}", text=said(step))
    if record.state in {"finished", "failed", "cancelled"}:
        fact = f"{record.state} after {duration(record.changed_at - record.made_at)}"
    else:
        fact = "still open"
    mood = "bad" if record.state == "failed" else "plain"
    return Words(f"assigns {step.about}{how}", (fact,), said(step), mood=mood)


def _assignment(verb: str, mood: str = "plain") -> Callable[[SaidStep, Timeline], Words]:
    def words(step: SaidStep, _: Timeline) -> Words:
        return Words(f"{verb} {step.verdict}".rstrip(), text=said(step), mood=mood)

    return words


def _critique(step: SaidStep, _: Timeline) -> Words:
    if step.verdict == "accept":
        return Words("accepts it after a critique", text=_reasons(step), mood="good")
    return Words("is uncertain about it", text=_reasons(step), mood="warn")


def _proposal(step: SaidStep, timeline: Timeline) -> Words:
    record = timeline.proposals.get(step.id)
    verb = f"puts to the vote of {names(step.items)}" if step.items else "puts to the vote"
    if record is None:
        return Words(verb, text=said(step))
    approvals = sum(vote == "approve" for vote in record.votes.values())
    needed = record.quorum if record.quorum is not None else len(record.voters)
    fact = f"{approvals} of {needed} needed approvals"
    return Words(verb, (fact,), said(step))


def _vote(step: SaidStep, _: Timeline) -> Words:
    return Words(f"votes {step.verdict}", text=_reasons(step))


def _consensus(step: SaidStep, _: Timeline) -> Words:
    if step.verdict == "reached":
        return Words("records a consensus", (f"approved by {names(step.items)}",), mood="good")
    against = (f"rejected by {names(step.items)}",) if step.items else ()
    return Words("records that there is no consensus", against, said(step), mood="bad")


def _answer(step: SaidStep, _: Timeline) -> Words:
    return Words("submits the answer", text=said(step), mood="good")


def _reasons(step: SaidStep) -> str:
    return first_line("; ".join(step.items), MAX_LINE_CHARS)


def _throttled(step: SaidStep, _: Timeline) -> Words:
    how = step.verdict.replace("_", " ")
    facts = tuple([first_line(item, 80) for item in step.items])
    return Words(f"{step.about} went over its limit: {how}", facts, said(step), mood="warn")


def _unknown(step: SaidStep, _: Timeline) -> Words:
    return Words(
        f"{step.type} (a type that this reader does not know)", text=said(step), mood="warn"
    )


_SAID: Final[dict[str, Callable[[SaidStep, Timeline], Words]]] = {
    "agent.throttled": _throttled,
    "answer.submitted": _answer,
    "assignment.accepted": _assignment("takes the work on"),
    "assignment.cancelled": _assignment("takes the work back", "warn"),
    "assignment.failed": _assignment("cannot do the work", "bad"),
    "assignment.finished": _assignment("hands over"),
    "assignment.made": _assigned,
    "assignment.progressed": _assignment("is at work"),
    "consensus.failed": _consensus,
    "consensus.reached": _consensus,
    "critique.given": _critique,
    "message.posted": _message,
    "plan.proposed": _plan,
    "plan.revised": _plan,
    "proposal.made": _proposal,
    "task.artifact_added": _artifact,
    "task.closed": _closed,
    "task.forked": _forked,
    "task.input_given": _input_given,
    "task.input_requested": _input_requested,
    "task.opened": _opened,
    "task.status_changed": _status,
    "thread.closed": _thread_closed,
    "thread.opened": _thread_opened,
    "thread.participant_added": _added,
    "thread.participant_removed": _removed,
    "thread.state_changed": _state,
    "vote.cast": _vote,
}
