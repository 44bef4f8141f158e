"""The grammar of names. A jobtype reads `tenant-type`: the first '-' ends the tenant.

Each grammar is written once, as text, so that schemas and longer expressions are made of it. Programs that run inside
a sandbox (handlers/bootstraps) cannot import it and have a copy of TYPE; a test compares the copies.
Nothing here raises: each part has errors of its own for a name that is wrong.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

TENANT: Final = r"[a-z0-9][a-z0-9_]{0,31}"
TYPE: Final = r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,126}"
TYPE_RULE: Final = "a letter or digit, then up to 126 of letters, digits and _ . : -"
"""TYPE in words, for people whose type is none."""
JOBTYPE: Final = f"{TENANT}-{TYPE}"
SYSID: Final = r"[a-z0-9]{1,8}"
MAX_LABEL_CHARS: Final = 255
LABEL: Final = rf"[^\x00-\x1f\x7f\ud800-\udfff]{{1,{MAX_LABEL_CHARS}}}"
"""A free name, such as that of a rate domain: text without control characters."""
JOB_ID: Final = r"[0-9A-Za-z][0-9A-Za-z_-]{0,63}"
"""What a store takes as an id. The ids that a journal makes are narrower: see journal/ids.py."""
WORKER: Final = "worker"
"""The language of types whose jobs programs elsewhere take (docs/workers.md). The body describes the payload."""

_TENANT: Final = re.compile(TENANT)
_TYPE: Final = re.compile(TYPE)
_JOBTYPE: Final = re.compile(JOBTYPE)
_SYSID: Final = re.compile(SYSID)
_LABEL: Final = re.compile(LABEL)
_JOB_ID: Final = re.compile(JOB_ID)
_JOB_IDS: Final = re.compile(rf"(?:{JOB_ID}\n)*+")


def is_tenant(text: str) -> bool:
    return _TENANT.fullmatch(text) is not None


def is_type(text: str) -> bool:
    return _TYPE.fullmatch(text) is not None


def is_jobtype(text: str) -> bool:
    return _JOBTYPE.fullmatch(text) is not None


def is_sysid(text: str) -> bool:
    return _SYSID.fullmatch(text) is not None


def is_label(text: str) -> bool:
    return _LABEL.fullmatch(text) is not None


def is_job_id(text: str) -> bool:
    return _JOB_ID.fullmatch(text) is not None


def are_job_ids(texts: Sequence[str]) -> bool:
    """Whether all are ids, in one look at all of them: a third of the time of looking at each."""
    lines = "\n".join([*texts, ""])
    return lines.count("\n") == len(texts) and _JOB_IDS.fullmatch(lines) is not None


def jobtype_of(tenant: str, type_name: str) -> str:
    return f"{tenant}-{type_name}"


@lru_cache(maxsize=2048)  # asked some twenty times for each job; the tenant is then the same object, with its hash
def tenant_of(jobtype: str) -> str:
    return jobtype.partition("-")[0]


def type_of(jobtype: str) -> str:
    """The type as its tenant knows it."""
    return jobtype.partition("-")[2]
