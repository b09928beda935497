"""The JetStream API: one request, one answer, typed as far as threadbus looks at it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from nats.errors import Error as NatsError

from threadbus.bus._nats.client import DirectClient
from threadbus.bus.errors import ReadTimeoutError

_TIMEOUT_S: Final = 10.0


class ApiError(msgspec.Struct, frozen=True):
    """Why the server refused."""

    code: int = 0
    err_code: int = 0
    description: str = ""


class ApiState(msgspec.Struct, frozen=True):
    """What a stream holds."""

    messages: int = 0
    bytes: int = 0
    last_seq: int = 0
    consumer_count: int = 0
    subjects: dict[str, int] | None = None


class ApiCluster(msgspec.Struct, frozen=True):
    """Where a stream is kept."""

    leader: str = ""
    leader_since: str = ""


class ApiSource(msgspec.Struct, frozen=True):
    """How far a stream is behind one that it is filled from."""

    name: str = ""
    lag: int = 0
    active: int = -1
    """Nanoseconds since it was heard of last; negative where it never was."""


class ApiMessage(msgspec.Struct, frozen=True):
    """A stored message."""

    subject: str = ""
    time: str = ""


class ApiAnswer(msgspec.Struct, frozen=True):
    """An answer of the API; ``error`` says whether it is one."""

    error: ApiError | None = None
    config: dict[str, Any] = {}
    state: ApiState = ApiState()
    cluster: ApiCluster | None = None
    sources: tuple[ApiSource, ...] = ()
    message: ApiMessage = ApiMessage()
    ts: str = ""
    """The server's clock."""
    total: int = 0

    @property
    def err_code(self) -> int:
        """The server's error code, or 0."""
        return 0 if self.error is None else self.error.err_code


_ANSWER: Final = msgspec.json.Decoder(ApiAnswer)


async def look(
    client: DirectClient, subject: str, what: str, request: Mapping[str, Any] | None = None
) -> ApiAnswer:
    """Call the JetStream API about *what*, for a caller that knows nothing of NATS.

    Raises:
        ReadTimeoutError: there was no answer.
        PermissionDeniedError: this identity may not call it.
    """
    try:
        return await api(client, subject, request)
    except (NatsError, TimeoutError) as error:
        raise ReadTimeoutError(what, str(error) or "no answer in time") from error


async def api(
    client: DirectClient,
    subject: str,
    request: Mapping[str, Any] | None = None,
    *,
    timeout_s: float = _TIMEOUT_S,
) -> ApiAnswer:
    """Call the JetStream API and return its answer, also when that is an error.

    Raises:
        nats.errors.Error, TimeoutError: there was no answer.
    """
    body = b"" if request is None else msgspec.json.encode(request)
    return _ANSWER.decode((await client.ask(f"$JS.API.{subject}", body, timeout_s=timeout_s)).body)
