"""A timeline as the data of the page."""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

from threadbus.replay.finding import Finding, Suspect
from threadbus.replay.forms.changes import Change, changes
from threadbus.replay.forms.flat import Act, Flat, end_of, limits_of, start_of
from threadbus.replay.forms.options import FormOptions
from threadbus.replay.forms.page import (
    Page,
    PageAgent,
    PageAnswer,
    PageArtifact,
    PageChange,
    PageFinding,
    PagePlan,
    PageStep,
    PageSuspect,
    PageThread,
    PageTurn,
    PageVote,
)
from threadbus.replay.story import AnyStep, ModelStep, SaidStep, Timeline, ToolStep, Turn
from threadbus.replay.text import duration, first_line, moment, money, neutral, plural, size
from threadbus.replay.words import Words, thread_name, words_of
from threadbus.schemas import AgentName, EventId, ThreadId

_IN_FULL: Final = frozenset(
    {
        "answer.submitted",
        "assignment.finished",
        "message.posted",
        "proposal.made",
        "task.input_given",
        "task.input_requested",
        "task.opened",
    }
)
"""Events whose text is shown with its lines, not only the first."""

_US: Final = 1_000
_NOTES: Final = 50


def page_of(timeline: Timeline, options: FormOptions) -> Page:
    """Return what the page shows of *timeline*.

    Args:
        timeline: the run, or a part of it.
        options: what else is to know.
    """
    return _Builder(timeline, options).page()


def lines(text: str) -> str:
    """Return *text* harmless, with its line ends."""
    return "\n".join([neutral(line) for line in text.splitlines()])


