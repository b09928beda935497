"""What can go wrong on the side of an agent.

    AgentError                              the root of this folder (a ThreadbusError)
    ├── InvalidSettingError                 a setting that cannot be used
    ├── NotAHandlerError                    no handler, or one that cannot be called
    ├── AgentLoadError                      no agent under the name that was given
    ├── GiveUpError                         raised by a handler: trying again is no use
    ├── TurnTimeoutError                    a handler took longer than it may
    ├── TurnOverError                       a handler that goes on after its turn
    ├── HandlerExitError                    a handler that tried to end the process
    ├── BadReplyError                       a handler returned what is no reply
    ├── TaskEndedError                      the super-task was closed during the turn
    ├── TaskDeadlineError                   the time of the super-task is up
    ├── NoModelError                        an agent that runs without a model
    ├── ModelError                          a model did not give a usable answer
    │   ├── ModelRefusedError               the server refuses the request, now and again
    │   ├── ModelUnavailableError           no usable answer after every attempt
    │   ├── ModelTimeoutError               no whole answer in time
    │   ├── ModelOutputTooLargeError        an answer above a named limit
    │   ├── ModelBudgetExceededError        the super-task has used up its tokens
    │   └── ToolRoundsExceededError         still calling tools after the last round
    ├── ToolCallError                       a tool call went wrong; the model is told
    │   ├── BadToolArgumentsError           arguments that are not a usable JSON object
    │   ├── UnknownToolError                a tool that is not there
    │   └── ToolTimeoutError                a tool that took too long
    ├── PlaybookError                       a playbook cannot be used
    │   ├── PlaybookFormatError             the file breaks the format
    │   ├── PlaybookMissError               no play matches a request
    │   └── PlaybookTemplateError           a template names what is not there
    ├── JaegerMissingError                  no Jaeger and no Docker (see cli/jaeger.py)
    ├── JaegerFailedError                   a Jaeger that does not run (see cli/jaeger.py)
    ├── EndpointError, ProgramError         third-party agents (see adapters.py)
    ├── ThrottledError                      a mention that is not answered (see throttling.py)
    ├── DiscoveryError                      agents cannot be ranked (see discovery/errors.py)
    ├── UnknownTeamError                    no such team (see teams/script.py)
    └── DemoError                           the demo did not come to its answer (the same)

Each leaf carries what went wrong as attributes and builds its own message.
"""

from __future__ import annotations

from threadbus.schemas import ThreadbusError, nearest_names, shorten


class AgentError(ThreadbusError):
    """Something went wrong on the side of an agent."""


class InvalidSettingError(AgentError, ValueError):
    """A setting cannot be used."""

    def __init__(self, setting: str, value: str, expected: str) -> None:
        super().__init__(setting, value, expected)
        self.setting = setting
        self.value = value
        self.expected = expected

    def __str__(self) -> str:
        shown = f"{shorten(self.value)!r} is not valid" if self.value else "is not set"
        return f"{self.setting}: {shown}; {self.expected}"


class NotAHandlerError(AgentError, TypeError):
    """There is no handler, or it cannot be called with one mention."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what

    def __str__(self) -> str:
        return (
            f"{self.what} has no usable handler: it must be `async def handle(mention)`, "
            "marked with @agent.on_mention"
        )


class AgentLoadError(AgentError):
    """There is no agent under the name that was given."""

    def __init__(self, target: str, reason: str) -> None:
        super().__init__(target, reason)
        self.target = target
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"cannot load {shorten(self.target)!r}: {self.reason}; "
            "the form is module:name, where name is an Agent or run(task_desc) -> str"
        )


class GiveUpError(AgentError):
    """Raised by a handler: the mention cannot be handled, and trying again is no use."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return self.reason


class TurnTimeoutError(AgentError, TimeoutError):
    """A handler took longer than it may."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds

    def __str__(self) -> str:
        return f"the handler took longer than {self.seconds:g} s; allow more with turn_timeout"


class TurnOverError(AgentError):
    """A handler goes on although its turn has ended: by a timeout, a stop, or the task's end."""

    def __str__(self) -> str:
        return "the turn is over; a handler that is cancelled must end"


