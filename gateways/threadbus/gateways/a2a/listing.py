"""Lists of tasks: filtered, the one whose status changed last first, in pages."""

from __future__ import annotations

from typing import Final

from a2a.types import a2a_pb2 as pb
from a2a.utils.errors import InvalidParamsError
from a2a.utils.task import (
    ListTasksCursor,
    decode_list_tasks_cursor,
    encode_list_tasks_cursor,
)

from threadbus.gateways.a2a.callers import Caller
from threadbus.gateways.a2a.ids import PUSH_TASK
from threadbus.gateways.a2a.index import Row, TaskIndex
from threadbus.gateways.a2a.log import TaskLog, trimmed
from threadbus.gateways.a2a.view import TERMINAL, TaskView

_DEFAULT_PAGE: Final = 50
_MAX_PAGE: Final = 100
_MS: Final = 1_000_000


class _Found:
    """A task that matches; read only where its page or its place needs it."""

    def __init__(self, row: Row, view: TaskView | None) -> None:
        self.row = row
        self.view = view
        updated = row.ended_at if view is None else view.updated_at
        # As precise as clients see it, so that a page begins where the last one ended.
        self.key = (updated // _MS * _MS, row.task)
        self.state = row.state if view is None else view.state


class Listing:
    """Pages of tasks."""

    def __init__(self, log: TaskLog, index: TaskIndex) -> None:
        self._log = log
        self._index = index

    async def page(self, caller: Caller, params: pb.ListTasksRequest) -> pb.ListTasksResponse:
        """Return one page.

        Raises:
            InvalidParamsError: a page size or a page token that cannot be.
        """
        size = params.page_size if params.HasField("page_size") else _DEFAULT_PAGE
        if not 1 <= size <= _MAX_PAGE:
            raise InvalidParamsError(f"pageSize is {size}, and has to be 1 to {_MAX_PAGE}.")
        if params.status not in pb.TaskState.values():
            # Over gRPC it is any number.
            raise InvalidParamsError(f"status is {params.status}, which is none.")
        after = _cursor(params.page_token)
        found = await self._matching(caller, params)
        found.sort(key=lambda one: one.key, reverse=True)
        total = len(found)
        rest = found if after is None else [one for one in found if one.key < after]
        page = rest[:size]
        response = pb.ListTasksResponse(page_size=size, total_size=total)
        length = params.history_length if params.HasField("history_length") else None
        for one in page:
            view = one.view or await self._log.view(one.row.task)
            if view is not None:
                task = trimmed(view.task(), length, artifacts=params.include_artifacts)
                response.tasks.append(task)
        if len(rest) > size:
            at, task_id = page[-1].key
            response.next_page_token = encode_list_tasks_cursor(ListTasksCursor(at, task_id))
        return response

    async def _matching(self, caller: Caller, params: pb.ListTasksRequest) -> list[_Found]:
        since = _since(params)
        found: list[_Found] = []
        for row in await self._index.rows(caller.agent):
            if PUSH_TASK in row.labels:
                continue
            if params.context_id and row.context != params.context_id:
                continue
            if caller.card and row.agent != caller.card:
                continue
            if row.ended_at and params.status and params.status not in TERMINAL:
                continue
            # Where an open task stands is more than its control events say.
            one = _Found(row, None if row.ended_at else await self._log.view(row.task))
            if params.status and one.state != params.status:
                continue
            if one.key[0] > since or not since:
                found.append(one)
        return found


def _since(params: pb.ListTasksRequest) -> int:
    try:
        return params.status_timestamp_after.ToNanoseconds()
    except ValueError:
        raise InvalidParamsError("statusTimestampAfter is no time.") from None


def _cursor(token: str) -> tuple[int, str] | None:
    if not token:
        return None
    cursor = decode_list_tasks_cursor(token) if len(token) <= 400 and token.isascii() else None
    if cursor is None or cursor.timestamp_ns is None:
        raise InvalidParamsError("pageToken is not one that this gateway gave.")
    return cursor.timestamp_ns, cursor.task_id
