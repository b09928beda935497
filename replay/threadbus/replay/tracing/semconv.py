"""The names of OpenTelemetry's conventions that our spans and metrics use, in one place.

GenAI: semantic-conventions-genai 0.1.0. Messaging and general: semantic-conventions 1.44.0. Both
still change; a change of any name here, or of the shape of a span, raises :data:`VERSION`, which
every span carries as the version of its scope.
"""

from __future__ import annotations

from typing import Final

VERSION: Final = "1"
"""Of the spans as a whole; two exports of one run are the same bytes when it is the same."""

SCOPE: Final = "threadbus.replay.tracing"

# resource
SERVICE_NAME: Final = "service.name"
SERVICE_NAMESPACE: Final = "service.namespace"
HOST_NAME: Final = "host.name"

# GenAI
OPERATION: Final = "gen_ai.operation.name"
AGENT_NAME: Final = "gen_ai.agent.name"
CONVERSATION_ID: Final = "gen_ai.conversation.id"
"""The super-task: it is what viewers group a session by. The thread has a name of its own."""
PROVIDER: Final = "gen_ai.provider.name"
REQUEST_MODEL: Final = "gen_ai.request.model"
RESPONSE_ID: Final = "gen_ai.response.id"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
CACHED_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
INPUT_MESSAGES: Final = "gen_ai.input.messages"
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
TOOL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
TOOL_RESULT: Final = "gen_ai.tool.call.result"

CHAT: Final = "chat"
EXECUTE_TOOL: Final = "execute_tool"
INVOKE_AGENT: Final = "invoke_agent"
INVOKE_WORKFLOW: Final = "invoke_workflow"

# messaging
MESSAGING_SYSTEM: Final = "messaging.system"
MESSAGING_OPERATION: Final = "messaging.operation.name"
MESSAGING_TYPE: Final = "messaging.operation.type"
DESTINATION: Final = "messaging.destination.name"
DESTINATION_TEMPLATE: Final = "messaging.destination.template"
MESSAGE_ID: Final = "messaging.message.id"
MESSAGE_CONVERSATION: Final = "messaging.message.conversation_id"
CONSUMER_GROUP: Final = "messaging.consumer.group.name"
BODY_SIZE: Final = "messaging.message.body.size"

NATS: Final = "nats"
SEND: Final = "send"
PROCESS: Final = "process"
LOG_TEMPLATE: Final = "bus.{task}.{thread}.{class}.{sender}"
INBOX_TEMPLATE: Final = "mention.{agent}"

# general
ERROR_TYPE: Final = "error.type"
EXCEPTION: Final = "exception"
EXCEPTION_TYPE: Final = "exception.type"
EXCEPTION_MESSAGE: Final = "exception.message"

# metrics
INFERENCE_DURATION: Final = "gen_ai.client.inference.duration"
INFERENCE_INPUT: Final = "gen_ai.client.inference.usage.input_tokens"
INFERENCE_OUTPUT: Final = "gen_ai.client.inference.usage.output_tokens"
INVOKE_AGENT_DURATION: Final = "gen_ai.invoke_agent.duration"
EXECUTE_TOOL_DURATION: Final = "gen_ai.execute_tool.duration"
SENT_MESSAGES: Final = "messaging.client.sent.messages"
CONSUMED_MESSAGES: Final = "messaging.client.consumed.messages"
PROCESS_DURATION: Final = "messaging.process.duration"

# what no convention has a word for
TASK: Final = "bus.task.id"
TASK_STATE: Final = "bus.task.state"
TASK_STATUS: Final = "bus.task.status"
TASK_TITLE: Final = "bus.task.title"
THREAD: Final = "bus.thread.id"
THREAD_PARENT: Final = "bus.thread.parent"
THREAD_OUTCOME: Final = "bus.thread.outcome"
SEQ: Final = "bus.event.seq"
EVENT_TYPE: Final = "bus.event.type"
MENTIONS: Final = "bus.event.mentions"
CAUSE: Final = "bus.event.cause"
TURN_OUTCOME: Final = "bus.turn.outcome"
TURN_ATTEMPTS: Final = "bus.turn.attempts"
TURN_WAITED: Final = "bus.turn.waited_ns"
TURN_REPLICA: Final = "bus.turn.replica"
TURN_QUEUE: Final = "bus.turn.queue_depth"
TURN_STORED: Final = "bus.turn.was_stored"
WOKEN_BY: Final = "bus.turn.woken_by"
OPENED_BY: Final = "bus.task.opened_by"
ESTIMATED: Final = "bus.model.tokens_estimated"
TOOL_RETURNED: Final = "bus.tool.returned"
LINK: Final = "bus.link"
"""Why a span is linked: ``woken_by``, ``reply``, ``opened_in`` or ``foreign``."""
TURNS: Final = "bus.task.turns"
UNANSWERED: Final = "bus.task.unanswered_mentions"
FINDINGS: Final = "bus.task.findings"

FINDING: Final = "bus.finding"
FINDING_ID: Final = "bus.finding.id"
FINDING_NAME: Final = "bus.finding.name"
FINDING_SEVERITY: Final = "bus.finding.severity"
FINDING_TEXT: Final = "bus.finding.text"
FINDING_AGENT: Final = "bus.finding.agent"
FINDING_SPAN: Final = "bus.finding.span_id"

REDELIVERIES: Final = "bus.turn.redeliveries"
QUEUE_DEPTH: Final = "bus.inbox.depth"
FAILURES: Final = "bus.turn.failures"
DEAD_LETTERS: Final = "bus.turn.dead_letters"
TASK_DURATION: Final = "bus.task.duration"
TURN_WAIT: Final = "bus.turn.wait"
