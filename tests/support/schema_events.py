"""Events that are right but for what a test changes."""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec

from threadbus.schemas import (
    MAIN_THREAD,
    AgentName,
    AnyData,
    DataPart,
    Event,
    EventId,
    MessagePosted,
    TaskId,
    TextPart,
    encode_event,
    make_event,
)

TASK: Final = TaskId("0199b2f04c007a31b2c3d4e5f6071829")
EVENT: Final = EventId("0199b2f04c107a31b2c3d4e5f6072a01")
WEB: Final = AgentName("web")
PLANNER: Final = AgentName("planner")
SUBJECT: Final = f"bus.{TASK}.main.msg.web.planner"


def event(data: AnyData | None = None, **changes: Any) -> Event:
    """Make one that is right but for *changes*."""
    made = make_event(
        MessagePosted(parts=(TextPart("hi"),)) if data is None else data,
        task=TASK,
        thread=MAIN_THREAD,
        sender=WEB,
        mentions=(PLANNER,),
        event_id=EVENT,
        at=1,
    )
    return msgspec.structs.replace(made, **changes)


def message(value: object) -> Event:
    """Make a message with a data part."""
    return event(MessagePosted(parts=(DataPart(value),)))


def body(**changes: object) -> bytes:
    """Make the JSON of a message as another program may; an Ellipsis takes a field out."""
    fields: dict[str, object] = json.loads(encode_event(event()))
    fields.update(changes)
    return json.dumps({key: item for key, item in fields.items() if item is not ...}).encode()
