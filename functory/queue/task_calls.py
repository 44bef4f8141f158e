"""Calls a task: a plain function in a thread, a coroutine function on the loop, with what it asks for.

A function of one parameter gets the payload: what JSON says if it is JSON, otherwise the text, otherwise bytes. One of
two also gets the job; a plain function gets it as a ThreadJob. What it returns is the result.
"""

import asyncio
import inspect
from collections.abc import Callable
from typing import Any, Final

from functory.errors import InvalidInput
from functory.queue.job import Job
from functory.queue.task_threads import TaskThreads, as_exception
from functory.queue.thread_job import ThreadJob
from functory.wire.payloads import decode

_PAYLOAD: Final = 1
_PAYLOAD_AND_JOB: Final = 2


def parameters_of(function: Callable[..., Any]) -> int:
    """How many it takes. Raises InvalidInput if it is not one or two."""
    named = inspect.signature(function).parameters.values()
    required = [it for it in named if it.default is it.empty and it.kind is not it.VAR_KEYWORD]
    is_by_name = any(it.kind is it.KEYWORD_ONLY for it in required)
    if is_by_name or len(required) not in (_PAYLOAD, _PAYLOAD_AND_JOB):
        name = getattr(function, "__name__", "a task")
        raise InvalidInput(
            f"{name} must take one parameter, the payload, or two: the payload and the job, both by position"
        )
    return len(required)


async def call(function: Callable[..., Any], job: Job, threads: TaskThreads) -> Any:
    """Whatever a task raises is an error, also what would end the program: the next worker would end of the same job.
    Only a cancellation passes: the job decides whether it is the worker's or the task's own."""
    wanted, payload = parameters_of(function), decode(job.payload)
    if not inspect.iscoroutinefunction(function):
        return await threads.call(function, *[payload, ThreadJob(job)][:wanted])
    try:
        return await function(*[payload, job][:wanted])
    except (Exception, asyncio.CancelledError, GeneratorExit):
        raise
    except BaseException as error:
        raise as_exception(error) from error
