"""What a worker in Python is told of the job whose result it gets: the same over both links."""

from tests.support.queue_places import Place


async def test_a_job_says_which_it_follows(place: Place) -> None:
    async with place.open() as queue:
        await queue.register("load", on_failure="alarm")
        await queue.register("alarm")
        (job_id,) = await queue.add("load", "x")
        job = await queue.next("load")
        assert job.follows is None
        await job.fail("no such file")
        alarm = await queue.next("alarm")
        assert (alarm.text, alarm.follows) == ("no such file", {"id": job_id, "type": "load", "code": "failed"})
        await alarm.done()
