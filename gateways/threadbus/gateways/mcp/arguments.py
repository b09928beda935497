"""What each tool takes, as structs: their JSON Schemas are what a host shows its model."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

MAX_WAIT_S: Final = 50
"""Seconds that one call waits at most: hosts give up after 60."""

MAX_ASK_S: Final = 600
"""Seconds that a host may allow for an answer where it says so."""

MAX_CONTENT_CHARS: Final = 1_000_000
"""Characters of one message."""

MAX_LISTED: Final = 200
"""Items of one list in a result."""


Thread = Annotated[
    str,
    Meta(
        description="A thread, as results give it: '<task>/<thread>', or a task id alone for its "
        "main thread.",
        max_length=128,
    ),
]
AgentArg = Annotated[str, Meta(description="An agent, by its name.", max_length=256)]
Agents = Annotated[
    list[Annotated[str, Meta(max_length=256)]],
    Meta(description="Agents, by their names: a list of strings.", max_length=256),
]
Mentions = Annotated[
    list[Annotated[str, Meta(max_length=256)]],
    Meta(
        description="Participants to wake, by their names: a list of strings, at most 16. "
        "Nobody reads a message that mentions nobody, unless they look at the thread.",
        max_length=16,
    ),
]
Content = Annotated[str, Meta(description="The text.", min_length=1, max_length=MAX_CONTENT_CHARS)]
EventRef = Annotated[str, Meta(description="An id that a result gave.", max_length=64)]
Wait = Annotated[
    float,
    Meta(description=f"Seconds to wait at most, up to {MAX_WAIT_S}.", ge=0, le=MAX_WAIT_S),
]
Key = Annotated[
    str,
    Meta(
        description="Any text of yours. A call that is repeated with the same key, because its "
        "result did not arrive, does nothing a second time.",
        min_length=1,
        max_length=200,
    ),
]
Reasons = Annotated[
    list[Annotated[str, Meta(max_length=16_384)]],
    Meta(description="Why: a list of strings.", max_length=64),
]
Count = Annotated[int, Meta(ge=1, le=MAX_LISTED)]
Data = Annotated[Any, Meta(description="Any JSON value, sent beside the text.")]


class Arguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of a tool; one that is not in the table is an error."""


class ListAgents(Arguments, frozen=True, kw_only=True):
    """Arguments of ``list_agents``."""

    include_offline: Annotated[
        bool, Meta(description="Also those that are registered and not running.")
    ] = True


class FindAgents(Arguments, frozen=True, kw_only=True):
    """Arguments of ``find_agents``."""

    query: Annotated[
        str, Meta(description="What is to be done, in words.", min_length=1, max_length=4000)
    ]
    limit: Count = 5


class CreateThread(Arguments, frozen=True, kw_only=True):
    """Arguments of ``create_thread``."""

    name: Annotated[str, Meta(description="What it is about.", min_length=1, max_length=400)]
    participants: Agents = []
    task_id: (
        Annotated[
            str,
            Meta(
                description="The super-task that it belongs to. Left out, a new super-task is "
                "opened, and the thread is its main thread.",
                max_length=128,
            ),
        ]
        | UnsetType
    ) = UNSET
    goal: Annotated[str, Meta(description="What it is to reach.", max_length=16_384)] = ""
    idempotency_key: Key | UnsetType = UNSET


class Participant(Arguments, frozen=True, kw_only=True):
    """Arguments of ``add_participant`` and ``remove_participant``."""

    thread_id: Thread
    agent: AgentArg


class SendMessage(Arguments, frozen=True, kw_only=True):
    """Arguments of ``send_message``."""

    thread_id: Thread
    content: Content
    mentions: Mentions = []
    data: Data | UnsetType = UNSET
    in_reply_to: (
        Annotated[str, Meta(description="The message that this one answers.", max_length=64)]
        | UnsetType
    ) = UNSET
    quick: Annotated[
        bool,
        Meta(description="A question that a busy agent answers at once, such as how far it is."),
    ] = False
    idempotency_key: Key | UnsetType = UNSET


class Reply(Arguments, frozen=True, kw_only=True):
    """Arguments of ``reply``."""

    thread_id: Thread
    message_id: EventRef
    content: Content
    data: Data | UnsetType = UNSET
    declined: Annotated[
        bool, Meta(description="You cannot do what was asked; the content says why.")
    ] = False


class WaitForMentions(Arguments, frozen=True, kw_only=True):
    """Arguments of ``wait_for_mentions``."""

    timeout_s: Wait = 30
    cursor: Annotated[
        str,
        Meta(
            description="The cursor of the result before. It says that you have received that "
            "result; without it the same mentions come again.",
            max_length=1024,
        ),
    ] = ""
    thread_id: Thread | UnsetType = UNSET
    max_messages: Annotated[int, Meta(ge=1, le=32)] = 10


