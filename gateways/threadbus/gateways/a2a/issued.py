"""Tokens of an OpenID Connect or OAuth 2 issuer: signed, for us, not over, and whose they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import jwt

from threadbus.bus import SteadyLog
from threadbus.gateways.a2a.authentication import Finder
from threadbus.gateways.errors import InvalidOptionError
from threadbus.gateways.names import agent_name_of
from threadbus.gateways.principals import Principal
from threadbus.schemas import MAX_WORD_CHARS, clean_text

_ALGORITHMS: Final = ("RS256", "RS384", "RS512", "ES256", "ES384", "EdDSA", "PS256")
_MAX_TOKEN_CHARS: Final = 16 * 1024
_MAX_SUBJECT_CHARS: Final = 255
"""As OpenID Connect has it."""
_LEEWAY_S: Final = 30
_log: Final = SteadyLog("threadbus.gateways.a2a")


class IssuedTokens:
    """Whose a token of one issuer is. The issuer is never asked: its keys are in a file."""

    def __init__(self, keys: Path, issuer: str, audience: str, scopes: Sequence[str] = ()) -> None:
        """Prepare; nothing is read before :meth:`load`.

        Args:
            keys: a JSON Web Key Set, as the issuer publishes it.
            issuer: what the tokens name as theirs.
            audience: what the tokens have to be for.
            scopes: what the tokens have to allow, all of it.
        """
        self._path = keys
        self._issuer = issuer
        self._audience = audience
        self._scopes = frozenset(scopes)
        self._keys: dict[str, jwt.PyJWK] = {}

    def load(self) -> None:
        """Read the keys.

        Raises:
            InvalidOptionError: the file holds none.
        """
        try:
            found = jwt.PyJWKSet.from_json(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError, jwt.PyJWTError) as error:
            raise InvalidOptionError(
                "--jwks", str(self._path), "it is a JSON Web Key Set with public keys"
            ) from error
        # A shared secret in it would let anybody who reads the file make tokens.
        self._keys = {key.key_id or "": key for key in found.keys if key.key_type != "oct"}
        if not self._keys:
            raise InvalidOptionError("--jwks", str(self._path), "it holds no public key")

    def find(self, token: str) -> Principal | None:
        """Return whose *token* it is, None where it is nobody's."""
        if len(token) > _MAX_TOKEN_CHARS or token.count(".") != 2:
            return None
        try:
            key_id = jwt.get_unverified_header(token).get("kid") or ""
            key = self._keys.get(key_id)
            if key is None:
                return None
            claims: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=list(_ALGORITHMS),
                audience=self._audience,
                issuer=self._issuer,
                leeway=_LEEWAY_S,
                options={"require": ["exp", "sub"]},
            )
        except jwt.PyJWTError as error:
            _log.info("a token was refused", reason=type(error).__name__)
            return None
        missing = self._scopes - _scopes_of(claims)
        if missing:
            _log.info("a token was refused", reason="it lacks a scope", missing=sorted(missing))
            return None
        subject = str(claims["sub"])
        if not 1 <= len(subject) <= _MAX_SUBJECT_CHARS or clean_text(subject) != subject:
            # What is cut or replaced in it could make one of two.
            _log.info("a token was refused", reason="its subject is none")
            return None
        # With the issuer in it the name can be nobody's who registered a plain one.
        name = agent_name_of(f"{self._issuer} {subject}")
        return Principal(clean_text(f"{self._issuer} {subject}", MAX_WORD_CHARS), name)


def _scopes_of(claims: Mapping[str, Any]) -> set[str]:
    """Return what a token allows; issuers name it in two ways."""
    found: set[str] = set()
    for name in ("scope", "scp"):
        value: Any = claims.get(name, ())
        items: Any = value.split() if isinstance(value, str) else value
        if isinstance(items, list):
            found.update(map(str, items))  # pyright: ignore[reportUnknownArgumentType] -- JSON
    return found


class AnyOf:
    """Several ways to know whose a token is; the first that knows counts."""

    def __init__(self, finders: Sequence[Finder]) -> None:
        self._finders = finders

    def find(self, token: str) -> Principal | None:
        """Return whose *token* it is, None where it is nobody's."""
        return next((found for one in self._finders if (found := one.find(token))), None)
