"""Errors outside of tools: what a host gets for a resource, a prompt or a list that went wrong."""

from __future__ import annotations

import secrets
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final

from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS

from threadbus.bus import SteadyLog
from threadbus.gateways.mcp.failures import explain, internal
from threadbus.schemas import ThreadbusError

_log: Final = SteadyLog("threadbus.gateways.mcp")


@contextmanager
def speaking_plainly(me: str, uri: str = "") -> Generator[None]:
    """Turn errors into those of the protocol, with the words that a tool would have for them.

    Args:
        me: who called.
        uri: the resource that was asked for, if any.
    """
    try:
        yield
    except MCPError:
        raise
    except ThreadbusError as error:
        failure = explain(error, me)
        data: dict[str, Any] = {"kind": failure.kind, **failure.details}
        if uri:
            data["uri"] = uri
        raise MCPError(INVALID_PARAMS, failure.text, data) from error
    except TimeoutError as error:
        raise MCPError(INTERNAL_ERROR, "The bus does not answer at the moment.") from error
    except Exception as error:
        # What is inside must not get out.
        reference = secrets.token_hex(4)
        _log.exception("a request failed", reference=reference, kind=type(error).__name__)
        raise MCPError(INTERNAL_ERROR, internal(reference).text) from error
