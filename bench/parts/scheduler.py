"""The scheduler: the cost of a pick by the number of waiting types, and how the policies share slots in simulated time.

Costs are processor time: the policy is arithmetic, and what else runs on the machine is not its cost.

python -m bench.parts.scheduler [--json] [--types N]
"""

import argparse
import random
import time
from functools import partial
from typing import Any

from bench.parts.simulation import Load, Outcome, Simulation, jain
from bench.tools.report import Report, parse_arguments, quantile
from scheduler import POLICIES, Candidate, Policy, SchedulerOptions, TenantTerms, make_policy
from vocabulary.names import tenant_of

PICKS = 20_000
SLOTS = 8


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.parts.scheduler", description=__doc__)
    parser.add_argument("--types", type=int, default=1_000_000, help="the most jobtypes that wait")
    arguments = parse_arguments(parser, None)
    report = Report("scheduler", as_json=arguments.json)
    report.table("select + jobs_started + jobs_stopped, deficit", picks(arguments.types))
    report.table(f"50 tenants that flood, jobs of 5 ms to 2 s, {SLOTS} slots, 150 s", shares())
    report.table("a quiet tenant, one 5 ms job a second, beside one that floods, deficit, 180 s", quiet_waits())
    report.finish()


def picks(most_types: int) -> list[dict[str, Any]]:
    rows = []
    for tenants, types in [(1, 10), (10, 1), (10, 10), (100, 100), (1000, 100), (1000, 1000)]:
        if tenants * types > most_types:
            continue
        candidates = [Candidate(f"t{t}-job{n}", 10**9) for t in range(tenants) for n in range(types)]
        policy = make_policy("deficit", SchedulerOptions(slots=SLOTS), random.Random(1).random)
        began = time.process_time()
        policy.set_waiting(candidates)
        listed_s = time.process_time() - began
        pick_s, cycle_s = cycles(policy)
        rows.append(
            {
                "tenants": tenants,
                "types each": types,
                "pick us": pick_s * 1e6,
                "pick + start + stop us": cycle_s * 1e6,
                "set_waiting ms": listed_s * 1e3,
            }
        )
    return rows


def cycles(policy: Policy) -> tuple[float, float]:
    """Seconds for a pick alone, and for a pick with its start and stop, with all slots but one busy."""
    dice = random.Random(2)
    running: list[str] = []
    began = time.process_time()
    for _ in range(PICKS):
        policy.select_jobtype_to_run(running[:1])
    picking_s, began = time.process_time() - began, time.process_time()
    for _ in range(PICKS):
        pick = policy.select_jobtype_to_run(running[:1])
        assert pick is not None
        policy.jobs_started(*pick)
        running.append(pick.jobtype)
        if len(running) >= SLOTS - 1:
            policy.jobs_stopped(running.pop(0), pick.jobs, dice.uniform(0.01, 0.2))
    return picking_s / PICKS, (time.process_time() - began) / PICKS


def simulate(policy: str, slots: int, loads: list[Load], until_s: float, borrow_s: float = 0.0) -> Outcome:
    chosen = make_policy(policy, SchedulerOptions(slots=slots, borrow_s=borrow_s), random.Random(1).random)
    chosen.set_tenants({tenant_of(load.jobtype): TenantTerms() for load in loads})
    return Simulation(chosen, loads).run(until_s)


def shares() -> list[dict[str, Any]]:
    lengths_s = [0.005, 0.02, 0.1, 0.5, 2.0]
    loads = [Load(jobtype=f"t{n}-job", job_s=lengths_s[n % 5], backlog=50_000) for n in range(50)]
    rows = []
    for policy in POLICIES:
        outcome = simulate(policy, SLOTS, loads, 150.0)
        served = [outcome.runner_s[f"t{n}"] for n in range(50)]
        rows.append(
            {
                "policy": policy,
                "Jain index": round(jain(served), 4),
                "least runner-s": min(served),
                "most runner-s": max(served),
                "slots used": outcome.utilization,
            }
        )
    return rows


def quiet_waits() -> list[dict[str, Any]]:
    rows = []
    for slots in (2, 4, 8):
        for name, floods, job_s, borrow_s in [
            ("10 ms jobs", 1, 0.01, 0.0),
            ("4 ms jobs, borrowing", 1, 0.004, 0.01),
            ("60 s jobs", 1, 60.0, 0.0),
            ("10 ms jobs, 10 tenants", 10, 0.01, 0.0),
            ("60 s jobs, 3 tenants", 3, 60.0, 0.0),
        ]:
            around = partial(random.Random(3).uniform, job_s / 2, job_s * 1.5)
            loads = [Load(jobtype=f"flood{n}-job", job_s=around, backlog=400_000 // floods) for n in range(floods)]
            loads.append(Load(jobtype="quiet-job", job_s=0.005, every_s=1.0, begin_s=60.5))
            outcome = simulate("deficit", slots, loads, 180.0, borrow_s)
            waits = outcome.waits_s["quiet-job"]
            rows.append(
                {
                    "slots": slots,
                    "flood": name,
                    "quiet jobs": len(waits),
                    "wait p50 ms": quantile(waits, 0.5) * 1000,
                    "p95 ms": quantile(waits, 0.95) * 1000,
                    "max ms": max(waits) * 1000,
                    "slots used": outcome.utilization,
                }
            )
    return rows


if __name__ == "__main__":
    main()