class HandlerExitError(AgentError):
    """A handler raised what would end the whole process, such as SystemExit."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(kind, reason)
        self.kind = kind
        self.reason = reason

    def __str__(self) -> str:
        said = f" ({shorten(self.reason)})" if self.reason else ""
        return f"the handler raised {self.kind}{said}; a handler ends a turn, never the agent"


class BadReplyError(AgentError, TypeError):
    """A handler returned something that is no reply."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind

    def __str__(self) -> str:
        return (
            f"the handler returned {self.kind}; it may return a string, a part, a sequence of "
            "parts, the data of an event, or None"
        )


class TaskEndedError(AgentError):
    """The super-task was closed by somebody else while the handler ran."""

    def __init__(self, task: str, outcome: str) -> None:
        super().__init__(task, outcome)
        self.task = task
        self.outcome = outcome

    def __str__(self) -> str:
        return f"super-task {self.task} is {self.outcome}; the handler was stopped"


class TaskDeadlineError(AgentError, TimeoutError):
    """The super-task's deadline has passed."""

    def __init__(self, task: str) -> None:
        super().__init__(task)
        self.task = task

    def __str__(self) -> str:
        return f"the deadline of super-task {self.task} has passed; open it with more time"


class NoModelError(AgentError):
    """A handler asked for a model and the agent runs without one."""

    def __init__(self, agent: str) -> None:
        super().__init__(agent)
        self.agent = agent

    def __str__(self) -> str:
        return (
            f"agent {self.agent} runs without a model: set BUS_MODEL and OPENAI_API_KEY (and "
            "OPENAI_BASE_URL for another server), or run a playbook server"
        )


class ModelError(AgentError):
    """A model did not give a usable answer."""


class ModelRefusedError(ModelError):
    """The server refused the request; the same request will be refused again."""

    def __init__(self, server: str, model: str, status: int, reason: str) -> None:
        super().__init__(server, model, status, reason)
        self.server = server
        self.model = model
        self.status = status
        self.reason = reason

    def __str__(self) -> str:
        hint = _REFUSAL_HINTS.get(self.status, "")
        return (
            f"{self.server} refused the request for model {self.model!r} "
            f"(HTTP {self.status}): {self.reason}{hint}"
        )


_REFUSAL_HINTS = {
    401: "; check OPENAI_API_KEY",
    403: "; check OPENAI_API_KEY",
    404: "; check the model's name (BUS_MODEL) and OPENAI_BASE_URL, which usually ends in /v1",
}


class ModelUnavailableError(ModelError):
    """No attempt gave a usable answer."""

    def __init__(self, server: str, attempts: int, last_error: str) -> None:
        super().__init__(server, attempts, last_error)
        self.server = server
        self.attempts = attempts
        self.last_error = last_error

    def __str__(self) -> str:
        times = "1 attempt" if self.attempts == 1 else f"{self.attempts} attempts"
        return (
            f"no usable answer from {self.server} after {times}; the last error: {self.last_error}"
        )


class ModelTimeoutError(ModelError):
    """No whole answer came in time."""

    # No TimeoutError: that is an OSError, which keeps only two of these attributes for pickling.

    def __init__(self, server: str, attempts: int, seconds: float, what: str) -> None:
        super().__init__(server, attempts, seconds, what)
        self.server = server
        self.attempts = attempts
        self.seconds = seconds
        self.what = what
        """Which time ran out: that of one attempt or that of the whole call."""

    def __str__(self) -> str:
        return (
            f"no whole answer from {self.server} in {self.seconds:g} s ({self.what}; "
            f"attempt {self.attempts}); allow more time with BUS_COMPLETION_TIMEOUT "
            "and BUS_COMPLETION_DEADLINE"
        )


class ModelOutputTooLargeError(ModelError):
    """An answer is above a limit; what came of it was thrown away."""

    def __init__(self, server: str, what: str, limit: int) -> None:
        super().__init__(server, what, limit)
        self.server = server
        self.what = what
        self.limit = limit

    def __str__(self) -> str:
        return (
            f"the answer of {self.server} has more than {self.limit:,} {self.what}; "
            "ask for less, or lower BUS_COMPLETION_MAX_TOKENS"
        )


