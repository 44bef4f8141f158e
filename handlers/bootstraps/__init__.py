"""Programs that run inside a context, one file per language.

They speak docs/runner-protocol.md and import nothing of ours.

python.py            runs the tenant's handler over batches; the others do the same in their language
node.js, php.php     in one interpreter for all jobs
sh.py                between the daemon and a shell that sources the tenant's text
wasm.py              a fresh instance of the module for every job
packages.py          in the build sandbox: has uv or npm resolve or install, and sends the result
"""
