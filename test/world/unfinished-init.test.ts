/** A data directory whose init was killed: `serve` says what to do, and what init promises survives a power cut. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import os from 'node:os'
import path from 'node:path'
import t, { type Test } from 'tap'
import { binary, cleanEnv, initDataDir, startDaemon } from '../support/daemon.ts'
import { faultyDisk } from '../support/faults/library.ts'
import { readTrace } from '../support/faults/trace.ts'

function openDisk(t: Test) {
  const work = mkdtempSync(path.join(os.tmpdir(), 'pipectl-init-'))
  t.teardown(() => rmSync(work, { recursive: true, force: true }))
  const root = path.join(work, 'root')
  mkdirSync(root)
  return { root, dataDir: path.join(root, 'parent', 'data'), faults: path.join(work, 'faults') }
}

function run(args: string[], env: Record<string, string> = {}) {
  const child = spawn(process.execPath, [binary, ...args], {
    env: cleanEnv(env),
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let [stdout, stderr] = ['', '']
  child.stdout.setEncoding('utf8').on('data', (text) => {
    stdout += text
  })
  child.stderr.setEncoding('utf8').on('data', (text) => {
    stderr += text
  })
  return new Promise<{ end: unknown; stdout: string; stderr: string }>((resolve) =>
    child.once('close', (code, signal) => resolve({ end: signal ?? code, stdout, stderr })),
  )
}

t.test('init killed at each of its syncs: serve refuses, init completes', async (t) => {
  const { root, dataDir, faults } = openDisk(t)
  const disk = faultyDisk(root, faults)
  const taken = createServer().listen(0, '127.0.0.1')
  t.teardown(() => taken.close())
  await once(taken, 'listening')
  const { port } = taken.address() as AddressInfo
  let kills = 0
  for (let at = 1; ; at += 1) {
    rmSync(path.dirname(dataDir), { recursive: true, force: true })
    disk.plan({ at, kill: 'before', kinds: ['sync', 'datasync'] })
    const killed = await run(['init', '--json', '--data-dir', dataDir], disk.env)
    if (killed.end !== 'SIGKILL') break
    kills += 1
    // An address that is taken: a daemon that finds everything else in order ends with 75.
    const served = await run(['serve', '--data-dir', dataDir, '--listen', `127.0.0.1:${port}`])
    const again = await run(['init', '--json', '--data-dir', dataDir])
    // The last syncs come after the workspace: then it is there.
    if (again.end !== 0) {
      t.match(again.stderr, 'already set up', `killed at sync ${at}`)
      t.equal(served.end, 75)
      continue
    }
    t.equal(served.end, 78, `killed at sync ${at}: ${served.stderr}`)
    t.match(served.stderr, `run \`pipectl init --data-dir ${dataDir}\``)
  }
  t.ok(kills > 3, `killed at ${kills} syncs`)
})

t.test('the names of a new data directory and of its parents are synced', async (t) => {
  const { root, dataDir, faults } = openDisk(t)
  const disk = faultyDisk(root, faults, { trace: true })
  t.equal((await run(['init', '--json', '--data-dir', dataDir], disk.env)).end, 0)
  const calls = readTrace(disk.traceFile)
  for (const directory of [path.dirname(dataDir), dataDir]) {
    const made = calls.findIndex(({ kind, path: called }) => kind === 'mkdir' && called === directory)
    const synced = calls.findIndex(
      ({ kind, path: called }, index) =>
        index > made && kind === 'sync' && called === path.dirname(directory),
    )
    t.ok(made >= 0 && synced > made, `${directory}: made at ${made}, its name synced at ${synced}`)
  }
})

t.test('SIGHUP on a full disk: read again, and it goes on', async (t) => {
  const { root, dataDir, faults } = openDisk(t)
  const { api_key: apiKey } = await initDataDir(dataDir)
  const disk = faultyDisk(root, faults)
  const daemon = await startDaemon({ dataDir, env: disk.env })
  daemon.apiKey = apiKey
  t.teardown(() => daemon.close())
  disk.setFull(true)
  daemon.signal('SIGHUP')
  t.equal((await daemon.api('GET', '/v1/pipes')).status, 200)
  disk.setFull(false)
  t.equal(await daemon.stop(), 0)
  t.ok(daemon.log.some(({ msg }) => msg === 'daemon.reloaded'))
})
