/** The HAProxy backend of docs/cluster.md, word for word except for addresses, in front of daemons that come and go. */
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import net from 'node:net'
import os from 'node:os'
import path from 'node:path'
import t, { type Test } from 'tap'
import { startDaemon } from '../support/daemon.ts'
import { freePort } from '../support/free-port.ts'
import { blocksOf } from '../support/guide-walker.ts'
import { until } from '../support/until.ts'

const page = readFileSync(new URL('../../docs/cluster.md', import.meta.url), 'utf8')
const backend = blocksOf(page).find(({ text }) => text.startsWith('backend pipectl'))?.text ?? ''
const addresses = ['10.0.0.11:8080', '10.0.0.12:8080', '10.0.0.13:8080']

const daemons = [await startDaemon(), await startDaemon(), await startDaemon()]
t.teardown(() => Promise.all(daemons.map((daemon) => daemon.close())))

interface LoadBalancer {
  url: string
  /** By name of the server: UP, DOWN and the reason that HAProxy gives. */
  servers(): Promise<Record<string, string>>
}

async function startHaproxy(t: Test, section: string): Promise<LoadBalancer> {
  const directory = mkdtempSync(path.join(os.tmpdir(), 'pipectl-haproxy-'))
  const port = await freePort()
  const socket = path.join(directory, 'stats')
  const config = path.join(directory, 'haproxy.cfg')
  const around = [
    ...['global', `  stats socket ${socket}`],
    ...['defaults', '  mode http', '  timeout client 65s', '  timeout connect 5s'],
    ...['frontend clients', `  bind 127.0.0.1:${port}`, '  default_backend pipectl'],
  ]
  const hosts = daemons.map((daemon) => new URL(daemon.url).host)
  const nodes = addresses.reduce((text, address, at) => text.replace(address, hosts[at]!), section)
  writeFileSync(config, `${around.join('\n')}\n${nodes}`)
  const child = spawn('haproxy', ['-db', '-f', config], {
    env: { ...process.env, PATH: `${process.env.PATH}:/usr/sbin` },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  const ended = new Promise((resolve) => child.once('close', resolve))
  t.teardown(async () => {
    child.kill('SIGTERM')
    await ended
    rmSync(directory, { recursive: true, force: true })
  })
  await untilListening(child, port)
  return { url: `http://127.0.0.1:${port}`, servers: () => statusOf(socket) }
}

async function untilListening(child: ChildProcess, port: number): Promise<void> {
  let log = ''
  child.stderr!.setEncoding('utf8').on('data', (text) => {
    log += text
  })
  await until('HAProxy accepts connections', async () => {
    if (child.exitCode !== null) throw new Error(`HAProxy ended: ${log}`)
    return await new Promise<boolean>((resolve) => {
      const connection = net.connect(port, '127.0.0.1')
      connection.once('connect', () => resolve(true)).once('error', () => resolve(false))
      connection.unref().on('connect', () => connection.destroy())
    })
  })
}

/** `show stat` of HAProxy is CSV: proxy, server, …, status, …, result of the last check. */
async function statusOf(socket: string): Promise<Record<string, string>> {
  const text = await new Promise<string>((resolve, reject) => {
    let answer = ''
    const connection = net.connect(socket, () => connection.end('show stat\n'))
    connection.setEncoding('utf8').on('data', (piece) => {
      answer += piece
    })
    connection.once('close', () => resolve(answer)).once('error', reject)
  })
  const [heading = '', ...rows] = text.replace(/^# /, '').trim().split('\n')
  const names = heading.split(',')
  const columns = rows.map((row) => row.split(','))
  const value = (row: string[], name: string) => row[names.indexOf(name)] ?? ''
  return Object.fromEntries(
    columns
      .filter((row) => value(row, 'svname').startsWith('node-'))
      .map((row) => [value(row, 'svname'), `${value(row, 'status')} ${value(row, 'check_status')}`]),
  )
}

const ready = async ({ url }: LoadBalancer) => (await fetch(`${url}/v1/ready`)).status
const every = (servers: Record<string, string>, pattern: RegExp) =>
  Object.values(servers).length === 3 && Object.values(servers).every((one) => pattern.test(one))

t.test('negative control: a check that no node passes takes all of them out', async (t) => {
  const wrong = backend.replaceAll('/v1/ready', '/v1/no-such-path')
  t.not(wrong, backend)
  const haproxy = await startHaproxy(t, wrong)
  await until('every node is out', async () => every(await haproxy.servers(), /^DOWN L7STS$/))
  t.equal(await ready(haproxy), 503)
})

t.test('every node is UP, and clients reach them; a stopped node is taken out', async (t) => {
  const haproxy = await startHaproxy(t, backend)
  await until('every node has passed its check', async () => every(await haproxy.servers(), /^UP L7OK$/))
  t.equal(await ready(haproxy), 200)
  await daemons[2]!.stop()
  await until('the stopped node is out', async () => /^DOWN/.test((await haproxy.servers())['node-3']!))
  t.match(await haproxy.servers(), { 'node-1': 'UP L7OK', 'node-2': 'UP L7OK' })
  for (let request = 0; request < 4; request++) t.equal(await ready(haproxy), 200)
})
