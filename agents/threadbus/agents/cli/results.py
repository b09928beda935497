"""What the commands print with ``--json``: one struct each, their keys stable and documented.

Times are nanoseconds since the epoch, ages and durations nanoseconds. A key may be added; none
is renamed or taken away.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from threadbus.agents.discovery import FoundAgent
from threadbus.bus import TaskSummary, backup, cluster
from threadbus.schemas import AgentCard, Parts, Presence


def _about(text: str) -> msgspec.Meta:
    return msgspec.Meta(description=text)


class Said(msgspec.Struct, kw_only=True):
    """What `send`, `reply` and `cancel` print."""

    task: Annotated[str, _about("the super-task")]
    thread: Annotated[str, _about("the thread in it")]
    id: Annotated[str, _about("the event that was appended")]
    seq: Annotated[int, _about("its place in the log")]
    stored: Annotated[list[str], _about("mentioned agents that are not living; it waits")] = []


class Registered(msgspec.Struct, kw_only=True):
    """What `register` and `deregister` print."""

    agent: Annotated[str, _about("the agent's name")]
    inbox: Annotated[str, _about("where its mentions are; empty once it is not registered")]


class Asked(msgspec.Struct, kw_only=True):
    """What `ask` and `attach` print at the end, and `ask --no-wait` at once."""

    task: Annotated[str, _about("the super-task")]
    status: Annotated[str, _about("working, completed, failed, cancelled …")]
    answer: Annotated[str | None, _about("the text of the answer")] = None
    parts: Annotated[Parts, _about("the answer in parts")] = ()
    summary: Annotated[str, _about("why it ended, where it has no answer")] = ""
    stored: Annotated[
        list[str], _about("asked agents that are not living; the question waits")
    ] = []
    tokens: Annotated[int, _about("model tokens that were used")] = 0
    events: Annotated[int, _about("events of the super-task")] = 0


class Tasks(msgspec.Struct, kw_only=True):
    """What `tasks` prints."""

    tasks: Annotated[list[TaskSummary], _about("the newest first")]


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

    task: Annotated[str, _about("the super-task")]
    status: Annotated[str, _about("where it stands")]
    threads: Annotated[list[ThreadRow], _about("in the order in which they were opened")]


class ForgottenRow(msgspec.Struct, kw_only=True):
    """What was taken away of one agent."""

    agent: str
    registered: Annotated[bool, _about("whether it had a record")]
    waiting: Annotated[int, _about("mentions that waited for it")]
    dropped: Annotated[int, _about("how many of those were dropped from its inbox")]


class Forgot(msgspec.Struct, kw_only=True):
    """What `forget` prints."""

    agents: Annotated[list[ForgottenRow], _about("in the order given")]


class AgentRow(msgspec.Struct, kw_only=True):
    """One agent."""

    name: str
    living: bool
    waiting: Annotated[int, _about("mentions in its inbox that are not settled")]
    card: AgentCard
    holder: str
    replicas: int
    registered_at: int
    instances: list[Presence]


class Agents(msgspec.Struct, kw_only=True):
    """What `agents` prints."""

    agents: Annotated[list[AgentRow], _about("by name")]


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

    url: Annotated[str, _about("where the server is")]
    url_source: Annotated[str, _about("flag, environment, bus up or default")]
    server: Annotated[str, _about("its name")]
    version: Annotated[str, _about("its version")]
    max_payload: Annotated[int, _about("bytes that one event may have")]
    sync: Annotated[str, _about("how often data is forced to the disk; unknown for a remote one")]
    durability: Annotated[str, _about("what that means")]
    streams: Annotated[list[StreamRow], _about("what the server keeps")]
    living: Annotated[list[str], _about("agents with a heartbeat")]
    gone: Annotated[list[str], _about("registered agents without one")]
    unanswered: Annotated[list[WaitingRow], _about("mentions that nobody has settled yet")]
    storage_bytes: Annotated[int | None, _about("bytes on disk of this account")] = None
    storage_limit: Annotated[int | None, _about("bytes that it may have; null: open")] = None
    unseen: Annotated[list[str], _about("what these credentials may not see")] = []


class Check(msgspec.Struct, kw_only=True):
    """One check of `doctor`."""

    name: str
    verdict: Annotated[str, _about("ok, note, unseen or wrong")]
    found: Annotated[str, _about("the value")]
    advice: Annotated[str, _about("what to do; empty where all is well")] = ""
    limit: Annotated[str, _about("what the value is judged by, where it is a number")] = ""


class Diagnosis(msgspec.Struct, kw_only=True):
    """What `doctor` prints."""

    healthy: Annotated[bool, _about("whether nothing is wrong")]
    checks: Annotated[list[Check], _about("in the order in which they were made")]


class SettingRow(msgspec.Struct, kw_only=True):
    """One setting."""

    setting: str
    value: str
    source: Annotated[str, _about("flag, environment, bus up or default")]
    flag: str
    env: str
    help: str


class Config(msgspec.Struct, kw_only=True):
    """What `config` prints."""

    settings: Annotated[list[SettingRow], _about("every setting")]


class Up(msgspec.Struct, kw_only=True):
    """What `up` prints once the server answers."""

    url: Annotated[str, _about("where to connect")]
    pid: Annotated[int, _about("the server's process")]
    data: Annotated[str, _about("the data folder")]
    version: Annotated[str, _about("of nats-server")]


class IdentityRow(msgspec.Struct, kw_only=True):
    """One identity: whoever has its nkey. Nothing of it is secret."""

    tenant: Annotated[str, _about("whose it is: a NATS account")]
    name: Annotated[str, _about("its name")]
    role: Annotated[str, _about("operator, agent, gateway or observer")]
    public_key: Annotated[str, _about("the public half of its nkey")]
    acts_for: Annotated[list[str], _about("names that a gateway speaks as besides")] = []
    can: Annotated[list[str], _about("what it may do besides")] = []
    muted: Annotated[str, _about("who muted it, when and why; empty where it may speak")] = ""
    added_at: Annotated[str, _about("when its present key was made, in UTC")] = ""


class AuthChanged(IdentityRow, kw_only=True):
    """What the commands of `auth` print that add, change or take out somebody."""

    key_file: Annotated[str, _about("where its nkey is; empty once it is revoked")] = ""
    reloaded: Annotated[list[int], _about("servers (processes) that took it in at once")] = []


class AuthLimited(msgspec.Struct, kw_only=True):
    """What `auth limit` prints."""

    tenant: Annotated[str, _about("which tenant")]
    connections: Annotated[int, _about("connections at a time; 0 is open")]
    file_bytes: Annotated[int, _about("bytes of all its streams; 0 is open")]
    message_bytes: Annotated[int, _about("bytes of one message; 0 is open")] = 0
    subscriptions: Annotated[int, _about("subscriptions of one connection; 0 is open")] = 0
    reloaded: Annotated[list[int], _about("servers (processes) that took it in at once")] = []


class AuthReloaded(msgspec.Struct, kw_only=True):
    """What `auth reload` prints."""

    reloaded: Annotated[list[int], _about("servers (processes) that read the accounts again")]


class AuthList(msgspec.Struct, kw_only=True):
    """What `auth list` prints."""

    folder: Annotated[str, _about("the access folder")]
    identities: Annotated[list[IdentityRow], _about("every identity")]


class RoleLine(msgspec.Struct, kw_only=True):
    """What one role, or one `--can`, may do."""

    name: Annotated[str, _about("the role; of a `--can` with that before it")]
    about: Annotated[str, _about("what it is for")]
    publish: Annotated[list[str], _about("subjects; {me} and {who} stand for names")]
    subscribe: Annotated[list[str], _about("subjects; {me} and {who} stand for names")]


class AuthRoles(msgspec.Struct, kw_only=True):
    """What `auth roles` prints."""

    roles: Annotated[list[RoleLine], _about("the table")]


class MetricsServed(msgspec.Struct, kw_only=True):
    """What `metrics` prints once it serves; with `--once` it prints the metrics themselves."""

    url: Annotated[str, _about("what Prometheus scrapes")]


class Running(msgspec.Struct, kw_only=True):
    """What `run` prints once mentions are taken, one line for each replica."""

    agent: Annotated[str, _about("the agent's name")]
    pid: Annotated[int, _about("the process")]
    model: Annotated[str, _about("what it thinks with; empty for none")]
    playbook: Annotated[bool, _about("whether a playbook answers instead of a model")]


class Project(msgspec.Struct, kw_only=True):
    """What `init` prints."""

    folder: Annotated[str, _about("where the project is")]
    agent: Annotated[str, _about("the agent's name")]
    files: Annotated[list[str], _about("what was written")]


class Demo(msgspec.Struct, kw_only=True):
    """What `demo` prints at the end."""

    task: Annotated[str, _about("the super-task")]
    answer: Annotated[str, _about("the text of the answer")]
    playbook: Annotated[bool, _about("whether a playbook answered instead of a model")]
    file: Annotated[str, _about("the exported log of the run")]
    replay: Annotated[str, _about("the command that shows it again")]


class Evaluated(msgspec.Struct, kw_only=True):
    """What `eval` prints at the end."""

    report: Annotated[str, _about("the report as Markdown, a file")]
    data: Annotated[str, _about("the report as JSON, a file")]
    results: Annotated[str, _about("the file of results, which a run goes on from")]
    questions: Annotated[int, _about("questions")]
    scored: Annotated[int, _about("questions with a known answer, all attempts ended")]
    ended: Annotated[int, _about("attempts that have ended")]
    without_answer: Annotated[int, _about("attempts that ended without an answer")]
    pass_at: Annotated[list[float], _about("pass@1 to pass@k, each from 0 to 1")]
    input_tokens: Annotated[int, _about("tokens that models were given")]
    output_tokens: Annotated[int, _about("tokens that models gave")]
    cost: Annotated[float | None, _about("dollars; null without prices")]


class Found(msgspec.Struct, kw_only=True):
    """What `find` prints."""

    query: Annotated[str, _about("what was looked for")]
    ranker: Annotated[str, _about("bm25, embeddings, local or fused")]
    agents: Annotated[list[FoundAgent], _about("the best first, each with its score and why")]


class LimitRow(msgspec.Struct, kw_only=True):
    """Limits as somebody set them; null where they are as for everybody."""

    events_per_second: int | None
    burst: int | None
    mentions_per_minute: int | None
    exchange: int | None
    set_by: str
    set_at: int
    reason: str


class AgentLimitsRow(msgspec.Struct, kw_only=True):
    """The limits on record for one agent; ``*`` is everybody."""

    agent: str
    limits: Annotated[LimitRow, _about("in force")]
    replaced: Annotated[list[LimitRow], _about("those before, the newest first")]


class LimitsShown(msgspec.Struct, kw_only=True):
    """What the commands of `limits` print."""

    agents: Annotated[list[AgentLimitsRow], _about("who has limits on record")]
    defaults: Annotated[dict[str, int], _about("what the settings say; 0 is no limit")]


class BackupDone(msgspec.Struct, kw_only=True):
    """What `backup` and `restore` print."""

    folder: Annotated[str, _about("the backup")]
    manifest: Annotated[backup.Manifest, _about("what it holds")]


class ClusterMade(msgspec.Struct, kw_only=True):
    """What `cluster init` prints."""

    folder: Annotated[str, _about("the folder of the cluster")]
    url: Annotated[str, _about("where clients connect, every server")]
    nodes: Annotated[list[str], _about("the folder of each server in it")]
    operator_key: Annotated[str, _about("the nkey of the operator, a file")]


class CopiesSet(msgspec.Struct, kw_only=True):
    """What `cluster copies` prints."""

    copies: Annotated[int, _about("servers that keep each stream")]
    changed: Annotated[list[str], _about("streams that were kept by another number")]


class GuardLine(msgspec.Struct, kw_only=True):
    """What `guard` prints, a line for each thing that it does."""

    agent: Annotated[str, _about("who")]
    done: Annotated[str, _about("muted, may speak again …")]
    reason: Annotated[str, _about("why, in words")]


OF_COMMAND: Final[dict[str, type[msgspec.Struct]]] = {
    "agents": Agents,
    "ask": Asked,
    "attach": Asked,
    "auth init": AuthChanged,
    "auth add-agent": AuthChanged,
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
