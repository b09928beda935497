"""The past of a run, from the log alone: sources, the fold into a story, and how it is shown.

:func:`fold` turns the entries of a log into a :class:`Timeline`; a :class:`Source` says where they
come from. This folder never imports agents or gateways.
"""

from threadbus.replay.bounds import Bound, parse_bound
from threadbus.replay.condense import MAX_KEPT
from threadbus.replay.errors import (
    AmbiguousTaskError,
    ExportFileError,
    ExportTargetError,
    FilterValueError,
    FindingSettingError,
    ForkError,
    ImportFileError,
    NoLogError,
    PointError,
    PriceFileError,
    ReplayError,
    TaskLookupError,
    UnknownFilterError,
    UnknownTaskError,
)
from threadbus.replay.export import FileSource, parse_line
from threadbus.replay.finding import Finding, FindingKind, Judgement, Suspect
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
from threadbus.replay.prices import Price, Prices, load_prices
from threadbus.replay.redact import Redaction, Redactor
from threadbus.replay.selection import Selection, Sieve
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
    "MAX_KEPT",
    "AgentTotals",
    "AmbiguousTaskError",
    "Answer",
    "Artifact",
    "Assignment",
    "Bound",
    "BusSource",
    "ExportFileError",
    "ExportTargetError",
    "FailureStep",
    "Fault",
    "FileSource",
    "FilterValueError",
    "Finding",
    "FindingKind",
    "FindingSettingError",
    "Fork",
    "ForkError",
    "Format",
    "ImportFileError",
    "InputRequest",
    "Judgement",
    "LogItem",
    "ModelStep",
    "NoLogError",
    "Plan",
    "PlanItem",
    "PointError",
    "Price",
    "PriceFileError",
    "Prices",
    "Proposal",
    "Redaction",
    "Redactor",
    "ReplayError",
    "Request",
    "SaidStep",
    "Selection",
    "Sieve",
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
    "load_prices",
    "parse_bound",
    "parse_line",
    "show",
]
