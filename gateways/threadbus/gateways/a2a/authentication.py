"""Who calls: a bearer token or an API key of the tokens file, as an ASGI layer."""

from __future__ import annotations

from typing import Final, Protocol

from a2a.utils.constants import AGENT_CARD_WELL_KNOWN_PATH
from starlette.types import ASGIApp, Receive, Scope, Send

from threadbus.gateways.a2a.callers import Caller
from threadbus.gateways.principals import Principal
from threadbus.gateways.web.limits import client_of, header, refuse
from threadbus.schemas import AgentName

_STATE: Final = "threadbus.caller"
_NOBODY: Final = AgentName("nobody")


class Finder(Protocol):
    """Says whose a token is."""

    def find(self, token: str) -> Principal | None:
        """Return whose token it is, None where it is nobody's."""
        ...


class Authentication:
    """Lets in who has a token; cards and the catalogue are for everybody."""

    def __init__(self, app: ASGIApp, principals: Finder | None, guest: AgentName) -> None:
        """Wrap *app*.

        Args:
            app: what is protected.
            principals: whose tokens are taken; with None everybody is the guest.
            guest: under which name callers without tokens are on the bus.
        """
        self._app = app
        self._principals = principals
        self._guest = guest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Find out who calls, then call the application."""
        if scope["type"] == "http":
            caller = self._caller(scope)
            if caller is None:
                await refuse(
                    send,
                    401,
                    "this needs a token: Authorization: Bearer TOKEN, or X-API-Key: TOKEN",
                    {"www-authenticate": 'Bearer realm="threadbus"'},
                )
                return
            scope[_STATE] = caller
        await self._app(scope, receive, send)

    def _caller(self, scope: Scope) -> Caller | None:
        token = token_of(header(scope, b"authorization"), header(scope, b"x-api-key"))
        caller = identify(self._principals, self._guest, token, client_of(scope))
        if caller is None and not token and _is_public(scope):
            return Caller(f"public {client_of(scope)}", _NOBODY, "")
        return caller


def token_of(authorization: str, api_key: str) -> str:
    """Return the token of a request's two headers; empty where there is none."""
    scheme, _, rest = authorization.partition(" ")
    return rest.strip() if scheme.lower() == "bearer" else api_key


def identify(principals: Finder | None, guest: AgentName, token: str, client: str) -> Caller | None:
    """Return who calls; None where the token is nobody's.

    Args:
        principals: whose tokens are taken; with None everybody is the guest.
        guest: under which name callers without tokens are on the bus.
        token: what the request came with.
        client: the address it came from.
    """
    if principals is None:
        return Caller(f"guest {client}", guest, "")
    found = principals.find(token) if token else None
    return None if found is None else Caller(found.name, found.agent, "", is_authenticated=True)


def _is_public(scope: Scope) -> bool:
    path: str = scope["path"]
    is_card = path == "/agents" or path.endswith(AGENT_CARD_WELL_KNOWN_PATH)
    return scope["method"] in {"GET", "HEAD"} and is_card


def caller_in(scope: Scope) -> Caller:
    """Return who makes a request that has passed :class:`Authentication`."""
    caller = scope[_STATE]
    if not isinstance(caller, Caller):
        raise TypeError(f"no caller in the scope of {scope['path']!r}")
    return caller
