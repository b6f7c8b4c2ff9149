/**
 * Log, cursors and metadata check each other: what one of them has lost is told, everything that is accepted afterwards
 * is delivered, and stores that do not belong together are not started with. Every case is a copy of one data directory
 * in which some files are missing, older or another directory's.
 */
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { chmodSync, cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, truncateSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { binary, cleanEnv, initDataDir, startDaemon, type TestDaemon } from '../support/daemon.ts'
import { startHttpSink } from '../support/http-sink.ts'
import { damageLanes, storedLane } from '../support/stored-lanes.ts'
import { until } from '../support/until.ts'
import { httpDestination } from './sender.ts'

const folder = mkdtempSync(path.join(os.tmpdir(), 'pipectl-stores-'))
t.teardown(() => rmSync(folder, { recursive: true, force: true }))
const sink = await startHttpSink()
t.teardown(() => sink.stop())
const env = { PIPECTL_BUFFER_SEGMENT_MAX_BYTES: '65536' }
const fill = 'x'.repeat(5_000)
const delivered = 40
const pending = 60

/** One lane has everything, another one has waited from the first message on; nothing was closed in good order. */
const base = await makeBase()

async function makeBase() {
  const dataDir = path.join(folder, 'base')
  const { api_key: apiKey } = await initDataDir(dataDir)
  const daemon = await startDaemon({ dataDir, env })
  daemon.apiKey = apiKey
  const pipeId = await daemon.createPipe({ pipe_name: 'events' })
  const laneId = await daemon.createDestination(pipeId, httpDestination(sink.url))
  const waitingId = await daemon.createDestination(pipeId, httpDestination(`${sink.url}/waiting`))
  await setStatus(daemon, pipeId, waitingId, 'blocked')
  await send(daemon, pipeId, 0, delivered + pending)
  await until('delivered', async () => (await daemon.lane(pipeId, laneId)).pending_messages === 0)
  // The lane's latest save is on disk before the process dies.
  await until('saved', () => savedCursor(dataDir, laneId) === delivered + pending)
  await daemon.kill()
  return { dataDir, apiKey, pipeId, laneId, waitingId }
}

function savedCursor(dataDir: string, laneId: string): number {
  return storedLane(path.join(dataDir, 'metadata.db'), laneId)?.cursorSeq ?? 0
}

async function send(daemon: TestDaemon, pipeId: string, from: number, count: number): Promise<void> {
  for (let n = from; n < from + count; n += 1) await daemon.ingest(pipeId, { n, fill })
}

async function setStatus(daemon: TestDaemon, pipeId: string, id: string, status: string): Promise<void> {
  const change = { destination_status: status }
  const { text } = await daemon.api('PATCH', `/v1/pipes/${pipeId}/destinations/${id}/status`, change)
  if (!text.includes(status)) throw new Error(text)
}

function copy(name: string): string {
  const dataDir = path.join(folder, name.replaceAll(/\W+/g, '-'))
  cpSync(base.dataDir, dataDir, { recursive: true })
  // Node.js 22 gives a copied directory the mode of any new one.
  chmodSync(dataDir, 0o700)
  return dataDir
}

const bufferFiles = (dataDir: string) => readdirSync(path.join(dataDir, 'buffer')).sort()
const segmentsIn = (dataDir: string) => bufferFiles(dataDir).filter((name) => /^\d{20}\.db$/.test(name))
const removeFrom = (dataDir: string, ...names: string[]) => {
  for (const name of names) rmSync(path.join(dataDir, 'buffer', name), { recursive: true, force: true })
}
const numbersAt = (paths: string[], from: number) =>
  sink.deliveries
    .slice(from)
    .filter((delivery) => paths.includes(delivery.path))
    .flatMap(({ text }) =>
      text
        .trim()
        .split('\n')
        .map((line) => (JSON.parse(line) as { n: number }).n),
    )
const range = (from: number, to: number) => Array.from({ length: to - from }, (_, index) => from + index)

const newestWal = (dataDir: string) => `${segmentsIn(dataDir).at(-1)}-wal`

interface Loss {
  /** Removes something from the copy. */
  lose(dataDir: string): void
  /** A line of the log that tells. */
  told: string
}

const losses: Record<string, Loss> = {
  'the end of the log': {
    lose: (dataDir) => removeFrom(dataDir, newestWal(dataDir)),
    told: 'buffer.behind_lanes',
  },
  'the end of the log and the high-water mark': {
    lose: (dataDir) => removeFrom(dataDir, newestWal(dataDir), 'high-water'),
    told: 'buffer.behind_lanes',
  },
  'the whole buffer': {
    lose: (dataDir) => removeFrom(dataDir, '.'),
    told: 'buffer.behind_lanes',
  },
  'a bit of a cursor': {
    lose(dataDir) {
      const isOf = { destinationId: base.laneId }
      damageLanes(
        path.join(dataDir, 'metadata.db'),
        ({ cursorSeq }) => ({ cursorSeq: cursorSeq + 128 }),
        isOf,
      )
    },
    told: 'lane.state_damaged',
  },
  'a segment in the middle': {
    lose: (dataDir) => removeFrom(dataDir, segmentsIn(dataDir)[3] ?? ''),
    told: 'lane.messages_lost',
  },
  'the newest sealed segment': {
    lose: (dataDir) => removeFrom(dataDir, segmentsIn(dataDir).at(-2) ?? ''),
    told: 'lane.messages_lost',
  },
}

for (const [what, { lose, told }] of Object.entries(losses)) {
  t.test(`lost: ${what}. All that is accepted afterwards is delivered, and the loss is told`, async (t) => {
    const dataDir = copy(what)
    lose(dataDir)
    const before = sink.deliveries.length
    const daemon = await startDaemon({ dataDir, env })
    t.teardown(() => daemon.close())
    daemon.apiKey = base.apiKey
    const { pipeId, laneId, waitingId } = base
    const sent = range(1_000, 1_030)
    await send(daemon, pipeId, 1_000, sent.length)
    await setStatus(daemon, pipeId, waitingId, 'active')
    for (const id of [laneId, waitingId]) {
      await until('drained', async () => (await daemon.lane(pipeId, id)).lane_state === 'idle')
    }
    for (const lanePath of ['/', '/waiting/']) {
      const got = numbersAt([lanePath], before)
      t.same(
        got.filter((n) => n >= 1_000),
        sent,
        `${lanePath}: every new one, once and in order`,
      )
    }
    t.ok(
      daemon.log.some(({ msg }) => msg === told),
      daemon.tail(),
    )
    if (told === 'lane.messages_lost') {
      const lost = (await daemon.lane(pipeId, waitingId)).dropped_messages as number
      const got = new Set(numbersAt(['/waiting/'], before).filter((n) => n < 1_000))
      t.ok(lost > 0 && lost < 30, `${lost} lost`)
      t.equal(got.size, delivered + pending - lost, 'all others are delivered')
    }
    t.equal(await daemon.stop(), 0)
  })
}

/** By name: a checksum of the content. */
function contentOf(dataDir: string): Record<string, string> {
  const names = readdirSync(dataDir, { recursive: true, encoding: 'utf8', withFileTypes: true })
  // Reading makes them: SQLite's shared memory, and a WAL with nothing in it.
  const files = names.filter((entry) => entry.isFile() && !/-shm$|daemon\.lock/.test(entry.name))
  const contents = files
    .map((entry) => path.join(entry.parentPath, entry.name))
    .flatMap((file) => {
      const content = readFileSync(file)
      if (content.length === 0 && file.endsWith('-wal')) return []
      return [[path.relative(dataDir, file), createHash('sha256').update(content).digest('hex')] as const]
    })
  return Object.fromEntries(contents)
}

/** Metadata of another data directory, with the key that opens it. */
async function otherDirectory(t: Test): Promise<string> {
  const dataDir = path.join(folder, `other-${t.name.length}`)
  await initDataDir(dataDir)
  return dataDir
}

const strangers: Record<string, (t: Test, dataDir: string) => Promise<void> | void> = {
  'metadata.db is empty': (_, dataDir) => truncateSync(path.join(dataDir, 'metadata.db')),
  'metadata.db and what belongs to it are empty': (_, dataDir) => {
    for (const suffix of ['-wal', '-shm']) rmSync(path.join(dataDir, `metadata.db${suffix}`), { force: true })
    truncateSync(path.join(dataDir, 'metadata.db'))
  },
  'metadata.db is missing': (_, dataDir) => {
    for (const suffix of ['', '-wal', '-shm'])
      rmSync(path.join(dataDir, `metadata.db${suffix}`), { force: true })
  },
  'metadata.db is of another data directory': async (t, dataDir) => {
    const other = await otherDirectory(t)
    for (const suffix of ['-wal', '-shm']) rmSync(path.join(dataDir, `metadata.db${suffix}`), { force: true })
    for (const name of ['metadata.db', 'sealing.key'])
      cpSync(path.join(other, name), path.join(dataDir, name))
  },
}

const run = promisify(execFile)

for (const [what, change] of Object.entries(strangers)) {
  t.test(`${what}, beside a buffer with messages: exit 78, nothing changed, what to do`, async (t) => {
    const dataDir = copy(what)
    await change(t, dataDir)
    const before = contentOf(dataDir)
    for (const args of [['serve', '--listen', '127.0.0.1:0'], ['serve', '--init'], ['init']]) {
      const command = [binary, ...args, '--data-dir', dataDir]
      const failed = run(process.execPath, command, { env: cleanEnv({ PIPECTL_METRICS_LISTEN: 'off' }) })
      const { code, stderr } = await failed.then(
        () => ({ code: 0, stderr: '' }),
        (error: { code: number; stderr: string }) => error,
      )
      t.equal(code, 78, `${args.join(' ')}: ${stderr}`)
      t.match(stderr, /contains messages\. Nothing was changed\. .*restore/s)
      t.same(contentOf(dataDir), before, args.join(' '))
    }
  })
}