class ModelBudgetExceededError(ModelError):
    """The super-task has used up its token budget; the model was not called."""

    def __init__(self, used: int, budget: int) -> None:
        super().__init__(used, budget)
        self.used = used
        self.budget = budget

    def __str__(self) -> str:
        return (
            f"the token budget is used up: {self.used:,} of {self.budget:,}; "
            "open the super-task with a larger budget, or with none"
        )


class ToolRoundsExceededError(ModelError):
    """The model still called tools in the last round that it was given."""

    def __init__(self, rounds: int, tools: tuple[str, ...]) -> None:
        super().__init__(rounds, tools)
        self.rounds = rounds
        self.tools = tools

    def __str__(self) -> str:
        wanted = ", ".join(shorten(name) for name in self.tools[:5])
        return (
            f"the model still calls tools ({wanted}) in round {self.rounds} of {self.rounds}; "
            "allow more rounds (max_rounds), or tell it when to stop"
        )


class ToolCallError(AgentError):
    """A tool call went wrong; its message becomes the result that the model is shown."""


class BadToolArgumentsError(ToolCallError, ValueError):
    """The arguments are not a usable JSON object."""

    def __init__(self, tool: str, arguments: str, reason: str) -> None:
        super().__init__(tool, arguments, reason)
        self.tool = tool
        self.arguments = arguments
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"the arguments of tool {shorten(self.tool)!r} cannot be used: {self.reason}; "
            f"they must be one JSON object, and were {shorten(self.arguments, 200)!r}"
        )


class UnknownToolError(ToolCallError, LookupError):
    """A model called a tool that is not there."""

    def __init__(self, tool: str, known: tuple[str, ...]) -> None:
        super().__init__(tool, known)
        self.tool = tool
        self.known = known

    def __str__(self) -> str:
        near = nearest_names(self.tool, self.known, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        names = ", ".join(self.known) or "(none)"
        return f"there is no tool {shorten(self.tool)!r}; the tools are {names}{hint}"


class ToolTimeoutError(ToolCallError, TimeoutError):
    """A tool took longer than it may."""

    def __init__(self, tool: str, seconds: float) -> None:
        super().__init__(tool, seconds)
        self.tool = tool
        self.seconds = seconds

    def __str__(self) -> str:
        return f"tool {shorten(self.tool)!r} took longer than {self.seconds:g} s and was stopped"


class PlaybookError(AgentError):
    """A playbook cannot be used."""


class PlaybookFormatError(PlaybookError, ValueError):
    """A playbook file breaks the format."""

    def __init__(self, file: str, where: str, reason: str) -> None:
        super().__init__(file, where, reason)
        self.file = file
        self.where = where
        self.reason = reason

    def __str__(self) -> str:
        place = f", {self.where}" if self.where else ""
        return f"playbook {self.file}{place}: {self.reason}; docs/playbooks.md has the format"


class PlaybookMissError(PlaybookError):
    """No play of a playbook matches a request."""

    def __init__(self, file: str, agent: str, step: int, turn: int, last: str, why: str) -> None:
        super().__init__(file, agent, step, turn, last, why)
        self.file = file
        self.agent = agent
        self.step = step
        self.turn = turn
        self.last = last
        self.why = why
        """Which plays came near, and what they want."""

    def __str__(self) -> str:
        return (
            f"no play in {self.file} matches agent {self.agent or '(none)'!r}, "
            f"step {self.step}, turn {self.turn}, last message {shorten(self.last, 200)!r}. "
            f"{self.why} Add a [[play]] for it, or one without conditions at the end."
        )


class PlaybookTemplateError(PlaybookError):
    """A template of a playbook names something that is not there."""

    def __init__(self, file: str, play: str, expression: str, reason: str) -> None:
        super().__init__(file, play, expression, reason)
        self.file = file
        self.play = play
        self.expression = expression
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"playbook {self.file}, {self.play}: {{{{ {shorten(self.expression)} }}}} "
            f"cannot be filled in: {self.reason}"
        )
