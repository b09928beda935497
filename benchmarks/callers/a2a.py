"""Ask for a model as an A2A client, and answer what the team asks."""

import uuid
from collections.abc import Callable

import httpx
from a2a.client import ClientConfig, create_client
from a2a.types import a2a_pb2 as pb


async def model(url: str, request: str, reply: Callable[[str], str]) -> str:
    """Return the answer."""
    async with httpx.AsyncClient(timeout=120) as http:
        client = await create_client(url, ClientConfig(httpx_client=http))
        task, said = "", request
        answer: list[str] = []
        while said:
            message = pb.Message(
                message_id=uuid.uuid4().hex,
                role=pb.ROLE_USER,
                task_id=task,
                parts=[pb.Part(text=said)],
            )
            said = ""
            async for response in client.send_message(pb.SendMessageRequest(message=message)):
                match response.WhichOneof("payload"):
                    case "task":
                        task = response.task.id
                        status = response.task.status
                    case "status_update":
                        status = response.status_update.status
                    case "artifact_update":
                        if response.artifact_update.artifact.name == "answer":
                            answer += [
                                part.text for part in response.artifact_update.artifact.parts
                            ]
                        continue
                    case _:
                        continue
                if status.state == pb.TASK_STATE_INPUT_REQUIRED:
                    said = reply("".join(part.text for part in status.message.parts))
                    break
                if status.state in {pb.TASK_STATE_FAILED, pb.TASK_STATE_CANCELED}:
                    raise RuntimeError("".join(part.text for part in status.message.parts))
        return "".join(answer)
