"""Execution contexts: sandbox, pool, protocol and one engine per language. May import handlers and the vocabulary.

In the order in which a batch of jobs meets them:

runner.py         what the rest of Functory sees: jobs go in, how each stopped comes out; run.py one such call
pool.py           the contexts that are alive; memory_shares.py who may use how much memory; idle_meter.py what those
                  use that are idle; warm_types.py what they are ready for
programs.py       what a context is started with; modules.py the machine code of wasm modules
launch.py         the seam between engines and isolation: what to start; limits.py the bounds of a context and of a job
sandbox/          contexts in isolation; plain.py without it; pipes.py what both have on the daemon's side
context.py        one context, the handlers loaded into it, and the batch that it runs; due_replies.py what it owes;
                  timed_event.py waits for the end of a batch
handler_spec.py   a handler as a context is told of it; protocol.py messages as bytes; messages.py how many jobs in one
wire.py           the pipes of a context on the event loop; flow.py how much of tenants' output is held
batch.py          what the replies mean for the jobs; new_jobs.py the jobs that they make; progress.py how far they say
                  that they are; outcome.py how each stopped; network_hint.py what to do about calls that failed
raw_log.py        what leaves a context past its replies; glimpse.py a look at a job while it runs;
                  log_note.py the words about what is missing of a log
http_engine.py    the engine without a process: a batch is one POST; status_lines.py the answer to it
targets.py        what tenants may have the daemon connect to; resolver.py names to addresses
egress.py         the seam to whoever lets contexts out to the network
secrets.py        the seam to whoever keeps secrets
masking.py        secrets become `***` in all that a context says; secret_forms.py the forms of a value;
                  search_accounts.py how much of the loop's time that may take, live_masker.py keeps to that;
                  form_search.py finds thousands of them at once, form_tree.py those that begin alike;
                  wrapped_text.py joins lines of base64 before that
trees.py          the seam to whoever keeps the files of handlers that are folders; packages/ their packages
errors.py         what goes wrong, as one tree
"""
