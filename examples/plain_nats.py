"""An agent in plain nats-py, without threadbus: it answers every question with its length."""
# pyright: reportUnknownMemberType=false

import asyncio
import json
import sys
import time
from typing import Any
from uuid import uuid4

import nats

NAME = "plain"
CARD = {"card": {"name": NAME, "description": "counts characters"}, "holder": "example"}


async def main(url: str) -> None:
    js = (await nats.connect(url)).jetstream()
    await js.publish(f"$KV.AGENTS.{NAME}", json.dumps(CARD).encode())
    inbox = await js.pull_subscribe(f"mention.{NAME}.>", f"agent-{NAME}", stream="MENTIONS")
    print("ready", flush=True)
    while True:
        (mention,) = await inbox.fetch(1, timeout=None)
        ask: Any = json.loads(mention.data)
        log, last = f"bus.{ask['task']}.{ask['thread']}", "Nats-Expected-Last-Subject-Sequence"
        seq = (mention.headers or {})["Nats-Stream-Source"].split()[1]
        text, answer = f"{len(ask['data']['parts'][0]['text'])} characters", uuid4().hex
        parts = [{"kind": "text", "text": text}]
        for kind, token, key, cause, data in (
            ("answer.submitted", "work", answer, ask["id"], {"parts": parts}),
            ("task.closed", "ctl", uuid4().hex, answer, {"outcome": "completed", "answer": answer}),
        ):  # fmt: skip
            said = {"v": 1, "id": key, "type": kind, "task": ask["task"], "thread": ask["thread"],
                    "sender": NAME, "at": time.time_ns(), "cause": cause, "data": data}  # fmt: skip
            guard = {"Nats-Msg-Id": key, last: seq, f"{last}-Subject": f"{log}.ctl.>"}
            await js.publish(f"{log}.{token}.{NAME}", json.dumps(said).encode(), headers=guard)
        await mention.ack()


asyncio.run(main(sys.argv[1]))
