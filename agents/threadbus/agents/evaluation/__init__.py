"""Questions with known answers, put to a team: how many it gets right, and at what cost.

:mod:`.questions` reads them, :mod:`.running` puts them to a bus, :mod:`.records` keeps what came of
each so that a run which was killed goes on, :mod:`.scoring` says what is right, and :mod:`.report`
tells it. ``bus eval`` is the command; docs/evaluation.md describes all of it.
"""

from threadbus.agents.evaluation.errors import (
    EvaluationError,
    QuestionsError,
    RecordsError,
)
from threadbus.agents.evaluation.questions import Question, read_questions
from threadbus.agents.evaluation.records import Outcome, Records
from threadbus.agents.evaluation.report import Report, make_report, to_markdown
from threadbus.agents.evaluation.running import Evaluation, Prices
from threadbus.agents.evaluation.scoring import final_answer, is_right

__all__ = [
    "Evaluation",
    "EvaluationError",
    "Outcome",
    "Prices",
    "Question",
    "QuestionsError",
    "Records",
    "RecordsError",
    "Report",
    "final_answer",
    "is_right",
    "make_report",
    "read_questions",
    "to_markdown",
]
