"""Routes of schedules, which are jobs that repeat: list them, pause and resume one, the next times of a pattern."""

from functory.operations import schedules
from functory.web.api.rendering import show_page
from functory.web.http.endpoint import Call
from functory.web.http.routes import Routes
from functory.wire.base import Done
from functory.wire.jobs import Page, SchedulesQuery
from functory.wire.schedules import NextTimes, NextTimesQuery

routes = Routes()


@routes.add("GET", "/{tenant}/schedules", scope="read", summary="Jobs that repeat and are not over, page by page")
async def list_schedules(call: Call, query: SchedulesQuery) -> Page:
    async with call.web.listings.of(call.tenant):
        call.refuse_unheard()
        page = await schedules.list_schedules(call.service, call.tenant, cursor=query.cursor, limit=query.limit)
        return show_page(page)


@routes.add("GET", "/{tenant}/schedules/next", scope="read", summary="When rounds of a pattern would be due")
async def get_next_times(call: Call, query: NextTimesQuery) -> NextTimes:
    return NextTimes(schedules.next_times(query.repeat, call.service.now_ms(), query.count))


@routes.add("POST", "/{tenant}/job/{id}/pause", scope="manage", summary="Pause a schedule: no round of it begins")
async def pause_schedule(call: Call) -> Done:
    await schedules.pause_schedule(call.service, call.principal, call.param("id"))
    return Done()


@routes.add("POST", "/{tenant}/job/{id}/resume", scope="manage", summary="Resume a schedule that is paused")
async def resume_schedule(call: Call) -> Done:
    await schedules.resume_schedule(call.service, call.principal, call.param("id"))
    return Done()
