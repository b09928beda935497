"""Failure analysis: detectors that find faults in a run, and what may have caused them.

:class:`Analyser` takes the entries of a log as the fold does; :meth:`Analyser.finish` says what was
found. docs/findings.md lists the detectors.
"""

from threadbus.replay.findings.analyser import Analyser, Analysis
from threadbus.replay.findings.detector import Detector, End, Setting, Sink, Value
from threadbus.replay.findings.judge import JudgeSettings, Verdict, ask_judge
from threadbus.replay.findings.refs import Ref
from threadbus.replay.findings.registry import ALL
from threadbus.replay.findings.scene import Scene
from threadbus.replay.findings.seen import Seen
from threadbus.replay.findings.settings import GENERAL, FindingSettings, load_settings

__all__ = [
    "ALL",
    "GENERAL",
    "Analyser",
    "Analysis",
    "Detector",
    "End",
    "FindingSettings",
    "JudgeSettings",
    "Ref",
    "Scene",
    "Seen",
    "Setting",
    "Sink",
    "Value",
    "Verdict",
    "ask_judge",
    "load_settings",
]