class CloseThread(Arguments, frozen=True, kw_only=True):
    """Arguments of ``close_thread``."""

    thread_id: Thread
    summary: Annotated[str, Meta(description="What came of it.", min_length=1, max_length=16_384)]
    outcome: Literal["concluded", "abandoned", "failed", "cancelled"] = "concluded"


class GetThread(Arguments, frozen=True, kw_only=True):
    """Arguments of ``get_thread``."""

    thread_id: Thread
    after: Annotated[
        int, Meta(description="Only what is later than this `last` of a result before.", ge=0)
    ] = 0
    limit: Count = 50


class ListThreads(Arguments, frozen=True, kw_only=True):
    """Arguments of ``list_threads``."""

    include_closed: bool = False
    limit: Count = 20


class WaitForResults(Arguments, frozen=True, kw_only=True):
    """Arguments of ``wait_for_results``."""

    thread_id: Thread
    assignment_ids: Annotated[
        list[EventRef],
        Meta(
            description="The message_id of each assignment: a list of strings.",
            min_length=1,
            max_length=64,
        ),
    ]
    timeout_s: Wait = 45


class Assign(Arguments, frozen=True, kw_only=True):
    """Arguments of ``assign``."""

    thread_id: Thread
    agent: AgentArg
    content: Content
    title: Annotated[str, Meta(max_length=400)] = ""
    notify: Annotated[
        bool,
        Meta(
            description="The result mentions you, so that wait_for_mentions brings it. Otherwise "
            "use wait_for_results."
        ),
    ] = False
    idempotency_key: Key | UnsetType = UNSET


class ReportProgress(Arguments, frozen=True, kw_only=True):
    """Arguments of ``report_progress``."""

    thread_id: Thread
    note: Annotated[str, Meta(description="How far you are.", min_length=1, max_length=16_384)]
    assignment_id: EventRef | UnsetType = UNSET
    fraction: Annotated[float, Meta(description="From 0 to 1.", ge=0, le=1)] | UnsetType = UNSET


class Propose(Arguments, frozen=True, kw_only=True):
    """Arguments of ``propose``."""

    thread_id: Thread
    content: Content
    voters: Annotated[
        list[Annotated[str, Meta(max_length=256)]],
        Meta(
            description="Who votes, by name: a list of strings. They are mentioned.",
            min_length=1,
            max_length=16,
        ),
    ]
    quorum: Annotated[int, Meta(description="Approvals needed; all voters if absent.", ge=1)] | (
        UnsetType
    ) = UNSET
    idempotency_key: Key | UnsetType = UNSET


class Vote(Arguments, frozen=True, kw_only=True):
    """Arguments of ``vote``."""

    thread_id: Thread
    proposal_id: EventRef
    verdict: Literal["approve", "reject"]
    reasons: Reasons = []


class WaitForVotes(Arguments, frozen=True, kw_only=True):
    """Arguments of ``wait_for_votes``."""

    thread_id: Thread
    proposal_id: EventRef
    timeout_s: Wait = 45


class SubmitAnswer(Arguments, frozen=True, kw_only=True):
    """Arguments of ``submit_answer``."""

    thread_id: Thread
    content: Content
    data: Data | UnsetType = UNSET
    sources: Annotated[
        list[EventRef],
        Meta(description="The ids of messages that it rests on: a list.", max_length=256),
    ] = []
    dissent: Reasons = []


class Ask(Arguments, frozen=True, kw_only=True):
    """Arguments of ``ask``; those of ``ask_<agent>`` are the same without the agent."""

    agent: AgentArg | UnsetType = UNSET
    question: Annotated[
        str,
        Meta(
            description="What you want of it, with everything that it needs to know.",
            max_length=MAX_CONTENT_CHARS,
        ),
    ] = ""
    data: Data | UnsetType = UNSET
    task_id: (
        Annotated[
            str,
            Meta(
                description="Wait on for the answer to an earlier question, by the task_id of "
                "its result. Leave question and agent out.",
                max_length=128,
            ),
        ]
        | UnsetType
    ) = UNSET
    timeout_s: Annotated[
        float,
        Meta(
            description=f"Seconds to wait; more than {MAX_WAIT_S} only if your host allows a "
            "call so long.",
            ge=0,
            le=MAX_ASK_S,
        ),
    ] = 45
    idempotency_key: Key | UnsetType = UNSET


class AskAgent(Arguments, frozen=True, kw_only=True):
    """Arguments of ``ask_<agent>``."""

    question: Annotated[
        str,
        Meta(
            description="What you want of it, with everything that it needs to know.",
            min_length=1,
            max_length=MAX_CONTENT_CHARS,
        ),
    ]
    data: Data | UnsetType = UNSET
    timeout_s: Annotated[
        float,
        Meta(
            description=f"Seconds to wait; more than {MAX_WAIT_S} only if your host allows a "
            "call so long.",
            ge=0,
            le=MAX_ASK_S,
        ),
    ] = 45
    idempotency_key: Key | UnsetType = UNSET
