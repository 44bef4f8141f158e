"""Programs that deploy/systemd/install.sh calls, as they are on another machine."""

import shutil
from pathlib import Path


def elsewhere(folder: Path) -> str:
    """Does what realpath does, as if the folder were /srv: below /tmp the service could not see it. What is in its
    `apart` is then at the root."""
    real = shutil.which("realpath")
    cases = f'"-m {folder}/apart"*) echo "${{3#{folder}/apart}}" ;; "-m {folder}"*) echo "/srv${{3#{folder}}}" ;;'
    return f'case "$1 $3" in {cases} *) exec {real} "$@" ;; esac'
