"""The test suites, the smallest first.

unit/        one module each, by package; house/ the rules of the repository
property/    Hypothesis: formats and state machines
contract/    one suite per protocol, on every back end
mongo/       what only the MongoDB back end promises
crash/       what must survive: the crash model, faults, SIGKILL
security/    the isolation under attack
service/     the daemon in one process, driven from the inside
web/         the HTTP interface on a real socket; browser/ the pages in a real Chromium
bedrock/     the protocol of Bedrock::Jobs over a real socket
acceptance/  real daemon processes, over HTTP and by the command line
deploy/      what is in the folder deploy of the repository, with the real tools
storm/       a deployment under load and faults, and a checker of what it did
mutants/     bugs that a test must see (`make mutants`)
machine/     scripts for pristine machines (`make fresh`, `make machine`, `make image`)

conftest.py has what holds for all tests, support/ what they share, servers/ how the server of the MongoDB tests is
built, data/ old files that must be read.
"""
