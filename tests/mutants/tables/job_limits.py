"""Retries and expiry of a single job: not obeyed, not shown, or read from what a tenant wrote itself."""

from tests.mutants.mutant import Mutant, in_file

CODEC = "tests/property/test_job_limits.py"
RULES = "tests/unit/functory/test_own_limits.py"
LIFE = "tests/service/test_own_limits.py"
WEB = "tests/web/test_own_limits.py"

codec = in_file("vocabulary/job_limits.py", CODEC)
outcomes = in_file("functory/execution/outcomes.py", RULES)
late = in_file("functory/execution/late.py", RULES)
reports = in_file("functory/workers/reports.py", "tests/bedrock/test_commands.py -k own_window")
settings = in_file("functory/operations/job_settings.py", WEB)
rendering = in_file("functory/web/api/rendering.py", WEB)
wishes = in_file("functory/execution/wishes.py", f"{RULES} {LIFE}")

MUTANTS: list[Mutant] = [
    codec("a number out of its range is read", "if name in said or trouble_with(name, value):", "if name in said:"),
    codec("a name that is said twice counts", "if name in said or trouble_with", "if trouble_with"),
    codec("what stands deeper is read", "_OPTIONS.match(options)", "_OPTIONS.search(options)"),
    codec("what is no object is read", r'(?:,"|\}}\Z)', ""),
    codec("an empty object of limits comes to be", "    if limits == NO_LIMITS:\n        return options\n", ""),
    codec("True is a number", "type(value) is int", "isinstance(value, int)"),
    outcomes("a job's own attempts do not count", "own.max_attempts or policy", "policy"),
    outcomes("a job's own window does not count", "own.retry_window_s or policy", "policy"),
    outcomes("a lost job has the attempts of its type", "own_policy(job, retry).max_attempts]", "retry.max_attempts]"),
    outcomes(
        "a retry by hand must be within the window",
        "own if in_window else replace(own, window_s=_NO_WINDOW_S)",
        "own",
        tests="tests/bedrock/test_commands.py -k own_window",
    ),
    late("the longer of two times holds", "max(of_type_ms, now_ms", "min(of_type_ms, now_ms"),
    late("a job's own time does not count", "if wait_s is None and not any(map(_OPTIONS, jobs))", "if wait_s is None"),
    reports("a retry by hand is as any other", "held.retry, report.in_window", "held.retry, True"),
    settings("fields win against options", "if options and KEPT_AS in options:", "if False:"),
    rendering(
        "a job does not show its limits",
        "if job.options else ():\n        setattr",
        "if False else ():\n        setattr",
    ),
    wishes(
        "a job that a job makes has no limits", "return JobLimits(**values) if values", "return NO_LIMITS if values"
    ),
]
