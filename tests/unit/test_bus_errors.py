"""Every error of the bus says what was given and what to do, and survives a pickle."""

import pickle
from pathlib import Path

import pytest

import threadbus.bus
from threadbus.bus import (
    AgentNameTakenError,
    AgentReplacedError,
    AppendError,
    AppendTimeoutError,
    ArtifactCorruptError,
    ArtifactError,
    ArtifactNotFoundError,
    ArtifactNotStoredError,
    ArtifactTooLargeError,
    BusError,
    ClosedError,
    ConflictError,
    ConnectError,
    InvalidSettingError,
    InvalidTransitionError,
    JetStreamMissingError,
    MentionFailedError,
    NoServerError,
    NotAdmittedError,
    NotAParticipantError,
    PayloadTooLargeError,
    PermissionDeniedError,
    RateLimitedError,
    ReadError,
    ReadTimeoutError,
    RegistryError,
    ServerTooOldError,
    StorageFullError,
    StreamMismatchError,
    TaskFailedError,
    TaskNotFoundError,
    TeamLimitError,
    ThreadClosedError,
    ThreadNotFoundError,
    UnknownAgentError,
    WaitTimeoutError,
)

CASES: list[tuple[BusError, list[str]]] = [
    (NoServerError("nats://x", "refused"), ["nats://x", "refused", "`bus up`", "BUS_URL"]),
    (NotAdmittedError("nats://x", "", "violation"), ["nats://x", "violation", "--nkey"]),
    (NotAdmittedError("nats://x", "web.nk", "violation"), ["web.nk", "violation", "rotate"]),
    (ServerTooOldError("nats://x", "2.9", "2.12"), ["2.9", "nats://x", "2.12", "`bus up`"]),
    (JetStreamMissingError("nats://x", "no account"), ["nats://x", "no account", "`-js`"]),
    (JetStreamMissingError("nats://x"), ["nats://x has no JetStream", "account;"]),
    (StreamMismatchError("BUS", ["storage is memory", "b"]), ["BUS", "storage is memory; b"]),
    (ClosedError(), ["the bus is closed", "connect"]),
    (TaskNotFoundError("t1"), ["t1", "`bus tasks`"]),
    (ThreadNotFoundError("t1", "x", ["main", "y"]), ["'x'", "t1", "main, y"]),
    (ThreadNotFoundError("t1", "x"), ["no thread 'x' in super-task t1"]),
    (ThreadClosedError("t1", "y", "failed", "no data"), ["y", "t1", "failed", "no data"]),
    (NotAParticipantError(["a"], "t1", "y", ["b", "c"]), ["a is not a", "y", "t1", "b, c"]),
    (NotAParticipantError(["a", "d"], "t1", "y", ["b"]), ["a, d are not participants"]),
    (UnknownAgentError("wep", ["web", "wet"]), ["'wep'", "web or wet", "`bus agents`"]),
    (UnknownAgentError("x"), ["no agent 'x' is registered; `bus agents`"]),
    (ConflictError("bus.t", 16, 42), ["bus.t", "16", "42", "try again"]),
    (InvalidTransitionError("adding x", "it is in", ["a", "b"]), ["adding x", "it is in", "a, b"]),
    (TeamLimitError("members", 5, 4, "numbers"), ["'numbers'", "5 members", "max_members"]),
    (TeamLimitError("depth", 3, 2, "numbers"), ["'numbers'", "3 levels", "max_depth"]),
    (PayloadTooLargeError(2_000_000, 1_048_576), ["2,000,000", "1,048,576", "max_payload"]),
    (StorageFullError("maximum bytes"), ["maximum bytes", "nothing was stored"]),
    (
        PermissionDeniedError("publishing", "bus.t.main.msg.web"),
        ["publishing", "bus.t.main.msg.web", "only web", "add-agent web"],
    ),
    (AppendTimeoutError("e1", 30.0), ["e1", "30 s", "append the same event again"]),
    (
        RateLimitedError("web", 200, 10_000, 40.0, 30.0, "ops"),
        ["web", "200 events", "10,000", "40.0 s", "30 s", "set by ops", "`bus limits set web"],
    ),
    (RateLimitedError("web", 200, 10_000, 40.0, 30.0, ""), ["from the settings"]),
    (ReadError("stream BUS", "no answer"), ["stream BUS", "no answer"]),
    (ReadTimeoutError("stream BUS", "no responders"), ["stream BUS", "no responders"]),
    (WaitTimeoutError("the answer", 1.5), ["the answer", "1.5 s", "wait again"]),
    (TaskFailedError("t1", "failed", "why"), ["t1", "failed", "why", "`busreplay t1`"]),
    (TaskFailedError("t1", "cancelled", ""), ["ended cancelled; `busreplay"]),
    (AgentNameTakenError("web", "h1", "box", 7), ["'web'", "h1", "7", "box", "--takeover"]),
    (AgentReplacedError("web", "h2"), ["'web'", "h2", "stops"]),
    (ArtifactNotFoundError("ab12"), ["ab12"]),
    (ArtifactNotStoredError("ab12", 70_000, "no space"), ["ab12", "70,000", "no space"]),
    (ArtifactCorruptError("ab12", "cd34"), ["ab12", "cd34", "not used"]),
    (ArtifactTooLargeError(2_000, 1_000), ["2,000", "1,000", "BUS_ARTIFACT_MAX_BYTES"]),
    (InvalidSettingError("BUS_X", "-1", "above 0"), ["BUS_X", "-1", "above 0"]),
    (MentionFailedError("web", "ValueError", "no file"), ["web", "ValueError", "no file"]),
]
ROOTS = (BusError, ConnectError, AppendError, RegistryError, ArtifactError)


