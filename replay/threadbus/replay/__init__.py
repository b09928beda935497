"""The past of a run, from the log alone: sources, the fold into a story, and how it is shown.

:func:`fold` turns the entries of a log into a :class:`Timeline`; a :class:`Source` says where they
come from. This folder never imports agents or gateways.
"""

from threadbus.replay.errors import (
    AmbiguousTaskError,
    ExportFileError,
    ForkError,
    ImportFileError,
    PointError,
    ReplayError,
    TaskLookupError,
    UnknownFilterError,
    UnknownTaskError,
)
from threadbus.replay.export import FileSource, parse_line
from threadbus.replay.finding import Finding, FindingKind, Suspect
from threadbus.replay.kept import (
    Answer,
    Artifact,
    Assignment,
    Fork,
    InputRequest,
    Plan,
    PlanItem,
    Proposal,
)
from threadbus.replay.lookup import find_task
from threadbus.replay.selection import Selection
from threadbus.replay.show import Format, Request, show
from threadbus.replay.source import BusSource, LogItem, Source, TaskLine
from threadbus.replay.story import (
    AgentTotals,
    FailureStep,
    Fault,
    ModelStep,
    SaidStep,
    ThreadStory,
    Timeline,
    ToolStep,
    Totals,
    Turn,
    TurnOutcome,
    Unreadable,
)
from threadbus.replay.timeline import TimelineFold, fold
from threadbus.schemas import export_line

__all__ = [
    "AgentTotals",
    "AmbiguousTaskError",
    "Answer",
    "Artifact",
    "Assignment",
    "BusSource",
    "ExportFileError",
    "FailureStep",
    "Fault",
    "FileSource",
    "Finding",
    "FindingKind",
    "Fork",
    "ForkError",
    "Format",
    "ImportFileError",
    "InputRequest",
    "LogItem",
    "ModelStep",
    "Plan",
    "PlanItem",
    "PointError",
    "Proposal",
    "ReplayError",
    "Request",
    "SaidStep",
    "Selection",
    "Source",
    "Suspect",
    "TaskLine",
    "TaskLookupError",
    "ThreadStory",
    "Timeline",
    "TimelineFold",
    "ToolStep",
    "Totals",
    "Turn",
    "TurnOutcome",
    "UnknownFilterError",
    "UnknownTaskError",
    "Unreadable",
    "export_line",
    "find_task",
    "fold",
    "parse_line",
    "show",
]
