"""Permissions where the log or the inboxes are several streams: what each pattern becomes."""

from __future__ import annotations

from threadbus.schemas import partition_of

_ANYBODY = "*"
_ASKED_OF_ALL = ("$JS.API.STREAM.INFO.", "$JS.API.STREAM.MSG.GET.", "$JS.API.CONSUMER.LIST.")
_OF_ONE = ("$JS.API.CONSUMER.", "$JS.ACK.")


def spread_pattern(pattern: str, who: str, partitions: int, inboxes: int) -> list[str]:
    """Return what one pattern of the table is on a spread bus; itself where it is not spread.

    Args:
        pattern: of the table in :mod:`.roles`.
        who: whose it is, where it names anybody; ``*`` is everybody.
        partitions: streams of the log.
        inboxes: streams of the inboxes.
    """
    tokens = pattern.split(".")
    if partitions > 1:
        if pattern.startswith("bus."):
            # The plain one too: where the server maps it, it is checked as it was sent.
            return [pattern, f"part.*.{pattern.removeprefix('bus.')}"]
        if pattern.startswith("$KV.POSITIONS."):
            return [pattern, f"{pattern}.*"]
        if tokens[-1] == "BUS":
            named = [f"{pattern}-{number}" for number in range(partitions)]
            return [pattern, *named]
    if inboxes > 1 and "MENTIONS" in tokens:
        every = [f"MENTIONS-{number}" for number in range(inboxes)]
        if pattern.startswith(_ASKED_OF_ALL):
            asked = [_at(tokens, stream) for stream in every]
            # The place in the log of what came through the hub.
            hub = ["$JS.API.DIRECT.GET.MENTIONS"] if "INFO" in tokens else []
            return [pattern, *asked, *hub]
        if pattern.startswith(_OF_ONE):
            own = every if who == _ANYBODY else [every[partition_of(who, inboxes)]]
            return [_at(tokens, stream) for stream in own]
    return [pattern]


def _at(tokens: list[str], stream: str) -> str:
    return ".".join(stream if token == "MENTIONS" else token for token in tokens)  # noqa: S105
