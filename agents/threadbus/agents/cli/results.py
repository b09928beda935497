"""What the commands print with ``--json``: one struct each, their keys stable and documented.

Times are nanoseconds since the epoch, ages and durations nanoseconds. A key may be added; none
is renamed or taken away.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from threadbus.agents.cli.results_operating import (
    AuthChanged,
    AuthLimited,
    AuthList,
    AuthReloaded,
    AuthRoles,
    BackupDone,
    CertificatesRenewed,
    ClusterMade,
    CopiesSet,
    Forgot,
    GuardLine,
    LimitsShown,
    MetricsServed,
    means,
)
from threadbus.agents.discovery import FoundAgent
from threadbus.bus import TaskSummary, cluster
from threadbus.schemas import AgentCard, Parts, Presence


class Said(msgspec.Struct, kw_only=True):
    """What `send`, `reply` and `cancel` print."""

    task: Annotated[str, means("the super-task")]
    thread: Annotated[str, means("the thread in it")]
    id: Annotated[str, means("the event that was appended")]
    seq: Annotated[int, means("its place in the log")]
    stored: Annotated[list[str], means("mentioned agents that are not living; it waits")] = []


class Registered(msgspec.Struct, kw_only=True):
    """What `register` and `deregister` print."""

    agent: Annotated[str, means("the agent's name")]
    inbox: Annotated[str, means("where its mentions are; empty once it is not registered")]


class Asked(msgspec.Struct, kw_only=True):
    """What `ask` and `attach` print at the end, and `ask --no-wait` at once."""

    task: Annotated[str, means("the super-task")]
    status: Annotated[str, means("working, completed, failed, cancelled …")]
    answer: Annotated[str | None, means("the text of the answer")] = None
    parts: Annotated[Parts, means("the answer in parts")] = ()
    summary: Annotated[str, means("why it ended, where it has no answer")] = ""
    stored: Annotated[list[str], means("asked agents that are not living; the question waits")] = []
    tokens: Annotated[int, means("model tokens that were used")] = 0
    events: Annotated[int, means("events of the super-task")] = 0


class Tasks(msgspec.Struct, kw_only=True):
    """What `tasks` prints."""

    tasks: Annotated[list[TaskSummary], means("the newest first")]


class ThreadRow(msgspec.Struct, kw_only=True):
    """One thread."""

    thread: str
    title: str
    parent: str | None
    is_open: bool
    creator: str | None
    participants: list[str]
    conversation: str
    outcome: str
    summary: str
    opened_at: int


class Threads(msgspec.Struct, kw_only=True):
    """What `threads` prints."""

    task: Annotated[str, means("the super-task")]
    status: Annotated[str, means("where it stands")]
    threads: Annotated[list[ThreadRow], means("in the order in which they were opened")]


class AgentRow(msgspec.Struct, kw_only=True):
    """One agent."""

    name: str
    living: bool
    waiting: Annotated[int, means("mentions in its inbox that are not settled")]
    card: AgentCard
    holder: str
    replicas: int
    registered_at: int
    instances: list[Presence]


class Agents(msgspec.Struct, kw_only=True):
    """What `agents` prints."""

    agents: Annotated[list[AgentRow], means("by name")]


class StreamRow(msgspec.Struct, kw_only=True):
    """One stream."""

    name: str
    exists: bool
    messages: int
    bytes: int
    consumers: int
    copies: int
    lag: int
    differences: list[str]


class WaitingRow(msgspec.Struct, kw_only=True):
    """Mentions that an agent has not settled."""

    agent: str
    count: int
    oldest_age: int | None
    oldest_task: str | None
    oldest_sender: str | None


class Status(msgspec.Struct, kw_only=True):
    """What `status` prints."""

    url: Annotated[str, means("where the server is")]
    url_source: Annotated[str, means("flag, environment, bus up or default")]
    server: Annotated[str, means("its name")]
    version: Annotated[str, means("its version")]
    max_payload: Annotated[int, means("bytes that one event may have")]
    sync: Annotated[str, means("how often data is forced to the disk; unknown for a remote one")]
    durability: Annotated[str, means("what that means")]
    streams: Annotated[list[StreamRow], means("what the server keeps")]
    living: Annotated[list[str], means("agents with a heartbeat")]
    gone: Annotated[list[str], means("registered agents without one")]
    unanswered: Annotated[list[WaitingRow], means("mentions that nobody has settled yet")]
    storage_bytes: Annotated[int | None, means("bytes on disk of this account")] = None
    storage_limit: Annotated[int | None, means("bytes that it may have; null: open")] = None
    unseen: Annotated[list[str], means("what these credentials may not see")] = []


class Check(msgspec.Struct, kw_only=True):
    """One check of `doctor`."""

    name: str
    verdict: Annotated[str, means("ok, note, unseen or wrong")]
    found: Annotated[str, means("the value")]
    advice: Annotated[str, means("what to do; empty where all is well")] = ""
    limit: Annotated[str, means("what the value is judged by, where it is a number")] = ""


class Diagnosis(msgspec.Struct, kw_only=True):
    """What `doctor` prints."""

    healthy: Annotated[bool, means("whether nothing is wrong")]
    checks: Annotated[list[Check], means("in the order in which they were made")]


class SettingRow(msgspec.Struct, kw_only=True):
    """One setting."""

    setting: str
    value: str
    source: Annotated[str, means("flag, environment, bus up or default")]
    flag: str
    env: str
    help: str


class Config(msgspec.Struct, kw_only=True):
    """What `config` prints."""

    settings: Annotated[list[SettingRow], means("every setting")]


class Up(msgspec.Struct, kw_only=True):
    """What `up` prints once the server answers."""

    url: Annotated[str, means("where to connect")]
    pid: Annotated[int, means("the server's process")]
    data: Annotated[str, means("the data folder")]
    version: Annotated[str, means("of nats-server")]


class Running(msgspec.Struct, kw_only=True):
    """What `run` prints once mentions are taken, one line for each replica."""

    agent: Annotated[str, means("the agent's name")]
    pid: Annotated[int, means("the process")]
    model: Annotated[str, means("what it thinks with; empty for none")]
    playbook: Annotated[bool, means("whether a playbook answers instead of a model")]


class Project(msgspec.Struct, kw_only=True):
    """What `init` prints."""

    folder: Annotated[str, means("where the project is")]
    agent: Annotated[str, means("the agent's name")]
    files: Annotated[list[str], means("what was written")]


class Demo(msgspec.Struct, kw_only=True):
    """What `demo` prints at the end."""

    task: Annotated[str, means("the super-task")]
    answer: Annotated[str, means("the text of the answer")]
    playbook: Annotated[bool, means("whether a playbook answered instead of a model")]
    file: Annotated[str, means("the exported log of the run")]
    replay: Annotated[str, means("the command that shows it again")]


class Evaluated(msgspec.Struct, kw_only=True):
    """What `eval` prints at the end."""

    report: Annotated[str, means("the report as Markdown, a file")]
    data: Annotated[str, means("the report as JSON, a file")]
    results: Annotated[str, means("the file of results, which a run goes on from")]
    questions: Annotated[int, means("questions")]
    scored: Annotated[int, means("questions with a known answer, all attempts ended")]
    ended: Annotated[int, means("attempts that have ended")]
    without_answer: Annotated[int, means("attempts that ended without an answer")]
    pass_at: Annotated[list[float], means("pass@1 to pass@k, each from 0 to 1")]
    input_tokens: Annotated[int, means("tokens that models were given")]
    output_tokens: Annotated[int, means("tokens that models gave")]
    cost: Annotated[float | None, means("dollars; null without prices")]


class Found(msgspec.Struct, kw_only=True):
    """What `find` prints."""

    query: Annotated[str, means("what was looked for")]
    ranker: Annotated[str, means("bm25, embeddings, local or fused")]
    agents: Annotated[list[FoundAgent], means("the best first, each with its score and why")]


OF_COMMAND: Final[dict[str, type[msgspec.Struct]]] = {
    "agents": Agents,
    "ask": Asked,
    "attach": Asked,
    "auth init": AuthChanged,
    "auth add-agent": AuthChanged,
    "auth act-for": AuthChanged,
    "auth add-gateway": AuthChanged,
    "auth add-observer": AuthChanged,
    "auth add-operator": AuthChanged,
    "auth limit": AuthLimited,
    "auth list": AuthList,
    "auth mute": AuthChanged,
    "auth reload": AuthReloaded,
    "auth revoke": AuthChanged,
    "auth roles": AuthRoles,
    "auth rotate": AuthChanged,
    "auth unmute": AuthChanged,
    "backup": BackupDone,
    "cancel": Said,
    "cluster copies": CopiesSet,
    "cluster init": ClusterMade,
    "cluster renew": CertificatesRenewed,
    "cluster status": cluster.ClusterStatus,
    "cluster sync": cluster.ClusterStatus,
    "deregister": Registered,
    "config": Config,
    "demo": Demo,
    "doctor": Diagnosis,
    "eval": Evaluated,
    "find": Found,
    "guard": GuardLine,
    "forget": Forgot,
    "init": Project,
    "metrics": MetricsServed,
    "limits clear": LimitsShown,
    "limits list": LimitsShown,
    "limits set": LimitsShown,
    "register": Registered,
    "reply": Said,
    "restore": BackupDone,
    "run": Running,
    "send": Said,
    "status": Status,
    "tasks": Tasks,
    "threads": Threads,
    "up": Up,
}
"""Command → what it prints. `watch` prints one event of the log a line."""
