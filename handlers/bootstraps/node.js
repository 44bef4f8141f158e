// The node side of a context: reads batches on fd 3, runs the tenant's handler over them, answers on fd 4.
//
// One file, no packages. It promises the tenant the semantics of docs/handlers.md; the daemon trusts nothing that it says,
// because the tenant's code lives in this same process. Between jobs it reads with readSync: a context that has no batch is
// frozen, timers that a handler left behind run only while a later job awaits something.
'use strict';

const fs = require('fs');
const path = require('path');
const vm = require('vm');
const { performance } = require('perf_hooks');
const { pathToFileURL } = require('url');
const { StringDecoder } = require('string_decoder');
const { inspect } = require('util');

// Handlers are scripts, not modules: they find require where they expect it, resolving from their own folder. What this
// machine has installed for everybody is not searched: a handler would run here and on no other machine.
const Module = require('module');
const scratch = process.cwd();
const packages = process.argv[2]; // of a handler that asks for some: their folder, a node_modules
const folder = placeHandler(process.env.FUNCTORY_HANDLER); // of a handler that is one: its files
if (folder) process.chdir(folder);
const ownFolder = `${folder === process.env.FUNCTORY_HANDLER ? process.cwd() : folder}/`;
const searchable = packages && folder ? [ownFolder, `${path.dirname(folder)}/node_modules/`] : [ownFolder];
const searched = Module._resolveLookupPaths;
Module._resolveLookupPaths = (request, parent) => {
  const paths = searched(request, parent);
  return paths && paths.filter((one) => !one.startsWith('/') || searchable.some((place) => `${one}/`.startsWith(place)));
};

// Node looks for packages in node_modules of the folders above a file. Where a context has a root of its own they lie there;
// where it has not, handler and packages are linked side by side in its scratch space (and node was told not to follow links).
function placeHandler(given) {
  if (!given || !packages || packages === `${path.dirname(given)}/node_modules`) return given;
  fs.symlinkSync(packages, `${scratch}/node_modules`);
  fs.symlinkSync(given, `${scratch}/handler`);
  return `${scratch}/handler`;
}
globalThis.require = Module.createRequire(ownFolder);

// A context with hosts reaches them through the daemon's proxy and no other way. Node looks at HTTPS_PROXY from version 24 on
// only; so its own clients are led there: http and https in whatever agent, and fetch.
const OUR_PROXY = { host: '127.0.0.1', port: 3128 };
if (process.env.HTTPS_PROXY === `http://${OUR_PROXY.host}:${OUR_PROXY.port}`) useProxy();

function useProxy() {
  process.env.NODE_USE_ENV_PROXY = '1'; // for the programs that a handler starts; for this one it comes too late
  const net = require('net'), tls = require('tls'), http = require('http'), https = require('https');
  const bracketed = (host) => (net.isIPv6(host) ? `[${host}]` : host);
  const open = (options, secure, done) => {
    const target = `${bracketed(options.host)}:${options.port}`;
    const asking = http.request({
      method: 'CONNECT', path: target, headers: { Host: target }, createConnection: () => net.connect(OUR_PROXY),
    });
    asking.once('error', done);
    asking.once('connect', (answer, socket) => {
      if (answer.statusCode !== 200) {
        socket.destroy();
        done(new Error(answer.statusMessage));
      } else if (!secure) {
        done(null, socket);
      } else {
        const made = tls.connect({ ...options, path: undefined, socket });
        made.once('error', done);
        made.once('secureConnect', () => { made.off('error', done); done(null, made); });
      }
    });
    asking.end();
  };
  http.Agent.prototype.createConnection = function createConnection(options, done) { open(options, false, done); };
  https.Agent.prototype.createConnection = function createConnection(options, done) { open(options, true, done); };
  const fetchDirectly = globalThis.fetch;
  if (!fetchDirectly) return; // node before 18
  let isLed = false;
  globalThis.fetch = function fetch(...given) {
    if (!isLed) {
      isLed = true;
      void globalThis.Headers; // what fetch is made of is loaded when it is first touched
      leadFetch(({ hostname, protocol, port, servername }, done) => {
        const secure = protocol === 'https:';
        const host = hostname.replace(/^\[|\]$/g, '');
        const to = { host, port: port || (secure ? 443 : 80), ALPNProtocols: ['http/1.1'] };
        open({ ...to, servername: servername || (net.isIP(host) ? undefined : host) }, secure, done);
      });
    }
    return fetchDirectly.apply(globalThis, given);
  };
}

// The agent of fetch has its place in the global object; from undici 8 on (node 26) in a second one, and a wrapper of it in the
// first, for older copies of undici that a package may bring along.
function leadFetch(connect) {
  const places = [2, 1].map((version) => Symbol.for(`undici.globalDispatcher.${version}`)).filter((place) => globalThis[place]);
  if (!places.length) return;
  const Agent = globalThis[places[0]].constructor;
  const agent = new Agent({ connect });
  for (const place of places) {
    const Kind = globalThis[place].constructor;
    globalThis[place] = Kind === Agent ? agent : new Kind(agent);
  }
}

