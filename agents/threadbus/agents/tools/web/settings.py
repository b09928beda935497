"""What the web tools may do, from the variables ``BUS_WEB_…``."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Final

import msgspec

from threadbus.agents.errors import InvalidSettingError
from threadbus.agents.tools.net import Network

PREFIX: Final = "BUS_WEB_"


class WebSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the web tools may do."""

    search_url: str = ""
    """A SearXNG-compatible endpoint, as ``https://searx.example/search``; none: no search."""
    browser: str = ""
    """The path of a Chromium; none: pages are not opened in a browser."""
    allow: tuple[str, ...] = ()
    """Hosts (``wiki.local``, ``127.0.0.1:8080``) and networks (``10.1.0.0/16``) that may be
    reached although they are not public."""
    seconds: Annotated[float, msgspec.Meta(gt=0, le=600)] = 20.0
    """How long one page may take, redirects included."""
    bytes: Annotated[int, msgspec.Meta(ge=1_024, le=1 << 30)] = 8 * 1024 * 1024
    """Bytes of one page, once it is unpacked."""
    redirects: Annotated[int, msgspec.Meta(ge=0, le=50)] = 5
    """Redirects that are followed for one page."""
    characters: Annotated[int, msgspec.Meta(ge=200, le=1_000_000)] = 40_000
    """Characters of one page that are returned."""

    def __post_init__(self) -> None:
        for entry in self.allow:
            network_of(entry)
        if self.search_url and not self.search_url.startswith(("http://", "https://")):
            raise InvalidSettingError(
                f"{PREFIX}SEARCH_URL",
                self.search_url,
                "it is the address of a SearXNG search, as https://searx.example/search",
            )

    @property
    def time(self) -> timedelta:
        """How long one page may take."""
        return timedelta(seconds=self.seconds)

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> WebSettings:
        """Return what the environment says.

        Raises:
            InvalidSettingError: a variable does not fit.
        """
        source = os.environ if environ is None else environ
        values: dict[str, object] = {}
        for field in cls.__struct_fields__:
            name = PREFIX + field.upper()
            text = source.get(name, "").strip()
            if not text:
                continue
            value = text.replace(",", " ").split() if field == "allow" else text
            try:
                msgspec.convert({field: value}, cls, strict=False)
            except msgspec.ValidationError as error:
                raise InvalidSettingError(name, text, str(error)) from error
            values[field] = value
        return msgspec.convert(values, cls, strict=False)


def network_of(entry: str) -> Network | None:
    """Return the network that an entry of *allow* names; None where it names a host.

    Raises:
        InvalidSettingError: it is neither.
    """
    try:
        return ipaddress.ip_network(entry) if "/" in entry else None
    except ValueError:
        raise InvalidSettingError(
            f"{PREFIX}ALLOW", entry, "it is a host, host:port, or a network such as 10.0.0.0/8"
        ) from None
