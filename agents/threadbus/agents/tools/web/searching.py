"""Search the web through a SearXNG-compatible endpoint, which the operator names."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlencode

import msgspec

from threadbus.agents.tools.web.fetching import Web
from threadbus.agents.tools.web_errors import BadSearchError, NoSearchError

MAX_RESULTS: Final = 20
_MAX_QUERY_CHARS: Final = 500
_MAX_SNIPPET_CHARS: Final = 600


class Found(msgspec.Struct, frozen=True):
    """One result of a search."""

    url: str
    title: str = ""
    content: str = ""


class _Answer(msgspec.Struct):
    results: list[Found] = []


async def search(web: Web, query: str, *, limit: int = 10) -> list[Found]:
    """Search the web.

    Args:
        web: an open client, whose settings name the endpoint.
        query: what to look for.
        limit: results at most.

    Raises:
        NoSearchError: no endpoint is set; says what to set.
        BadSearchError: the query cannot be used, or the endpoint answers something else.
        WebError: the endpoint cannot be reached.

    Cancellation: closes the connection.
    """
    endpoint = web.settings.search_url
    if not endpoint:
        raise NoSearchError
    if not query.strip() or len(query) > _MAX_QUERY_CHARS:
        raise BadSearchError(endpoint, f"a query has 1 to {_MAX_QUERY_CHARS} characters")
    joint = "&" if "?" in endpoint else "?"
    fetched = await web.fetch(
        f"{endpoint}{joint}{urlencode({'q': query.strip(), 'format': 'json'})}"
    )
    try:
        answer = msgspec.json.decode(fetched.content, type=_Answer)
    except msgspec.MsgspecError as error:
        raise BadSearchError(
            endpoint, f"it answers no SearXNG JSON ({error}); allow format=json on that server"
        ) from error
    return [
        Found(one.url, one.title[:_MAX_SNIPPET_CHARS], one.content[:_MAX_SNIPPET_CHARS])
        for one in answer.results[: max(1, min(limit, MAX_RESULTS))]
    ]