const PROTOCOL = 1;
const REQUEST_FD = 3;
const REPLY_FD = 4;
const LOAD = 1, BATCH = 2, CHECK = 3;
const HELLO = 1, LOADED = 2, REFUSED = 3, BEGUN = 4, STOPPED = 5, ENDED = 6, FAILED = 7, LEAVING = 8, PROGRESS = 9;
const REPLY_BYTES = 16;
const NO_DELAY = 0xffffffff;
const MAX_U32 = 0xfffffffe;
const TIMED_OUT = 504, TOO_BIG = 413, BROKEN = 500;
const PROGRESS_BYTES = 1000;
const PROGRESS_FREE = 10, PROGRESS_MS = 100; // after the first ten: what a job says of its progress more often is left out
const SLOW_MS = 20; // a job that runs longer prints through to the raw log: what it said survives a crash
const TEXT_MAX = 8000;
const CAUSES_MAX = 8;
const IN_ONE_LINE = { breakLength: Infinity, compact: true, maxStringLength: Infinity };
const TYPE = /^[A-Za-z0-9][A-Za-z0-9_.:-]{0,126}$/;
const MARK = /^#?J: /;

class Refused extends Error {
  constructor(field, message, line = 0, column = 0, code = 400) {
    super(message);
    Object.assign(this, { field, line, column, code });
  }
}
class Outcome {
  constructor(code, data, afterMs = NO_DELAY) { Object.assign(this, { code, data, afterMs }); }
}
class TooBig extends Error {}

// --- the pipes ------------------------------------------------------------------------------------------------------

// The tenant can replace fs.writeSync or Buffer methods in its own process; taking our own references keeps honest code
// working beside careless monkey patching.
const readSync = fs.readSync, writeSync = fs.writeSync;

function readExactly(buffer) {
  let at = 0;
  while (at < buffer.length) {
    const got = readSync(REQUEST_FD, buffer, at, buffer.length - at);
    if (got === 0) process.reallyExit(0);
    at += got;
  }
  return buffer;
}

function readRequest() {
  const head = readExactly(Buffer.allocUnsafe(8));
  const body = readExactly(Buffer.allocUnsafe(head.readUInt32LE(0)));
  return { kind: head.readUInt16LE(4), slot: head.readUInt16LE(6), body };
}

function write(buffer, length = buffer.length) {
  let at = 0;
  while (at < length) at += writeSync(REPLY_FD, buffer, at, length - at);
}

function fillHead(head, length, kind, code, index, durationUs) {
  head.writeUInt32LE(length, 0);
  head[4] = kind;
  head[5] = 0;
  head.writeUInt16LE(code, 6);
  head.writeUInt32LE(index, 8);
  head.writeUInt32LE(Math.min(durationUs, MAX_U32), 12);
  return head;
}

function reply(kind, code, index, body = Buffer.alloc(0)) {
  write(Buffer.concat([fillHead(Buffer.alloc(REPLY_BYTES), body.length, kind, code, index, 0), body]));
}

const bare = Buffer.alloc(REPLY_BYTES);

function replyBare(index, durationUs) {
  write(fillHead(bare, 0, STOPPED, 200, index, durationUs), REPLY_BYTES);
}

function replyStopped(index, durationUs, stopped) {
  const { code, result, log, dropped, afterMs, newJobs, carried } = stopped;
  const detail = Buffer.alloc(20);
  [result.length, log.length, Math.min(dropped, MAX_U32), afterMs, newJobs.length].forEach((word, at) =>
    detail.writeUInt32LE(word, at * 4));
  const parts = [detail, result, log];
  for (const line of carried === null ? newJobs : [...newJobs, carried]) {
    const size = Buffer.alloc(4);
    size.writeUInt32LE(line.length, 0);
    parts.push(size, line);
  }
  const body = Buffer.concat(parts);
  write(Buffer.concat([fillHead(Buffer.alloc(REPLY_BYTES), body.length, STOPPED, code, index, durationUs), body]));
}

let running = null; // { index, started, ctx } while a job runs
let batchNumber = 0;
const clock = new Int32Array(new SharedArrayBuffer(4)); // nobody wakes it: to wait on it is to sleep

// --- the log of the running job ---------------------------------------------------------------------------------------

