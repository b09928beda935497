"""An agent in plain nats-py, without threadbus: it answers every question with its length.

python examples/plain_nats.py nats://127.0.0.1:4222
"""

import asyncio
import json
import secrets
import sys
import time

import nats
from nats.js.api import ConsumerConfig

NAME = "plain"


def event(kind: str, ask: dict, cause: str, data: dict) -> dict:
    now = time.time_ns()
    uuid7 = f"{now // 10**6:012x}7{secrets.token_hex(2)[1:]}a{secrets.token_hex(8)[1:]}"
    return {"v": 1, "id": uuid7, "type": kind, "task": ask["task"], "thread": ask["thread"],
            "sender": NAME, "at": now, "cause": cause, "mentions": [], "data": data}  # fmt: skip


async def main(url: str) -> None:
    nc = await nats.connect(url)
    js = nc.jetstream()
    await js.publish(f"$KV.AGENTS.{NAME}", json.dumps({"card": {"name": NAME}, "holder": "me"}).encode())
    await js.add_consumer("MENTIONS", ConsumerConfig(
        durable_name=f"agent-{NAME}", filter_subject=f"mention.{NAME}.>", mem_storage=True))  # fmt: skip
    inbox = await js.pull_subscribe_bind(f"agent-{NAME}", stream="MENTIONS")
    print("ready", flush=True)
    while True:
        for message in await inbox.fetch(1, timeout=None):
            ask = json.loads(message.data)
            seq = message.headers["Nats-Stream-Source"].split()[1]
            guard = {"Nats-Expected-Last-Subject-Sequence": seq,
                     "Nats-Expected-Last-Subject-Sequence-Subject": f"bus.{ask['task']}.{ask['thread']}.ctl.>"}  # fmt: skip
            text = f"{len(ask['data']['parts'][0]['text'])} characters"
            answer = event("answer.submitted", ask, ask["id"], {"parts": [{"kind": "text", "text": text}]})
            closed = event("task.closed", ask, answer["id"], {"outcome": "completed", "answer": answer["id"]})
            for said, token in ((answer, "work"), (closed, "ctl")):
                subject = f"bus.{ask['task']}.{ask['thread']}.{token}.{NAME}"
                await js.publish(subject, json.dumps(said).encode(), headers={"Nats-Msg-Id": said["id"], **guard})
            await message.ack()


asyncio.run(main(sys.argv[1]))
