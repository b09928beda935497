"""What can go wrong while a past run is read.

    ThreadbusError                      the root of every error of this project
    └── ReplayError                     a run cannot be shown
        ├── TaskLookupError             the id does not name exactly one super-task
        │   ├── UnknownTaskError        no super-task has it
        │   └── AmbiguousTaskError      several have this prefix
        ├── UnknownFilterError          a filter names nothing that is in the run
        ├── FilterValueError            a filter's value is not right by itself
        ├── NoLogError                  a server that holds no runs at all
        ├── PriceFileError              a table of prices cannot be used
        ├── ExportTargetError           an export cannot be written there
        ├── FindingSettingError         a setting of the detectors cannot be used
        ├── PointError                  a run has no such entry
        ├── ForkError                   a run cannot be forked there
        ├── ExportFileError             an exported file cannot be opened or read
        ├── ImportFileError             a log of another system cannot be imported
        └── TraceError                  spans cannot be made or sent
            ├── TracesMissingError      the library that encodes them is not installed
            ├── CollectorUrlError       what was given is no URL of a collector
            ├── CollectorUnreachableError   nobody answers there
            └── CollectorRefusedError   it does not take them

A line of the log that cannot be read is no error: it is reported as part of the run.
"""

from __future__ import annotations

from threadbus.schemas import ThreadbusError, shorten


class ReplayError(ThreadbusError):
    """A run cannot be shown."""


class TaskLookupError(ReplayError):
    """An id does not name exactly one super-task."""


class UnknownTaskError(TaskLookupError):
    """No super-task has this id, or an id that starts with it."""

    def __init__(self, wanted: str, where: str, near: tuple[str, ...] = ()) -> None:
        super().__init__(wanted, where, near)
        self.wanted = wanted
        self.where = where
        self.near = near
        """Lines for a person: ids that look alike, or the newest ones."""

    def __str__(self) -> str:
        where = shorten(self.where, 200)
        message = f"no super-task {shorten(self.wanted)!r} in {where}"
        if not self.near and "://" in where:
            return f"{message}, which holds none at all; `bus ask` starts one"
        if not self.near:
            return (
                f"{where} holds no super-task that can be read; `busreplay export TASK` writes "
                "such files, `busreplay import` reads logs of other systems"
            )
        return "\n  ".join((f"{message}; nearest and newest are", *self.near))


class AmbiguousTaskError(TaskLookupError):
    """Several super-tasks have ids that start with this prefix."""

    def __init__(self, wanted: str, candidates: tuple[str, ...]) -> None:
        super().__init__(wanted, candidates)
        self.wanted = wanted
        self.candidates = candidates
        """Lines for a person: the first of them."""

    def __str__(self) -> str:
        which = f"starts with {shorten(self.wanted)!r}" if self.wanted else "is there"
        message = f"more than one super-task {which}; give more of the id"
        return "\n  ".join((message, *self.candidates))


class UnknownFilterError(ReplayError):
    """A filter names a thread, an agent or a kind that the run does not have."""

    def __init__(self, what: str, wanted: str, known: tuple[str, ...]) -> None:
        super().__init__(what, wanted, known)
        self.what = what
        self.wanted = wanted
        self.known = known

    def __str__(self) -> str:
        known = ", ".join(self.known) or "none"
        return f"no {self.what} {shorten(self.wanted)!r} in this run; it has {known}"


class FindingSettingError(ReplayError, ValueError):
    """A setting of the detectors cannot be used."""

    def __init__(self, key: str, value: str, reason: str) -> None:
        super().__init__(key, value, reason)
        self.key = key
        """The setting, or the file that should hold settings."""
        self.value = value
        self.reason = reason

    def __str__(self) -> str:
        given = f"={shorten(self.value)}" if self.value else ""
        return (
            f"setting of findings {shorten(self.key, 200)}{given}: {self.reason}; "
            "docs/findings.md lists the settings"
        )


