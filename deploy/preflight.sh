#!/bin/sh
# Says clearly what `make setup` lacks before pip gets to say it obscurely. Usage: preflight.sh PYTHON
python=${1:-python3}
if ! command -v "$python" >/dev/null 2>&1; then
    echo "setup: no '$python' on the PATH. Install Python 3.11 or newer, or run: make setup PYTHON=/path/to/python3.11" >&2
    exit 1
fi
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    echo "setup: Functory needs Python 3.11 or newer; '$python' is $("$python" -V 2>&1)." >&2
    echo "       Point to another one: make setup PYTHON=/path/to/python3.11" >&2
    exit 1
fi
if ! "$python" -c 'import venv, ensurepip' 2>/dev/null; then
    echo "setup: '$python' cannot make virtual environments. On Debian or Ubuntu: apt-get install python3-venv" >&2
    exit 1
fi