const log = {
  keep: 16384, lineMax: 1 << 20, makesJobs: true, pieces: [], size: 0, kept: '', dropped: 0, open: '', inside: false, lines: [], overlong: false,

  add(text) {
    this.pieces.push(text);
    this.size += text.length;
    if (running && performance.now() - running.started > SLOW_MS) this.passOn();
    else if (this.size > this.keep * 2) this.settle(false);
  },
  passOn() {
    // All but new jobs: those belong to this job, and on the raw log they could be taken for the next one's. A line that
    // has begun stays while it may become one.
    this.settle(false);
    let ready = this.kept;
    this.kept = '';
    if (this.inside || !this.makesJobs || !['J: ', '#J: '].some((mark) => this.open.startsWith(mark) || mark.startsWith(this.open))) {
      ready += this.open;
      this.open = '';
      this.inside = true;
    }
    const text = Buffer.from(ready);
    for (let at = 0; at < text.length;) {
      try {
        at += writeSync(1, text, at);
      } catch (err) {
        if (err.code !== 'EAGAIN') throw err; // node makes its own stdout non-blocking
        Atomics.wait(clock, 0, 0, 1);
      }
    }
  },
  get dirty() {
    return decoders.some((one) => one.lastNeed) || this.dropped > 0 || this.size > 0 || this.kept !== '' || this.open !== '' || this.inside || this.lines.length > 0 || this.overlong;
  },
  settle(final) {
    const text = this.open + this.pieces.join('');
    this.pieces = [];
    this.size = 0;
    const cut = final ? text.length : text.lastIndexOf('\n') + 1;
    this.open = text.slice(cut);
    if (cut) {
      const done = text.slice(0, cut);
      this.kept += this.makesJobs && done.includes('J: ') ? this.takeMarks(done) : done;
      this.inside = false;
    }
    const marked = this.makesJobs && MARK.test(this.open) && !this.inside;
    if (this.open.length > (marked ? this.lineMax : this.keep)) {
      this.overlong = this.overlong || marked;
      this.kept += this.open;
      this.open = '';
      this.inside = true;
    }
    if (this.kept.length > this.keep) {
      this.dropped += Buffer.byteLength(this.kept.slice(0, -this.keep));
      this.kept = this.kept.slice(-this.keep);
    }
  },
  endLine() { // of a hook: what a job prints is not to stand behind it
    this.addRest();
    this.settle(false);
    if (this.open !== '' || this.inside) this.add('\n');
  },
  takeMarks(text) {
    const rest = [];
    text.split('\n').forEach((line, number) => {
      if (MARK.test(line) && !(this.inside && number === 0)) {
        const made = line.replace(MARK, '');
        const bar = made.indexOf('|');
        if (bar > 0 && isHead(made.slice(0, bar))) return this.lines.push(Buffer.from(made));
        line += ' [not a new job: write J: type|payload]';
      }
      return rest.push(line);
    });
    return rest.join('\n');
  },
  addRest() { // of characters that were not written to their end: no other job is to have them
    for (const decoder of decoders) {
      const rest = decoder.end();
      if (rest) this.add(rest);
    }
  },
  take() {
    this.addRest();
    this.settle(true);
    const found = { log: Buffer.from(this.kept), dropped: this.dropped, lines: this.lines, overlong: this.overlong };
    Object.assign(this, { kept: '', dropped: 0, lines: [], open: '', inside: false, overlong: false });
    return found;
  },
};

const decoders = [];
function capture() {
  const decoder = new StringDecoder(); // a character may come in two pieces
  decoders.push(decoder);
  return (chunk, encoding, done) => {
    log.add(typeof chunk === 'string' ? decoder.end() + chunk : decoder.write(Buffer.from(chunk)));
    const callback = typeof encoding === 'function' ? encoding : done;
    if (callback) process.nextTick(callback);
    return true;
  };
}
process.stdout.write = capture();
process.stderr.write = capture();

// --- what the handler gets and gives ------------------------------------------------------------------------------------

class Context {
  constructor(slot, id, attempt, payloadBytes) {
    this.slot = slot;
    this.id = id;
    this.attempt = attempt;
    this.payloadBytes = payloadBytes;
    this.newJobs = null;
    this.carried = null;
    this.timesTold = 0; // of its progress
    this.toldAt = 0;
  }
  get type() { return this.slot.type; }
  get follows() { return this.slot.origins.get(this.id) ?? null; } // the job whose result it gets
  get children() { return this.slot.children; } // of a job that runs again after they have ended
  get secrets() { return this.slot.secrets; }
  get timeoutS() { return this.slot.limits.timeout_s; }
  retry({ afterS, data } = {}) {
    if (Number.isNaN(Number(afterS ?? 0))) throw new RangeError(`ctx.retry takes seconds as afterS, not ${inspect(afterS, IN_ONE_LINE)}`);
    throw new Outcome(100, data, afterS == null ? NO_DELAY : Math.min(Math.max(Math.trunc(afterS * 1000), 0), MAX_U32));
  }
  fail(data, code = 400) {
    if (!Number.isInteger(code) || code < 400 || code > 499) {
      throw new RangeError(`ctx.fail takes a whole number from 400 to 499 as its code, not ${inspect(code, IN_ONE_LINE)}`);
    }
    throw new Outcome(code, data);
  }
  enqueue(type, payload = '', { delayS, priority, domain, key, unique, child, sibling, ...more } = {}) {
    if (typeof type !== 'string' || !TYPE.test(type)) {
      throw new TypeError(`not a job type: ${type}; letters, digits and _ . : - without the tenant`);
    }
    const query = asQuery({
      delay_s: delayS, priority, domain, key, unique, child: child ? 1 : undefined, sibling: sibling ? 1 : undefined,
      ...ownLimits(more),
    });
    const data = typeof payload === 'string' ? Buffer.from(payload) : dump(payload);
    this.add(Buffer.concat([Buffer.from(type + (query && '?' + query) + '|'), data]));
  }
  carry(data) { // the payload of the next round of a repeating job, or of the next attempt of one that is retried
    const carried = typeof data === 'string' ? Buffer.from(data) : dump(data);
    const limit = this.slot.limits.new_job_bytes;
    if (carried.length > limit) throw new TooBig(`carried more than ${limit} bytes on`);
    this.carried = carried;
  }
  progress(value) { // how far the job has come: a number, a text, or what JSON can hold; ten times a second is enough
    const text = Buffer.from(wellFormed(JSON.stringify(value ?? null)));
    if (text.length > PROGRESS_BYTES) throw new RangeError(`progress of more than ${PROGRESS_BYTES} bytes: say it in fewer words`);
    const now = performance.now();
    if (running?.ctx !== this || (this.timesTold >= PROGRESS_FREE && now - this.toldAt < PROGRESS_MS)) return;
    this.timesTold++;
    this.toldAt = now;
    reply(PROGRESS, 0, batchNumber, text);
  }
  add(line) {
    const limits = this.slot.limits;
    this.newJobs ??= [];
    const together = (this.newJobsBytes ?? 0) + line.length;
    if (this.newJobs.length >= limits.new_jobs) throw new TooBig(`made more than ${limits.new_jobs} new jobs`);
    if (line.length > limits.new_job_bytes) throw new TooBig(`made a new job of more than ${limits.new_job_bytes} bytes`);
    if (together > limits.new_jobs_bytes) throw new TooBig(`made new jobs of more than ${limits.new_jobs_bytes} bytes together`);
    this.newJobsBytes = together;
    this.newJobs.push(line);
  }
}

