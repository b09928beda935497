"""Agents that were held back because they went over a limit."""

from __future__ import annotations

from threadbus.replay.finding import FindingKind
from threadbus.replay.findings.detector import Detector
from threadbus.replay.findings.seen import Seen
from threadbus.replay.text import first_line
from threadbus.schemas import AgentName, AgentThrottled


class Throttled(Detector):
    id = "F6"
    name = "throttled"
    kind = FindingKind.SYMPTOM
    rule = (
        "An agent went over a limit on how much it may say and was held back: by its own client, "
        "by those it mentioned, or by the server. Reported once for each agent and limit."
    )
    needs = (AgentThrottled,)

    def begin(self) -> None:
        self._told: set[tuple[str, str, str]] = set()

    def see(self, seen: Seen) -> None:
        data = seen.event.data
        if not isinstance(data, AgentThrottled):
            return
        key = (data.agent, data.limit, data.action.value)
        if key in self._told or len(self._told) >= 10_000:
            return
        self._told.add(key)
        by = f", set by {first_line(data.set_by, 60)}" if data.set_by else ""
        how = data.action.value.replace("_", " ")
        limit = first_line(data.limit, 60).replace("_", " ")
        self.report(
            seen,
            f"{data.agent} went over {data.allowed:,} {limit}{by}, and is {how}",
            agent=AgentName(data.agent),
            evidence=() if seen.event.cause is None else (seen.event.cause,),
        )
