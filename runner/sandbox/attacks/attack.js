// The attacks, as a tenant would write them for node; run as `node attack.js NAME FOLDER` inside a context.
// The same words as in attack.py: an attack returns what it got hold of, or throws, or returns nothing.
'use strict'
const childProcess = require('node:child_process')
const dgram = require('node:dgram')
const fs = require('node:fs')
const net = require('node:net')
const path = require('node:path')

const REPLY_FD = 4
const MEBIBYTE = 1 << 20
const scratch = process.cwd()
const target = (name) => process.env['TARGET_' + name]
const number = (name) => Number(target(name))
const mark = () => [...target('MARK_REVERSED')].reverse().join('')
const found = (content) => (content.includes(mark()) ? 'read the secret' : null)
const readable = (file) => (fs.readFileSync(file).length ? 'read it' : null)

function connect (options) {
  return new Promise((resolve, reject) => {
    const socket = net.connect(options, () => resolve('connected'))
    socket.setTimeout(500, () => reject(new Error('timeout')))
    socket.on('error', reject)
  })
}

const attacks = {
  read_file: () => found(fs.readFileSync(target('SECRET_FILE'))),
  read_tenant: () => found(fs.readFileSync(target('OPEN_FILE'))),
  hard_link: () => { fs.linkSync(target('OPEN_FILE'), path.join(scratch, 'link')); return 'linked' },
  write_outside () {
    const got = ['/', '/usr', '/etc', '/dev', '/var/tmp', '/root', '/home', target('DIRECTORY')].filter((place) => {
      const file = path.join(place, `attack-${process.pid}`)
      try { fs.writeFileSync(file, ''); fs.unlinkSync(file); return true } catch { return false }
    })
    return got.length ? `wrote to ${got}` : null
  },
  set_uid_program () {
    const out = childProcess.spawnSync(path.join(process.argv[3], 'id'), ['-u']).stdout
    return process.getuid() !== 0 && String(out).trim() === '0' ? 'runs as root' : null
  },
  environment: () => found(fs.readFileSync('/proc/self/environ')),
  environment_of_init: () => readable('/proc/1/environ'),
  environment_of_daemon: () => readable(`/proc/${target('DAEMON_PID')}/environ`),
  descriptors_of_daemon: () => found(fs.readFileSync(`/proc/${target('DAEMON_PID')}/fd/${target('DAEMON_FD')}`)),
  signal_daemon: () => { process.kill(number('DAEMON_PID'), 0); return 'can be signalled' },
  signal_neighbour: () => { process.kill(number('NEIGHBOUR_PID'), 0); return 'can be signalled' },
  survivor () {
    childProcess.spawn('/bin/sh', ['-c', "trap '' TERM; while :; do sleep 60; done"],
      { detached: true, stdio: ['ignore', 'ignore', 'ignore', 'ignore', REPLY_FD] }).unref()
    return null
  },
  fork_bomb () {
    let count = 0
    for (; count < number('PROCESSES') * 3; count++) {
      if (!childProcess.spawn('/bin/sleep', ['60'], { stdio: 'ignore' }).on('error', () => {}).pid) break
    }
    return count > number('PROCESSES') ? `${count} processes` : null
  },
  descriptor_bomb () {
    const fds = []
    try { while (fds.length < number('OPEN_FILES') * 3) fds.push(fs.openSync('/dev/null')) } catch {}
    fds.forEach((fd) => fs.closeSync(fd))
    return fds.length > number('OPEN_FILES') ? `${fds.length} descriptors` : null
  },
  memory () {
    const hoard = []
    for (let n = number('MEMORY_BYTES') * 2 / MEBIBYTE; n > 0; n--) hoard.push(Buffer.alloc(MEBIBYTE, 120))
    return `${hoard.length} MiB`
  },
  big_file () {
    const fd = fs.openSync(path.join(scratch, 'big'), 'w')
    let written = 0
    while (written <= number('FILE_BYTES') * 2) written += fs.writeSync(fd, Buffer.alloc(MEBIBYTE))
    return `a file of ${written} bytes`
  },
  fill_scratch () {
    let written = 0
    for (; written < number('SCRATCH_BYTES') * 2; written += MEBIBYTE) {
      fs.writeFileSync(path.join(scratch, `fill${written}`), Buffer.alloc(MEBIBYTE))
    }
    return `${written} bytes of files`
  },
  fill_inodes () {
    const wanted = number('SCRATCH_BYTES') / 4096 * 2
    for (let n = 0; n < wanted; n++) fs.writeFileSync(path.join(scratch, `i${n}`), '')
    return `${wanted} empty files`
  },
  ignore_terminate () {
    process.on('SIGTERM', () => {})
    fs.writeSync(REPLY_FD, 'stopped: not yet\n')
    return new Promise(() => setInterval(() => {}, 60000))
  },
  tcp: () => connect({ host: '127.0.0.1', port: number('TCP_PORT') }),
  ipv6: () => connect({ host: '::1', port: number('TCP6_PORT') }),
  udp: () => new Promise((resolve, reject) => {
    const socket = dgram.createSocket('udp4')
    socket.on('error', reject)
    socket.send('?', number('TCP_PORT'), '127.0.0.1', (error) => (error ? reject(error) : resolve('sent')))
  })
}

async function main () {
  const attack = attacks[process.argv[2]]
  let verdict
  fs.writeSync(REPLY_FD, 'trying\n')
  try {
    const got = await attack.call(attacks)
    verdict = got ? `through: ${got}` : 'stopped: got nothing'
  } catch (error) {
    verdict = `stopped: ${error.message}`
  }
  fs.writeSync(REPLY_FD, verdict.slice(0, 500) + '\n')
  process.exit(0)
}

main()
