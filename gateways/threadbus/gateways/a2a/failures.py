"""What goes wrong inside, as the protocol says it: never more than the caller may know."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from a2a.utils.errors import (
    A2AError,
    InternalError,
    InvalidParamsError,
    TaskNotFoundError,
    UnsupportedOperationError,
)

from threadbus.bus import (
    ArtifactTooLargeError,
    BusError,
    InvalidTransitionError,
    NotAParticipantError,
    SteadyLog,
    ThreadClosedError,
    UnknownAgentError,
)
from threadbus.bus import (
    TaskNotFoundError as NoSuchTaskError,
)
from threadbus.gateways.errors import GatewayError, SealError
from threadbus.schemas import SchemaError

_log: Final = SteadyLog("threadbus.gateways.a2a")


@contextmanager
def told() -> Generator[None]:
    """Turn what is raised inside into an error of the protocol; the log has the rest."""
    try:
        yield
    except A2AError:
        raise
    except SealError as error:
        # It names a file of the operator's.
        _log.error("a push configuration cannot be read", reason=str(error))
        raise InternalError("Something went wrong here; the operator's log says what.") from error
    except (SchemaError, GatewayError, ArtifactTooLargeError) as error:
        # These name a value of the request and its limit, and nothing else.
        raise InvalidParamsError(str(error)) from error
    except NoSuchTaskError as error:
        raise TaskNotFoundError from error
    except ThreadClosedError as error:
        raise UnsupportedOperationError("The task has ended.") from error
    except InvalidTransitionError as error:
        raise UnsupportedOperationError("The task is in another state by now.") from error
    except (NotAParticipantError, UnknownAgentError) as error:
        _log.info("a message was refused", reason=str(error))
        raise UnsupportedOperationError("Who was asked does not take part any more.") from error
    except (BusError, TimeoutError) as error:
        _log.warning("the bus did not do what was asked", reason=str(error))
        raise InternalError("The bus does not answer as it should; try again.") from error
    except Exception as error:
        _log.exception("a request failed", exc_info=error)
        raise InternalError("Something went wrong here; the operator's log says what.") from error
