"""What the suites share: fakes, fixtures and the rule for missing tools.

Daemons and commands
  service.py            a daemon inside the test's event loop; served_daemon.py the same with its HTTP side;
                        two_daemons.py two of one store
  web.py                a whole service on a free port, with small seams; fake_daemon.py those seams;
                        absent_parts.py the parts that it can be without
                        away_store.py a store of it that is away for a while
  express.py            requests to it for the short way of a plain POST
  webhooks.py           webhooks of it, and what others post to them
  bedrock.py            a daemon that serves the protocol of Bedrock::Jobs, and a client of it
  workers.py            a daemon with one tenant, and the verbs of a worker; worker_calls.py these over HTTP
  consumers.py          consumers, and what they work through
  alert_rules.py        rules of a tenant, and looks at them
  tenants.py            a tenant that comes and goes, and a store that is away at times
  intake.py             how lines get into a store, without a daemon
  straight.py           jobs on the straight way; straight_times.py when they leave it
  queue_places.py       a queue in this process and one over HTTP
  daemon_process.py     a real `functory serve` process; polling.py waits for what it does
  network.py            daemons and workers on links that can be cut or made slow
  fake_server.py        an HTTP server that answers as it is told, or breaks the connection
  command_line.py       `functory ...` in a process of its own; terminal.py the same inside the test's event loop;
                        command_tours.py each command of a group once
  cli_reference.py      docs/cli.md, made from the parser; newcomer.py does a page of the documentation step by step
  pages.py              a visitor of the pages without a browser; chromium.py one with it

Stores
  stores.py             the back ends that suites run on, one row each
  jobs.py               jobs and outcomes, short to write; relatives.py parents and children
  store_model.py        a store in memory, as plain as possible; model_entry.py one job of it;
                        counted_model.py what can be read of it; deleting_model.py with ids that stay
  agreement.py          the machine that compares the back ends with that model; store_steps.py what it draws
  rate_bucket.py        the bucket of a rate domain, in memory
  store_audit.py        what holds for any store at rest
  schedules.py          jobs of a store that repeat; site_schedules.py of a site
  store_content.py      a store with something of everything in it; told.py what a moved one must have
  half_bound.py         a request that ends between its idempotency key and its jobs
  turns.py              two stores taking turns, one of them stopped between two of its steps; races.py all verbs so
  store_worker.py, key_worker.py, straight_worker.py, migration_worker.py   processes that work until they are killed;
                        deleted_worker.py one that deletes before
  mongo_server.py       a MongoDB server; mongo_cut.py a proxy that breaks its connections
  mongo_commands.py     the commands that a driver sends; mongo_examined.py how much the server reads for them

Disks
  crash_disk.py         keeps what was synced apart from what was only written
  faulty_disk.py        fails as it is told; small_disk.py can be filled to its last byte
  journal_writer.py     a program that writes lines until it is killed
  durable_programs.py   programs that must survive a power cut; syscalls.py what they asked of the kernel

Contexts and handlers
  engines.py            the same behaviours in every language, and how jobs stopped
  secret_shelf.py       secrets in memory, for runners; http_target.py a server that http handlers call
  contexts.py           small programs, limits that are reached quickly
  processes.py          other processes as /proc shows them
  egress.py             hosts to call through the proxy, and a client that speaks to it by hand;
                        client_hello.py what a client of TLS says first
  archives.py           archives of folders, ordinary and hostile; folders.py handlers made of them
  wheels.py             wheels made by tests; package_index.py, npm_registry.py where packages come from
  told_sandbox.py       a build sandbox that does as it is told

Time
  clocks.py             clocks that move when they are told to
  virtual_time.py       a loop whose time is a number; inline.py an executor without threads
  loop_steps.py         how long the event loop was in one step

Deployment
  deploy_files.py       the files of the folder deploy as values; kustomize.py what it does with them
  nginx.py              a real nginx with our configuration
  systemd_install.py    programs that install.sh calls, as they are on another machine
  notify_socket.py      the service manager's end of the notification protocol

needs.py is the rule for a missing tool or server: skipped with its reason, a failure in CI.
"""