function isHead(text) { // what stands before the bar of a new job: its type, and options after a question mark
  const at = text.indexOf('?');
  return at < 0 ? TYPE.test(text) : TYPE.test(text.slice(0, at)) && /^[!-~]{0,2000}$/.test(text.slice(at + 1));
}

const LIMITS = {
  maxAttempts: 'max_attempts', retryBaseMs: 'retry_base_ms', retryMaxMs: 'retry_max_ms',
  retryWindowS: 'retry_window_s', maxWaitS: 'max_wait_s',
};

function ownLimits(more) { // what a new job says of its own retries and expiry
  const said = {};
  for (const [name, option] of Object.entries(LIMITS)) {
    const value = more[name] ?? undefined;
    if (value !== undefined && !(Number.isSafeInteger(value) && value >= 1)) {
      throw new RangeError(`${name} must be a whole number from 1 on, not ${inspect(value, IN_ONE_LINE)}`);
    }
    said[option] = value;
  }
  return said;
}

function asQuery(options) {
  const { delay_s: delayS = 0, priority = 500 } = options;
  if (typeof delayS !== 'number' || !(delayS >= 0 && delayS <= 3_155_760_000)) {
    throw new RangeError(`delayS must be a number of seconds from 0 on, not ${delayS}`);
  }
  if (![0, 500, 1000].includes(priority)) throw new RangeError(`priority must be 0, 500 or 1000, not ${priority}`);
  for (const name of ['domain', 'key', 'unique']) {
    const value = options[name] ?? undefined;
    if (value === '') throw new RangeError(`${name} is empty: leave it out if the job has none`);
    if (value === undefined) continue;
    if (typeof value !== 'string' || value.length > 255) throw new RangeError(`${name} must be a text of up to 255 characters`);
  }
  const said = Object.entries(options).filter(([, value]) => value !== undefined && value !== null);
  const quoted = (value) => encodeURIComponent(value).replace(/[!'()*]/g, (char) => '%' + char.charCodeAt(0).toString(16));
  const query = said.map(([name, value]) => `${name}=${quoted(value)}`).join('&');
  if (query.length > 2000) throw new RangeError('the options of a new job are more than 2,000 characters: choose shorter names');
  return query;
}

// Half a surrogate pair, which JSON writes as an escape, can be shown nowhere: a replacement character stands for it.
function wellFormed(json) {
  return json.replace(/\\(ud[89a-f]..|.)/g, (found, what) => (what.length > 1 ? '\ufffd' : found));
}

function dump(data) {
  if (data === undefined || data === null) return Buffer.alloc(0);
  if (data instanceof Uint8Array) return Buffer.from(data);
  const text = JSON.stringify(data);
  if (text === undefined) throw new TypeError(`a ${typeof data} has no JSON form`);
  if (text.includes('null')) JSON.stringify(data, refuseNotANumber); // NaN would be one, and nobody could tell
  return Buffer.from(text);
}

function refuseNotANumber(_, value) {
  if (typeof value === 'number' && !Number.isFinite(value)) throw new TypeError(`${value} has no JSON form`);
  return value;
}

function judge(value, numbersAreStatuses) {
  let code = 200, data = value;
  if (numbersAreStatuses && Number.isInteger(value)) [code, data] = [value, undefined];
  else if (Array.isArray(value) && value.length === 2 && Number.isInteger(value[0])) [code, data] = value;
  if (!((code >= 100 && code <= 299) || (code >= 400 && code <= 599))) {
    return { code: BROKEN, result: Buffer.from(`returned ${code}, an invalid status code; use 1xx, 2xx, 4xx or 5xx`) };
  }
  return withResult(code, data);
}

function withResult(code, data) {
  try {
    return { code, result: dump(data) };
  } catch (err) {
    return { code: BROKEN, result: Buffer.from(`returned what JSON cannot hold: ${err.message}`) };
  }
}

// With what caused it, as far as there is room. It is the tenant's: whatever it does when it is looked at, it is explained.
function explain(err) {
  const told = [];
  const seen = new Set();
  for (const left = [['', err]]; left.length && told.length < CAUSES_MAX;) {
    const [before, one] = left.shift();
    if (seen.has(one)) continue;
    seen.add(one);
    told.push(before + explainOne(one));
    left.push(...causesOf(one).map((cause) => ['Caused by: ', cause]));
  }
  return told.join('\n').slice(0, TEXT_MAX);
}

function explainOne(err) {
  try {
    if (!(err instanceof Error && typeof err.stack === 'string')) return `thrown: ${typeof err === 'string' ? err : inspect(err, IN_ONE_LINE)}`;
    return err.stack.split('\n').filter((line) => !line.includes(__filename)).join('\n');
  } catch (odd) {
    return 'thrown: what cannot be shown';
  }
}

function causesOf(err) {
  try {
    if (!(err instanceof Error)) return [];
    return [...(err.cause == null ? [] : [err.cause]), ...(Array.isArray(err.errors) ? err.errors.slice(0, CAUSES_MAX) : [])];
  } catch (odd) {
    return [];
  }
}

function explainWithHint(err, limits) {
  const hint = err && typeof err === 'object' ? limits.hints[err.code] : undefined;
  const text = explain(err); // the edge where it was cut must stay one: a part of a secret is looked for there
  return hint && text.length < TEXT_MAX ? `${text}\n${hint}` : text;
}

function judgeError(err, limits) {
  if (err instanceof Outcome) return { ...withResult(err.code, err.data), afterMs: err.afterMs };
  if (err instanceof TooBig) return { code: TOO_BIG, result: Buffer.from(err.message) };
  return { code: BROKEN, result: Buffer.from(explainWithHint(err, limits)) };
}

// --- loading ----------------------------------------------------------------------------------------------------------

// The prefix stands on the tenant's first line and is taken off the column with columnOffset: positions in errors and stack
// traces are those of the text that was sent.
function compileText(field, name, prefix, text, suffix) {
  try {
    return new vm.Script(prefix + text + suffix, { filename: name, columnOffset: -prefix.length });
  } catch (err) {
    const at = /^.*:(\d+)\n(?:.*\n( *)\^)?/.exec(err.stack || '') || [];
    const lines = text.split('\n');
    const line = Number(at[1] || 0);
    if (line > lines.length) { // the text ended too early: what follows it is ours
      throw new Refused(field, `${err.message} (at the end of the text)`, lines.length, lines[lines.length - 1].length + 1);
    }
    const column = at[2] === undefined ? 0 : at[2].length + 1 - (line === 1 ? prefix.length : 0);
    throw new Refused(field, err.message, line, Math.max(column, 0));
  }
}

// What comes before the first token that counts: comments, and a directive. At the start of a text nothing can be mistaken
// for one of these.
const LEAD = /^(?:\s|\/\/[^\n]*|\/\*[^]*?\*\/|(['"])use strict\1[ \t]*(?:;|(?=\r?\n)))*/;
const TAIL = /^(?:[\s;]|\/\/[^\n]*(?=\n|$)|\/\*(?:[^*]|\*(?!\/))*\*\/)*$/;
const BEGINS_FUNCTION = /^(async\b|function\b|\(|[A-Za-z_$][\w$]*\s*=>)/;
const MOST_ENDS = 200; // that are tried: more of them are a text that is made to take long

function compiles(text) {
  try {
    return Boolean(new vm.Script(text, { filename: 'handler.js' }));
  } catch {
    return false;
  }
}

// The places where a text might be divided, the last first.
function placesOf(pattern, text) {
  return [...text.matchAll(pattern)].slice(-MOST_ENDS).reverse().map((match) => match.index);
}

// Whether an expression is a function for sure, also in brackets of its own. What is called, or goes on behind a bracket, is
// none: (f)(x), (a || b).c(). An arrow function cannot follow an operator: so its first bracket is told from these.
function isFunction(expression) {
  const text = expression.slice(LEAD.exec(expression)[0].length);
  if (!text.startsWith('(') || !compiles(`0|${text}`)) return BEGINS_FUNCTION.test(text);
  const end = placesOf(/\)/g, text).find((at) => TAIL.test(text.slice(at + 1)));
  return end !== undefined && compiles(`[${text.slice(1, end)}\n]`) && isFunction(text.slice(1, end));
}

// A text that is one expression, and may be a function: without the semicolons and comments behind it, which could not stand
// in brackets. Else null.
function asExpression(text) {
  const [lead] = LEAD.exec(text);
  if (!BEGINS_FUNCTION.test(text.slice(lead.length))) return null;
  const isStrict = /(['"])use strict\1/.test(lead.replace(/\/\/[^\n]*|\/\*[^]*?\*\//g, ''));
  const [prefix, suffix] = isStrict ? ["(() => {'use strict';return (", '\n)})()'] : ['(', '\n)'];
  const plain = (isStrict ? lead.replace(/[^\n]/g, ' ') + text.slice(lead.length) : text).replace(/[\s;]+$/, '');
  const ends = placesOf(/;/g, plain).filter((at) => TAIL.test(plain.slice(at)));
  const end = [plain.length, ...ends].find((at) => compiles(`(${plain.slice(0, at)}\n)`));
  if (end === undefined) return null;
  const isBare = lead.trim() === '' && end === plain.length; // then it may also be a call that makes the function
  if (!isBare && !isFunction(plain.slice(lead.length, end))) return null;
  return { prefix, text: plain.slice(0, end), suffix };
}

const DEFINES = /(^|[\s;}])(async\s+function\s*\*?|function\s*\*?|const|let|var)\s+handler\b/;
const USES = /(?<![.\w$])handler\s*(?:\?\.\s*)?\(|[(,]\s*handler\s*\)/;

// Whether a program declares handler outside all of its functions: then it cannot be declared once more. If it does so in
// another way than const handler = …, and returns, waits or calls it, then the text is the inside of a function.
function definesHandler(text) {
  if (!/\bhandler\b/.test(text)) return false;
  const start = ['(function () {', '(async function () {'].find((one) => compiles(`${one}${text}\n})`));
  if (start === undefined || compiles(`${start}let handler;${text}\n})`)) return false;
  return DEFINES.test(text) || (compiles(text) && !USES.test(withoutStrings(text)));
}

// In the order in which they are tried: an expression that is a function, a program that defines handler, a function body.
function compileBody(text) {
  const alone = asExpression(text);
  if (alone) return compileText('body', 'handler.js', alone.prefix, alone.text, alone.suffix);
  if (definesHandler(text)) return compileText('body', 'handler.js', '(function () {', text, '\n;return handler;})()');
  const start = /\bawait\b/.test(text) ? '(async function' : '(function';
  return compileText('body', 'handler.js', `${start} (payload, ctx) {`, text, '\n})');
}

function compileHook(spec, field) {
  return spec[field] ? compileText(field, `${field}.js`, '(async () => {', spec[field], '\n})') : null;
}

// The entry of a folder is a module as node has them, and what it exports is called. Its text is parsed without running it:
// as CommonJS, or as an ES module that also imports what does not exist, so that it is parsed and never linked.
async function checkModule(spec) {
  const kind = /\.([cm]?)(ts|js)$/.exec(spec.entry) || [];
  let text = spec.body;
  if (kind[2] === 'ts') {
    if (!process.features.typescript) {
      throw new Refused('body', `is TypeScript, and node ${process.version} does not run it: use node 22.18 or later, or send JavaScript`);
    }
    try {
      text = Module.stripTypeScriptTypes(text);
    } catch (err) {
      throw new Refused('body', err.message);
    }
  }
  if (kind[1] !== 'm') {
    try {
      compileText('body', spec.entry, '(function (exports, require, module, __filename, __dirname) {', text, '\n})');
      return;
    } catch (err) {
      if (kind[1] === 'c') throw err;
    }
  }
  const source = Buffer.from(`${text}\nimport 'functory:nothing';`).toString('base64');
  try {
    await import(`data:text/javascript;base64,${source}`);
  } catch (err) {
    if (err instanceof SyntaxError) throw new Refused('body', err.message, lineOf(spec.entry, text));
  }
}

// Node does not tell where a module is wrong. Without what only a module may have, the same text is a function that is.
function lineOf(name, text) {
  const plain = text.replace(/^[ \t]*import\b(?![ \t]*[(.])[^;\n]*/gm, '').replace(/^([ \t]*)export\s+(default\b)?/gm, (_, blank, value) => (value ? ';0,' : ''));
  try {
    compileText('body', name, '(async function () {', plain, '\n})');
  } catch (err) {
    return err.line;
  }
  return 0;
}

async function loadModule(spec) {
  await checkModule(spec);
  const found = await import(pathToFileURL(`${ownFolder}${spec.entry}`).href);
  const call = [found.default, found.handler, found.default && found.default.handler].find((it) => typeof it === 'function');
  if (!call) throw new Refused('body', 'exports no function: write export default (payload, ctx) => …, or export one named handler');
  return call;
}

function compile(spec) {
  return {
    before: spec.before ? compileText('before', 'before.js', '', spec.before, '') : null,
    beforeEach: compileHook(spec, 'beforeEach'),
    body: spec.entry ? null : compileBody(spec.body),
    afterEach: compileHook(spec, 'afterEach'),
  };
}

// A body that only defines functions under other names, exports one, or ends with one, would end every job well and do
// nothing. Only what stands outside all brackets counts; at the least doubt the text passes.
function requireHandler(text) {
  if (asExpression(text) || definesHandler(text)) return;
  refuseLastFunction(text);
  const outer = outermost(text);
  if (outer === null) return;
  const lines = outer.split('\n');
  const exported = lines.findIndex((line) => /^\s*(module\s*\.\s*)?exports\b[^=]*=[^=]/.test(line) || /^\s*export\s/.test(line));
  if (exported >= 0) throw new Refused('body', `exports a function, but nothing imports it: ${WANTED}`, exported + 1, 1);
  const statements = outer.split(/[;\n]/).map((one) => one.trim()).filter((one) => !/^"*$/.test(one));
  const named = /^(?:async\s+)?function\s*\*?\s*([\w$]+)\s*$|^(?:(?:const|let|var)\s+)?([\w$]+)\s*=\s*(?:async\s*)?(?:function\b.*|(?:[\w$]+\s*)?=>.*)$/;
  const inert = /^class\b|^(?:const|let|var)\s+[\w$,\s]+=\s*(?:require|[\w$."'-]*)$/;
  const found = statements.map((one) => named.exec(one)).filter(Boolean);
  if (found.length && statements.every((one) => named.test(one) || inert.test(one))) {
    const name = found[found.length - 1][1] ?? found[found.length - 1][2];
    const line = text.split('\n').findIndex((one) => one.includes(name)) + 1;
    if (name === 'handler') throw new Refused('body', 'assigns handler and does not declare it: write const handler = …', line, 1);
    throw new Refused('body', `defines ${name}, but nothing calls it: ${WANTED}`, line, 1);
  }
}

const STEPS = 'is a generator function, which nobody would run to its end';
const GENERATORS = ['GeneratorFunction', 'AsyncGeneratorFunction'];
const WANTED = 'define a function named handler, or send only the function: (payload, ctx) => …';

// Statements, and then a function that is neither called nor kept. What is before it and what it is have to be whole, each
// for itself; and an arrow function, other than what begins with a bracket and is called, cannot follow an operator.
function refuseLastFunction(text) {
  for (const at of placesOf(/(?<=[;}\n]|\*\/)[ \t]*(?=async\b|\(|[A-Za-z_$][\w$]*\s*=>)/g, text)) {
    const last = asExpression(text.slice(at));
    const before = `(async function () {${text.slice(0, at)}`;
    const isComment = compiles(`${before} @\n})`); // only there anything may stand
    if (last && !isComment && !compiles(`0|${last.text}`) && compiles(`${before}\n})`)) {
      const line = text.slice(0, at).split('\n').length;
      throw new Refused('body', `ends with a function that nothing calls: name it, const handler = ${last.text.trim().split('\n')[0].slice(0, 40)}…`, line, 1);
    }
  }
}

// With blanks for comments, and quotes for what is in strings.
function withoutStrings(text) {
  return text.replace(/\/\*[^]*?\*\/|\/\/[^\n]*|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|`(?:\\.|[^`\\])*`/g,
    (match) => match.replace(/[^\n]/g, match[0] === '/' ? ' ' : '"'));
}

// The text without comments, and without what is in strings and brackets; null if the brackets do not add up.
function outermost(text) {
  const plain = withoutStrings(text);
  let depth = 0, outer = '';
  for (const char of plain) {
    if ('([{'.includes(char)) depth++;
    else if (')]}'.includes(char)) { if (--depth < 0) return null; } else if (depth === 0 || char === '\n') outer += char;
  }
  return depth === 0 ? outer : null;
}

async function check(spec) {
  compile(spec);
  if (spec.entry) await checkModule(spec);
  else requireHandler(spec.body);
}

async function load(spec) {
  const compiled = compile(spec);
  if (compiled.before) {
    try {
      await compiled.before.runInThisContext();
    } catch (err) {
      throw new Refused('before', explainWithHint(err, spec.limits), 0, 0, BROKEN);
    }
  }
  const call = spec.entry ? await loadModule(spec) : compiled.body.runInThisContext();
  if (typeof call !== 'function') throw new Refused('body', 'is not a function; write (payload, ctx) => … or define handler');
  if (GENERATORS.includes(call.constructor?.name)) throw new Refused('body', STEPS);
  log.endLine();
  return {
    type: spec.type, limits: spec.limits, call, secrets: Object.fromEntries(spec.secrets.map((name) => [name, process.env[name]])), numbersAreStatuses: spec.returns === 'status',
    beforeEach: compiled.beforeEach && compiled.beforeEach.runInThisContext(),
    afterEach: compiled.afterEach && compiled.afterEach.runInThisContext(),
  };
}

// --- running ----------------------------------------------------------------------------------------------------------

async function runHook(hook, kind, number) {
  try {
    await hook();
    return true;
  } catch (err) {
    log.endLine();
    try {
      log.passOn(); // to the first job of the batch, and no other
    } catch { /* the hook has closed descriptor 1 */ }
    reply(kind, BROKEN, number, Buffer.from(explain(err)));
    return false;
  }
}

function finish(index, started, ctx, verdict) {
  const { limits } = ctx.slot;
  const durationUs = Math.trunc((performance.now() - started) * 1000);
  let { code, result } = verdict;
  let newJobs = [];
  const { log: text, dropped, lines, overlong } = log.take();
  try {
    if (overlong) throw new TooBig(`printed a new job line of more than ${limits.new_job_bytes} bytes`);
    for (const line of lines) ctx.add(line);
    if (result.length > limits.result_bytes) {
      throw new TooBig(`returned ${result.length} bytes, the limit is ${limits.result_bytes}`);
    }
    newJobs = code >= BROKEN ? [] : ctx.newJobs ?? []; // a job that ends in error runs again and makes them again
  } catch (err) {
    if (!(err instanceof TooBig)) throw err;
    [code, result] = [TOO_BIG, Buffer.from(err.message)];
  }
  const carried = code >= BROKEN || code === TOO_BIG ? null : ctx.carried;
  replyStopped(index, durationUs, { code, result, log: text, dropped, afterMs: verdict.afterMs ?? NO_DELAY, newJobs, carried });
}

// Between batches the process is stopped, so node has not heard of hosts that closed connections meanwhile, and would send
// the next request into one of those. A connection that is kept and has anything to read, if only its end, is over.
const oneByte = Buffer.alloc(1);
let agents = null; // of http and https, once a handler has loaded them

function dropClosedConnections() {
  if (!agents && !process.moduleLoadList?.includes('NativeModule http')) return;
  agents ??= [require('http').globalAgent, require('https').globalAgent];
  for (const agent of agents) {
    for (const socket of Object.values(agent.freeSockets).flat()) {
      try {
        readSync(socket._handle.fd, oneByte, 0, 1, null);
      } catch (err) {
        if (err.code === 'EAGAIN') continue;
      }
      socket.destroy();
    }
  }
}

// What stands behind ids, taken out of the list: the jobs that these follow.
function takeOrigins(names) {
  const origins = new Map();
  names.forEach((name, index) => {
    if (!name.includes(' ')) return;
    const [own, id, type, code] = name.split(' ');
    names[index] = own;
    origins.set(own, { id, type, code });
  });
  return origins;
}

async function runBatch(slot, body) {
  const number = body.readUInt32LE(0), count = body.readUInt32LE(4);
  batchNumber = number;
  const idsAt = 8 + 8 * count;
  let at = idsAt + 4 + body.readUInt32LE(idsAt);
  const ids = body.toString('latin1', idsAt + 4, at).split('\n');
  const family = count === 1 ? body.toString('utf8', at + body.readUInt32LE(8)) : ''; // a single job is told of its children
  slot.children = family ? JSON.parse(family) : [];
  slot.origins = takeOrigins(ids);
  log.makesJobs = slot.limits.printed_jobs;
  dropClosedConnections();
  if (slot.beforeEach) {
    if (!(await runHook(slot.beforeEach, FAILED, number))) return void log.take();
    log.endLine();
    reply(BEGUN, 0, number);
  }
  for (let index = 0; index < count; index++) {
    const raw = body.subarray(at, (at += body.readUInt32LE(8 + 4 * index)));
    const ctx = new Context(slot, ids[index], body.readUInt32LE(8 + 4 * (count + index)), raw);
    const started = performance.now();
    running = { index, started, ctx };
    let verdict;
    try {
      let value = slot.call(raw.toString('utf8'), ctx);
      if (value !== null && typeof value === 'object' && typeof value.then === 'function') value = await value;
      if ((value === undefined || value === null) && ctx.newJobs === null && ctx.carried === null && !log.dirty) {
        replyBare(index, Math.trunc((performance.now() - started) * 1000));
        continue;
      }
      verdict = judge(value, slot.numbersAreStatuses);
    } catch (err) {
      verdict = judgeError(err, slot.limits);
    }
    finish(index, started, ctx, verdict);
  }
  running = null;
  if (!slot.afterEach) return reply(ENDED, 0, number);
  const isDone = await runHook(slot.afterEach, ENDED, number);
  log.take(); // belongs to no job
  if (isDone) reply(ENDED, 0, number);
}

// The daemon asks before it kills. A handler that is awaiting lets us say where; one that spins is killed.
process.on('SIGTERM', () => {
  if (running) {
    finish(running.index, running.started, running.ctx, { code: TIMED_OUT, result: Buffer.from('asked to stop while awaiting') });
  }
  process.reallyExit(0);
});
// An error that escapes a handler (a timer, an event) belongs to the job that is running; the process cannot be trusted after.
process.on('uncaughtException', (err) => {
  if (running) {
    finish(running.index, running.started, running.ctx, judgeError(err, running.ctx.slot.limits));
    reply(LEAVING, 0, batchNumber);
  } else { // of a hook, or of what is being loaded: the daemon hears that the process ended, and shows why
    log.endLine();
    log.add(`${explain(err)}\n`);
    try {
      log.passOn();
    } catch { /* the hook has closed descriptor 1 */ }
  }
  process.reallyExit(70);
});

async function serve() {
  const slots = new Map();
  reply(HELLO, 0, PROTOCOL);
  for (;;) {
    const { kind, slot, body } = readRequest();
    if (kind === BATCH) {
      if (slots.has(slot)) await runBatch(slots.get(slot), body); // else its handler was refused, and it came along with that
      continue;
    }
    const spec = JSON.parse(body.toString('utf8', 4, 4 + body.readUInt32LE(0)));
    log.keep = spec.limits.log_bytes;
    log.lineMax = spec.limits.new_job_bytes;
    log.makesJobs = spec.limits.printed_jobs;
    try {
      if (kind === CHECK) await check(spec);
      else slots.set(slot, await load(spec));
      reply(LOADED, 0, slot);
    } catch (err) {
      const known = err instanceof Refused;
      const report = {
        field: known ? err.field : 'body', message: known ? err.message : explainWithHint(err, spec.limits),
        line: known ? err.line : 0, column: known ? err.column : 0,
      };
      reply(REFUSED, known ? err.code : BROKEN, slot, Buffer.from(JSON.stringify(report)));
    }
  }
}

serve();
