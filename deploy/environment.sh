#!/bin/sh
# The virtual environment of a checkout, in layers, from the locked and hashed requirements.
#
#   environment.sh run     [PYTHON]   what the service needs
#   environment.sh develop [PYTHON]   that, and the tools for format, lint, types and tests
#   environment.sh moved              ends well if .venv is that of another place, and nothing else
#
# The scripts in an environment name its place, so one that came along when a checkout was renamed or copied would run
# nothing, or the code of the other place: it is made anew. One that .venv is a link to is shared on purpose, and stays.
# Installs with uv where it is on the PATH, because it is faster, otherwise with pip. The checkout itself is not built:
# the environment points to it, and .venv/bin/functory is its command.
set -eu
layer=$1
python=${2:-python3}
cd "$(dirname "$0")/.."

place() { cat .venv/lib/python*/site-packages/functory-checkout.pth 2>/dev/null | head -n 1; }
is_moved() { [ ! -L .venv ] && [ -n "$(place)" ] && [ "$(cd "$(place)" 2>/dev/null && pwd -P)" != "$(pwd -P)" ]; }

if [ "$layer" = moved ]; then
    is_moved
    exit
fi
sh deploy/preflight.sh "$python"

case $layer in
run) lock=requirements.lock purpose="what the service needs" ;;
develop) lock=requirements-dev.lock purpose="the tools for tests, types and lint" ;;
*) echo "environment: unknown layer '$layer'; the head of this file lists them" >&2 && exit 2 ;;
esac

say() { echo "setup: $*"; }

if is_moved; then
    say "the virtual environment in .venv is that of $(place): it is made anew for this place"
    rm -rf .venv
fi
if ! .venv/bin/python -c '' 2>/dev/null; then # none yet, or its python is gone
    say "a virtual environment in .venv ($("$python" -V 2>&1))"
    rm -rf .venv
    "$python" -m venv .venv
fi

say "$purpose, from $lock: $(grep -c '^[A-Za-z0-9]' $lock) packages"
if ! { command -v uv >/dev/null 2>&1 && uv pip install --quiet --python .venv/bin/python --require-hashes -r $lock; }; then
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --use-pep517 --require-hashes -r $lock
fi

# What an editable install would leave here, without a build tool.
packages=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
pwd >"$packages/functory-checkout.pth"
cat >.venv/bin/functory <<'END'
#!/bin/sh
exec "$(dirname -- "$(readlink -f -- "$0")")/python" -P -m functory "$@"
END
chmod +x .venv/bin/functory
touch ".venv/.$layer"
[ "$layer" = run ] || touch .venv/.run