def public_errors() -> set[type[BusError]]:
    """Return every error class that the folder offers."""
    found = [getattr(threadbus.bus, name) for name in threadbus.bus.__all__]
    return {one for one in found if isinstance(one, type) and issubclass(one, BusError)}


@pytest.mark.parametrize(("error", "words"), CASES)
def test_a_message_names_value_and_way_out(error: BusError, words: list[str]) -> None:
    """What was wrong is in the message, and what helps."""
    assert [word for word in words if word not in str(error)] == []


@pytest.mark.parametrize(("error", "words"), CASES)
def test_an_error_survives_a_pickle(error: BusError, words: list[str]) -> None:
    """It keeps its type, attributes and message."""
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - just made here

    assert type(copy) is type(error)
    assert vars(copy) == vars(error)
    assert str(copy) == str(error)


def test_every_error_is_looked_at_here() -> None:
    """An error that is added has its case above."""
    assert {type(error) for error, _ in CASES} == public_errors() - set(ROOTS)


def test_errors_are_caught_by_what_a_caller_can_do() -> None:
    """Refused appends, time that ran out and too much content are caught by their roots."""
    assert issubclass(ThreadClosedError, AppendError)
    assert issubclass(UnknownAgentError, AppendError)
    assert issubclass(AppendTimeoutError, TimeoutError)
    assert issubclass(WaitTimeoutError, TimeoutError)
    assert issubclass(ReadTimeoutError, TimeoutError)
    assert issubclass(ReadTimeoutError, ReadError)
    assert issubclass(PayloadTooLargeError, ValueError)
    assert issubclass(ArtifactTooLargeError, ValueError)
    assert issubclass(NoServerError, ConnectError)
    assert issubclass(AgentNameTakenError, RegistryError)


def test_the_readme_tells_of_every_error() -> None:
    """Each error has its line in the README of the folder."""
    readme = (Path(__file__).parents[2] / "bus" / "README.md").read_text(encoding="utf-8")

    assert [
        one.__name__ for one in public_errors() - set(ROOTS) if one.__name__ not in readme
    ] == []


def test_text_from_outside_is_shortened_in_messages() -> None:
    """An error stays readable and safe to print, however long or strange what was given is."""
    for error in (
        UnknownAgentError("x\x1b[31m" * 1000),
        ThreadNotFoundError("t", "y\n" * 1000),
        InvalidSettingError("BUS_X", "z\x00" * 1000, "a number"),
    ):
        assert len(str(error)) < 300
        assert str(error).isprintable()