class FilterValueError(ReplayError):
    """The value of a filter is not right, whatever the run."""

    def __init__(self, option: str, value: str, expected: str) -> None:
        super().__init__(option, value, expected)
        self.option = option
        self.value = value
        self.expected = expected

    def __str__(self) -> str:
        return f"{self.option} {shorten(self.value)!r} is not {self.expected}"


class NoLogError(ReplayError):
    """The server has no log of threadbus: nothing ever ran there."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.url = url

    def __str__(self) -> str:
        return (
            f"the server at {shorten(self.url, 200)} has no log of threadbus (no stream BUS); "
            "`bus ask` or an agent makes it, or --url and BUS_URL name another server"
        )


class PointError(ReplayError):
    """A run has no such entry."""

    def __init__(self, wanted: str, reason: str) -> None:
        super().__init__(wanted, reason)
        self.wanted = wanted
        self.reason = reason

    def __str__(self) -> str:
        return f"no entry {shorten(self.wanted)!r}: {self.reason}"


class ForkError(ReplayError):
    """A run cannot be forked there."""

    def __init__(self, where: str, reason: str, way_out: str) -> None:
        super().__init__(where, reason, way_out)
        self.where = where
        self.reason = reason
        self.way_out = way_out

    def __str__(self) -> str:
        return f"cannot fork {shorten(self.where, 200)}: {self.reason}; {self.way_out}"


class ImportFileError(ReplayError):
    """A log of another system cannot be imported."""

    def __init__(self, path: str, reason: str, way_out: str = "") -> None:
        super().__init__(path, reason, way_out)
        self.path = path
        self.reason = reason
        self.way_out = way_out

    def __str__(self) -> str:
        hint = f"; {self.way_out}" if self.way_out else ""
        return f"cannot import {shorten(self.path, 200)!r}: {self.reason}{hint}"


class PriceFileError(ReplayError):
    """A table of prices cannot be read, or is none."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"cannot use the prices in {shorten(self.path, 200)!r}: {self.reason}; it should be "
            'TOML or JSON such as: [models."NAME"] input = 0.15, output = 0.60'
        )


class ExportTargetError(ReplayError):
    """An export cannot be written to this file."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"cannot export to {shorten(self.path, 200)!r}: {self.reason}"


class ExportFileError(ReplayError):
    """An exported file cannot be opened or read."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"cannot read {shorten(self.path, 200)!r}: {self.reason}; "
            "`busreplay export TASK` makes such a file"
        )


class TraceError(ReplayError):
    """Spans cannot be made or sent."""


class TracesMissingError(TraceError):
    """The library that encodes spans is not installed."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"traces need OpenTelemetry ({self.reason}): pip install 'threadbus[traces]'; "
            "`busreplay TASK --format otlp-json` needs nothing"
        )


class CollectorUrlError(TraceError):
    """What was given is no URL of a collector."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(url, reason)
        self.url = url
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"{shorten(self.url, 200)!r} is no URL of a collector: {self.reason}; "
            "the form is http://host:4318 (OTLP over HTTP)"
        )


class CollectorUnreachableError(TraceError):
    """Nobody answers at the URL of a collector."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(url, reason)
        self.url = url
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"no collector at {shorten(self.url, 200)}: {shorten(self.reason, 300)}; "
            "`bus up --jaeger` starts one on this machine"
        )


class CollectorRefusedError(TraceError):
    """A collector does not take the spans."""

    def __init__(self, url: str, status: int, reason: str) -> None:
        super().__init__(url, status, reason)
        self.url = url
        self.status = status
        """The HTTP status; 200 where it took only a part."""
        self.reason = reason

    def __str__(self) -> str:
        message = f"the collector at {shorten(self.url, 200)} refused: {shorten(self.reason, 300)}"
        if self.status == 404:
            return f"{message} (HTTP 404); is it OTLP over HTTP, which most have at port 4318?"
        return f"{message} (HTTP {self.status})"