class _Builder:
    def __init__(self, timeline: Timeline, options: FormOptions) -> None:
        self._timeline = timeline
        self._options = options
        self._flat = flat = Flat(timeline, options.selection)
        self._agents = {name: number for number, name in enumerate(flat.agents())}
        # A thread of which nothing is shown may yet have been where something was said.
        threads = dict.fromkeys([*timeline.threads, *[act.step.thread for act in flat.acts]])
        self._threads: dict[ThreadId, int] = {name: n for n, name in enumerate(threads)}
        self._places: dict[EventId, int] = {act.step.id: n for n, act in enumerate(flat.acts)}
        self._turns = {id(turn): number for number, turn in enumerate(flat.turns)}
        self._seqs = [act.step.seq for act in flat.acts]

    def page(self) -> Page:
        """Return everything."""
        timeline, options = self._timeline, self._options
        is_over = timeline.closed_at is not None
        total = timeline.duration_ns if is_over else max(options.now - self._flat.start, 0)
        forms = ("tree", "markdown", "jsonl")
        return Page(
            task=timeline.task or "",
            title=neutral(timeline.title) or "A run without its opening",
            status=timeline.status,
            question=lines(timeline.question),
            summary=lines(timeline.summary),
            opened_by=timeline.opened_by or "",
            opened=moment(self._flat.start),
            start_ms=self._flat.start // 1_000_000,
            duration=max(total, 0) // _US,
            over=is_over,
            totals={
                name: getattr(timeline.totals, name) for name in timeline.totals.__struct_fields__
            },
            cost=money(timeline.totals.cost, timeline.currency) if timeline.currency else "",
            notes=tuple(self._notes()),
            commands=tuple([options.command(timeline, form) for form in forms]),
            part=options.part(),
            answer=self._answer(),
            agents=[self._agent(name) for name in self._agents],
            threads=[self._thread(name) for name in self._threads],
            turns=[self._turn(turn) for turn in self._flat.turns],
            steps=[self._step(act) for act in self._flat.acts],
            plans=self._plans(),
            votes=self._votes(),
            artifacts=self._artifacts(),
            findings=[self._finding(one) for one in self._flat.findings],
            suspects=[self._suspect(one) for one in self._flat.suspects],
        )

    def _notes(self) -> list[str]:
        timeline, totals = self._timeline, self._timeline.totals
        notes = limits_of(timeline)
        for request in timeline.requests.values():
            if request.answered_at is None:
                asked = first_line(request.text, 200)
                notes.append(f"{request.asked_by} has no answer to: {asked}")
        for turn in timeline.open_turns()[:_NOTES]:
            about = f": {first_line(turn.asked, 120)}" if turn.asked else ""
            what = "did not finish" if turn.has_begun else "did not answer"
            if turn.asked_at:
                what += f" for {duration(self._options.now - turn.asked_at)}"
            notes.append(f"{turn.agent} {what}{about}")
        notes += [
            f"Not readable, at {one.seq or 'an unknown place'}: {first_line(one.reason, 300)}"
            for one in timeline.unreadable[:_NOTES]
        ]
        if totals.unreadable > _NOTES:
            notes.append(f"{totals.unreadable:,} entries are not readable in all.")
        if timeline.unknown_types:
            known = ", ".join([first_line(name, 60) for name in timeline.unknown_types])
            notes.append(f"Types that this reader does not know: {known}")
        if totals.duplicates:
            notes.append(f"{plural(totals.duplicates, 'repeated event')} counted once each.")
        return notes

    def _answer(self) -> PageAnswer | None:
        answer = self._timeline.answer
        if answer is None:
            return None
        return PageAnswer(
            at=self._places.get(answer.id, -1),
            a=self._agent_place(answer.submitted_by),
            text=lines(answer.text),
            more=max(answer.chars - len(answer.text), 0),
            accepted=self._timeline.accepted_answer == answer.id,
            dissent=tuple([neutral(text) for text in answer.dissent]),
        )

    def _agent(self, name: AgentName) -> PageAgent:
        person = self._timeline.is_outside(name)
        totals = self._timeline.agents.get(name)
        if totals is None:
            return PageAgent(name, person=person)
        return PageAgent(
            name=name,
            person=person,
            turns=totals.turns,
            waited=totals.waited_ns // _US,
            worked=totals.worked_ns // _US,
            model=totals.model_calls,
            tin=totals.input_tokens,
            tout=totals.output_tokens,
            tools=totals.tool_calls,
            failures=totals.failures,
            messages=totals.messages,
            cost=money(totals.cost, self._timeline.currency) if self._timeline.currency else "",
        )

    def _thread(self, name: ThreadId) -> PageThread:
        story = self._timeline.threads.get(name)
        title = neutral(thread_name(self._timeline, name))
        if story is None:
            return PageThread(name, title)
        parent = -1 if story.parent is None else self._threads.get(story.parent, -1)
        return PageThread(
            id=name,
            title=title,
            parent=parent,
            outcome=story.outcome,
            summary=neutral(story.summary),
            members=tuple([member for member, is_in in story.participants.items() if is_in]),
            t=self._at(story.opened_at) if story.opened_at else 0,
        )

    def _turn(self, turn: Turn) -> PageTurn:
        begin, end = start_of(turn), end_of(turn, self._timeline)
        return PageTurn(
            s=turn.seq,
            a=self._agents[turn.agent],
            h=self._threads[turn.thread],
            by=-1 if turn.woken_by is None else self._agent_place(turn.woken_by),
            q=self._at(turn.asked_at or begin),
            b=self._at(begin),
            e=self._at(end),
            o=turn.outcome.value,
            n=turn.attempt,
            begun=turn.has_begun,
            waited=-1 if turn.waited_ns is None else turn.waited_ns // _US,
            worked=-1 if turn.worked_ns is None else turn.worked_ns // _US,
            tin=turn.input_tokens,
            tout=turn.output_tokens,
            x=neutral(turn.asked),
        )

    def _step(self, act: Act) -> PageStep:
        step, turn = act
        words = words_of(step, self._timeline)
        text, left_out = _text(step, words)
        page = PageStep(
            s=step.seq,
            i=step.id,
            t=self._at(step.at),
            a=self._agents[step.agent],
            h=self._threads[step.thread],
            k=_kind(step),
            v=neutral(words.verb),
            m=words.mood,
            f=tuple([neutral(fact) for fact in words.facts]),
            x=text,
            n=left_out,
            u=-1 if turn is None else self._turns[id(turn)],
            c=-1 if step.cause is None else self._places.get(step.cause, -1),
        )
        if isinstance(step, ModelStep):
            page.d = step.duration_ns // _US
            page.t = max(page.t - page.d, 0)
        elif isinstance(step, ToolStep):
            page.d = (step.duration_ns or 0) // _US
        elif isinstance(step, SaidStep):
            page.y = neutral(step.type)
            page.o = tuple([self._agents[name] for name in step.to])
            page.r = step.is_reply
            page.ab = self._places.get(EventId(step.about), -1)
            if step.type.startswith("plan."):
                page.p = tuple([neutral(item) for item in step.items])
                page.x = neutral(step.text)
        return page

    def _plans(self) -> list[PagePlan]:
        plans = self._timeline.plans
        return [
            PagePlan(
                version=plan.version,
                h=self._threads[plan.thread],
                a=self._agent_place(plan.made_by),
                t=self._at(plan.made_at),
                at=self._places.get(plan.id, -1),
                reasons=tuple([neutral(reason) for reason in plan.reasons]),
                steps=tuple([_change(change) for change in changes(plan, plans)]),
            )
            for plan in plans.values()
            if plan.thread in self._threads
        ]

    def _votes(self) -> list[PageVote]:
        return [
            PageVote(
                at=self._places.get(one.id, -1),
                a=self._agent_place(one.made_by),
                h=self._threads[one.thread],
                t=self._at(one.made_at),
                text=lines(one.text),
                needed=one.quorum if one.quorum is not None else len(one.voters),
                votes=tuple(one.votes.items()),
                silent=tuple([name for name in one.voters if name not in one.votes]),
                result=one.result,
            )
            for one in self._timeline.proposals.values()
            if one.thread in self._threads
        ]

    def _artifacts(self) -> list[PageArtifact]:
        return [
            PageArtifact(
                at=self._places.get(event, -1),
                a=self._agent_place(one.made_by),
                name=neutral(one.name),
                type=neutral(one.media_type),
                size=size(one.size),
                sha=one.sha256,
            )
            for event, one in self._timeline.artifacts.items()
        ]

    def _finding(self, one: Finding) -> PageFinding:
        found = [self._places[event] for event in one.evidence if event in self._places]
        return PageFinding(
            id=neutral(one.detector),
            name=neutral(one.name),
            kind=one.kind.value,
            s=one.seq,
            at=self._near(one.seq),
            text=neutral(one.text),
            a=-1 if one.agent is None else self._agent_place(one.agent),
            evidence=tuple(found),
        )

    def _suspect(self, one: Suspect) -> PageSuspect:
        return PageSuspect(
            s=one.seq,
            at=self._places.get(one.event, self._near(one.seq)),
            score=round(one.score, 3),
            reasons=tuple([neutral(reason) for reason in one.reasons]),
            a=-1 if one.agent is None else self._agent_place(one.agent),
            findings=tuple([neutral(name) for name in one.findings]),
        )

    def _near(self, seq: int) -> int:
        """Return the place of the step at *seq*, or of the next one; the last where none is."""
        return min(bisect_left(self._seqs, seq), len(self._seqs) - 1)

    def _agent_place(self, name: AgentName) -> int:
        return self._agents.get(name, -1)

    def _at(self, at: int) -> int:
        return max(at - self._flat.start, 0) // _US


def _kind(step: AnyStep) -> str:
    return str(step.__struct_config__.tag)


def _text(step: AnyStep, words: Words) -> tuple[str, int]:
    """Return what was said, and how many characters of it are not there."""
    if isinstance(step, ModelStep) and step.error is None:
        return lines(step.text), max(step.chars - len(step.text), 0)
    if isinstance(step, ToolStep) and step.error is None:
        return lines(step.text), max(step.chars - len(step.text), 0)
    if isinstance(step, SaidStep) and step.type in _IN_FULL:
        return lines(step.text), max(step.chars - len(step.text), 0)
    return lines(words.text), 0


def _change(change: Change) -> PageChange:
    before = change.before
    return PageChange(
        kind=change.kind,
        title=neutral(change.step.title),
        who=neutral(change.step.assignee),
        was=neutral(before.assignee) if before and before.assignee != change.step.assignee else "",
        detail=lines(change.step.detail),
    )
