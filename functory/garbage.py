"""The cycle collector of a process that runs jobs all day."""

import gc


def settle_garbage() -> None:
    """What is there now stays for good: the collector need not look at it again. And what a job leaves is gone by
    reference counting; looking for circles after every 700 objects, as is the default, costs a tenth of all work."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
