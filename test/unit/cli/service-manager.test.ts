import { spawn } from 'node:child_process'
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { pino } from 'pino'
import t from 'tap'
import { openServiceManager } from '../../../src/daemon/service-manager.ts'
import { startDaemon } from '../../support/daemon.ts'
import { programFile } from '../../support/programs.ts'
import { until } from '../../support/until.ts'

/**
 * A service manager's end of the notify socket. Node cannot bind a datagram UNIX socket; Python, which every machine
 * that builds native packages has, can. It writes what it is told, message by message, into a file.
 */
const receiver = `
import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(sys.argv[1])
out = open(sys.argv[2], 'a', buffering=1)
while True:
    out.write(s.recv(4096).decode().replace('\\n', ' ') + '\\n')
`

t.test('the service manager is told ready, alive, reloading and stopping', async (t) => {
  const dir = mkdtempSync(path.join(os.tmpdir(), 'pipectl-notify-'))
  t.teardown(() => rmSync(dir, { recursive: true, force: true }))
  const socket = path.join(dir, 'notify')
  const heard = path.join(dir, 'heard')
  writeFileSync(heard, '')
  const python = spawn(programFile('python3'), ['-c', receiver, socket, heard], { stdio: 'ignore' })
  t.teardown(() => python.kill())
  await until('the socket is there', () => existsSync(socket))
  chmodSync(socket, 0o777)

  const daemon = await startDaemon({ env: { NOTIFY_SOCKET: socket, WATCHDOG_USEC: '400000' } })
  t.teardown(() => daemon.close())
  const lines = () => readFileSync(heard, 'utf8')
  await until('ready was heard', () => lines().includes('READY=1'))
  t.match(lines(), `MAINPID=${daemon.pid}`)
  await until('the watchdog was heard three times', () => lines().split('WATCHDOG=1').length > 3)
  daemon.signal('SIGHUP')
  await until('reloading was heard', () => lines().includes('RELOADING=1'))
  t.equal(await daemon.stop(), 0)
  await until('stopping was heard', () => lines().includes('STOPPING=1'))

  t.test('negative control: a daemon that hangs is not heard', async (t) => {
    const second = await startDaemon({ env: { NOTIFY_SOCKET: socket, WATCHDOG_USEC: '400000' } })
    t.teardown(() => second.close())
    await until(
      'its watchdog was heard',
      () => lines().lastIndexOf('WATCHDOG=1') > lines().lastIndexOf(`MAINPID=${second.pid}`),
    )
    second.signal('SIGSTOP')
    const before = lines().split('WATCHDOG=1').length
    const startedAt = Date.now()
    await until('a second went by', () => Date.now() - startedAt > 1000)
    t.ok(lines().split('WATCHDOG=1').length - before <= 1, 'nothing but what was under way')
    second.signal('SIGCONT')
  })
})

t.test('the watchdog is not told while a part of the daemon is silent', async (t) => {
  const lines: string[] = []
  const log = pino({}, { write: (line: string) => void lines.push(line) })
  // Nobody listens there; what is told shows in the log as well as what is not.
  const manager = openServiceManager({ PATH: '', NOTIFY_SOCKET: '/nowhere', WATCHDOG_USEC: '20000' }, log)
  t.teardown(() => manager.close())
  const heard = (event: string) => lines.filter((line) => line.includes(event)).length
  await until('it is told', () => heard('service_manager.unreachable') > 0)
  let part: string | null = 'delivery'
  manager.watch(() => part)
  await until('it is withheld', () => heard('service_manager.watchdog_withheld') > 1)
  t.match(JSON.parse(lines.at(-1)!), { part: 'delivery' })
  part = null
  const before = heard('service_manager.unreachable')
  await until('it is told again', () => heard('service_manager.unreachable') > before + 1)
})
