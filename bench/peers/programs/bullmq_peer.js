// BullMQ: addBulk, finished jobs removed, no result kept. `node bullmq_peer.js work` or `... bulk|single COUNT`.
// Executed jobs are counted in memory and written to a file of this process every few milliseconds.
'use strict';
const fs = require('fs');
const path = require('path');
const { createRequire } = require('module');
const { Queue, Worker } = createRequire(path.join(process.env.BENCH_NODE_MODULES, 'x.js'))('bullmq');

const CHUNK = 1000;
const CONCURRENCY = 100;
const PAYLOAD = 'x'.repeat(100);
const server = new URL(process.env.BENCH_SERVER);
const connection = { host: server.hostname, port: Number(server.port), maxRetriesPerRequest: null };
const options = { removeOnComplete: true };
const now = () => Number(process.hrtime.bigint()) / 1e9;

function work() {
  const file = fs.openSync(path.join(process.env.BENCH_COUNTS, String(process.pid)), 'w');
  const bytes = Buffer.alloc(8);
  let count = 0;
  setInterval(() => {
    bytes.writeBigUInt64LE(BigInt(count));
    fs.writeSync(file, bytes, 0, 8, 0);
  }, 5);
  new Worker('bench', async () => { count += 1; }, { connection, concurrency: CONCURRENCY, ...options });
}

async function produce(kind, count) {
  const queue = new Queue('bench', { connection, defaultJobOptions: options });
  await queue.waitUntilReady();
  const began = now();
  const { user, system } = process.cpuUsage();
  if (kind === 'bulk') {
    for (let at = 0; at < count; at += CHUNK) {
      const size = Math.min(CHUNK, count - at);
      await queue.addBulk(Array.from({ length: size }, () => ({ name: 'noop', data: PAYLOAD })));
    }
  } else {
    for (let at = 0; at < count; at += 1) await queue.add('noop', PAYLOAD);
  }
  console.log(began, now(), (user + system) / 1e6);
  await queue.close();
}

if (process.argv[2] === 'work') work();
else produce(process.argv[2], Number(process.argv[3]));
