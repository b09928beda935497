"""Tools about the work: assignments, progress, votes, the answer, and waiting for mentions."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from threadbus.bus import AssignmentResult, VoteResult, WaitTimeoutError
from threadbus.gateways.errors import BadArgumentError
from threadbus.gateways.mcp import arguments as takes
from threadbus.gateways.mcp.calls import Call, parts_of
from threadbus.gateways.mcp.mailbox import Woken
from threadbus.gateways.mcp.references import Place
from threadbus.gateways.mcp.results import (
    AssignmentOutcome,
    AssignmentResults,
    Mentions,
    Sent,
    Votes,
)
from threadbus.gateways.mcp.tools_threads import mentioned, sent_result
from threadbus.gateways.mcp.translate import (
    data_of,
    files_of,
    message_of,
    says,
    text_in,
    thread_of,
)
from threadbus.gateways.text import cut_text
from threadbus.schemas import (
    AgentName,
    AnyData,
    AssignmentMade,
    AssignmentMode,
    AssignmentProgressed,
    EventId,
    MessagePosted,
    ProposalMade,
    Recorded,
    TextPart,
    VoteCast,
    VoteVerdict,
    clean_text,
    derive_event_id,
    parse_event_id,
)

_MAX_SUMMARY_CHARS: Final = 1000
_MAX_RESULT_BYTES: Final = 32 * 1024
_AGAIN: Final = (
    "These were handed out before and not acknowledged: pass the cursor of this result to your "
    "next wait_for_mentions, or they come once more."
)
_NEXT: Final = "Handle these, then wait again with this cursor."
_NOBODY: Final = "Nobody has mentioned you. Wait again, or do something else; nothing gets lost."
_SUPERSEDED: Final = "A newer wait of yours goes on in place of this one."


async def wait_for_mentions(call: Call, args: takes.WaitForMentions) -> Mentions:
    """Wait until the caller is mentioned, or a thread that it is in is closed."""
    thread: Place | None = None
    if isinstance(args.thread_id, str):
        thread = call.place(args.thread_id)
        await call.visible(thread)
    woken = await call.desk.mailbox.wait(
        args.cursor, args.timeout_s, most=args.max_messages, thread=thread
    )
    events = [await call.loaded(event) for event in woken.events]
    return mentions_of(msgspec.structs.replace(woken, events=tuple(events)), call.me)


def mentions_of(woken: Woken, me: AgentName) -> Mentions:
    """Say what a wait ended with."""
    if woken.superseded:
        return Mentions(status="superseded", note=_SUPERSEDED)
    closed = [thread_of(state) for state in woken.closed]
    if not woken.events and not closed:
        return Mentions(status="timeout", note=_NOBODY)
    return Mentions(
        status="messages" if woken.events else "thread_closed",
        messages=[message_of(event, me) for event in woken.events],
        closed=closed,
        cursor=woken.cursor,
        note=_AGAIN if woken.again else _NEXT,
    )


async def assign(call: Call, args: takes.Assign) -> Sent:
    """Give a piece of work to a participant."""
    place = call.place(args.thread_id)
    (agent,) = await mentioned(call, [args.agent])
    return await _say(
        call,
        place,
        AssignmentMade(
            assignee=agent,
            parts=tuple(parts_of(args.content)),
            title=clean_text(args.title),
            mode=AssignmentMode.ASYNC if args.notify else AssignmentMode.SYNC,
        ),
        [agent],
        args.idempotency_key,
    )


async def _say(
    call: Call,
    place: Place,
    data: AnyData,
    mentions: list[AgentName],
    key: str | UnsetType,
    cause: EventId | None = None,
) -> Sent:
    event_id = call.key_id(place.task, key)
    said = await call.said_before(place, event_id)
    if said is None:
        said = await call.bus.append(
            data,
            task=place.task,
            thread=place.thread,
            mentions=mentions,
            cause=cause,
            event_id=event_id,
        )
    return await sent_result(call, said)


async def wait_for_results(call: Call, args: takes.WaitForResults) -> AssignmentResults:
    """Wait until assignments have ended."""
    place = call.place(args.thread_id)
    await call.visible(place)
    wanted = list(dict.fromkeys(parse_event_id(text) for text in args.assignment_ids))
    await _check_made(call, place, wanted)
    try:
        found = await call.bus.waits.for_results(
            place.task, wanted, thread=place.thread, timeout=timedelta(seconds=args.timeout_s)
        )
    except WaitTimeoutError:
        found = await _so_far(call, place, wanted)
    return AssignmentResults(
        status="all_done" if len(found) == len(wanted) else "timeout",
        results=[outcome_of(found[one]) for one in wanted if one in found],
        missing=[one for one in wanted if one not in found],
    )


async def _check_made(call: Call, place: Place, wanted: list[EventId]) -> None:
    """Check that each assignment was made there: a wait for one that was not never ends.

    Raises:
        BadArgumentError: one was not.
    """
    made = [
        entry.event.id
        async for entry in call.bus.read(*place)
        if isinstance(entry, Recorded) and isinstance(entry.event.data, AssignmentMade)
    ]
    unknown = [one for one in wanted if one not in made]
    if unknown:
        raise BadArgumentError(
            "assignment_ids",
            f"{unknown[0]} is no assignment of this thread",
            "use the message_id that assign gave",
        )


async def _so_far(
    call: Call, place: Place, wanted: list[EventId]
) -> dict[EventId, AssignmentResult]:
    """Return those that have ended, once not all of them did in time."""
    found: dict[EventId, AssignmentResult] = {}
    for one in wanted:
        try:
            found |= await call.bus.waits.for_results(
                place.task, [one], thread=place.thread, timeout=_AT_ONCE
            )
        except WaitTimeoutError:
            continue
    return found


_AT_ONCE: Final = timedelta(milliseconds=200)


def outcome_of(result: AssignmentResult) -> AssignmentOutcome:
    """Say how an assignment ended."""
    event = result.event
    return AssignmentOutcome(
        assignment_id=result.assignment,
        status="finished" if result.ok else "cancelled" if result.cancelled else "failed",
        message_id=event.id,
        by=event.sender,
        text=cut_text(
            text_in(result.parts) or ("" if result.ok else says(event)), _MAX_RESULT_BYTES
        ),
        data=data_of(result.parts),
        files=files_of(result.parts),
    )


async def report_progress(call: Call, args: takes.ReportProgress) -> Sent:
    """Say how far the work is: to whoever waits for it, and to everybody who watches."""
    place = call.place(args.thread_id)
    note = clean_text(args.note)
    fraction = args.fraction if isinstance(args.fraction, int | float) else None
    data: AnyData
    if isinstance(args.assignment_id, str):
        assignment = parse_event_id(args.assignment_id)
        await _check_made(call, place, [assignment])
        data = AssignmentProgressed(assignment=assignment, note=note, fraction=fraction)
    else:
        data = MessagePosted(parts=(TextPart(note),))
    said = await call.bus.append(data, task=place.task, thread=place.thread)
    live = {"kind": "progress", "note": note, "fraction": fraction}
    await call.bus.publish_live(place.task, place.thread, live)
    return await sent_result(call, said)


async def propose(call: Call, args: takes.Propose) -> Sent:
    """Put something to the vote."""
    place = call.place(args.thread_id)
    voters = await call.directory.resolve_all(args.voters)
    quorum = args.quorum if isinstance(args.quorum, int) else None
    if quorum is not None and quorum > len(voters):
        raise BadArgumentError(
            "quorum", f"{quorum} approvals of {len(voters)} voters", "ask for fewer, or ask more"
        )
    return await _say(
        call,
        place,
        ProposalMade(parts=tuple(parts_of(args.content)), voters=tuple(voters), quorum=quorum),
        [voter for voter in voters if voter != call.me],
        args.idempotency_key,
    )


async def vote(call: Call, args: takes.Vote) -> Sent:
    """Vote on a proposal; the last vote counts."""
    place = call.place(args.thread_id)
    proposal = await call.find(place, args.proposal_id)
    data = proposal.event.data
    if not isinstance(data, ProposalMade):
        raise BadArgumentError(
            "proposal_id", f"it is a {proposal.event.type}", "use the message_id of the proposal"
        )
    if call.me not in data.voters:
        raise BadArgumentError(
            "proposal_id", f"you ({call.me}) have no vote on it", f"{', '.join(data.voters)} vote"
        )
    said = await _say(
        call,
        place,
        VoteCast(
            proposal=proposal.event.id,
            verdict=VoteVerdict(args.verdict),
            reasons=tuple(clean_text(reason) for reason in args.reasons),
        ),
        [],
        UNSET,
        cause=proposal.event.id,
    )
    # Who votes has received the proposal.
    call.desk.mailbox.acknowledge(frozenset({proposal.seq}))
    return said


async def wait_for_votes(call: Call, args: takes.WaitForVotes) -> Votes:
    """Wait until a vote is decided."""
    place = call.place(args.thread_id)
    await call.visible(place)
    proposal = await call.find(place, args.proposal_id)
    result = await call.bus.waits.for_votes(
        place.task, proposal.event.id, timeout=timedelta(seconds=max(args.timeout_s, 0.2))
    )
    return votes_of(result)


def votes_of(result: VoteResult) -> Votes:
    """Say where a vote stands."""
    return Votes(
        status="decided" if result.decided else "open",
        proposal_id=result.proposal,
        reached=result.reached,
        approvals=result.approvals,
        quorum=result.quorum,
        votes={name: verdict.value for name, verdict in result.votes.items()},
        missing=list(result.missing),
    )


async def submit_answer(call: Call, args: takes.SubmitAnswer) -> Sent:
    """Submit the answer of a super-task, which ends it."""
    place = call.place(args.thread_id)
    submitted = await call.bus.tasks.submit_answer(
        place.task,
        parts_of(args.content, args.data),
        # One agent submits once: said again, because the result got lost, it stands once.
        event_id=derive_event_id(EventId(place.task), call.me, "mcp-answer"),
        sources=[parse_event_id(source) for source in args.sources],
        dissent=[clean_text(one) for one in args.dissent],
        summary=clean_text(args.content, _MAX_SUMMARY_CHARS),
    )
    return await sent_result(call, submitted)
