/**
 * A data directory made by the real daemon, copies of it that a test damages, and what must hold when a daemon starts
 * on one: it is up, it says what is wrong, nothing wrong is delivered, and all that was not damaged goes on.
 *
 * Pipe `first` has a lane with a backlog over a dozen small segments, and one that has delivered everything; pipe
 * `second` has one of the latter kind. Every message carries one record that can be told to be whole by itself.
 */
import { cpSync, existsSync, mkdtempSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import Database from 'better-sqlite3'
import type { Test } from 'tap'
import { listSegments, segmentFile } from '../../src/log/segments/layout.ts'
import { cliEnv, runCli } from '../support/cli.ts'
import { initDataDir, type LogLine, startDaemon, TestDaemon } from '../support/daemon.ts'
import { type HttpSink, type SinkDelivery, startHttpSink } from '../support/http-sink.ts'
import { until } from '../support/until.ts'
import { httpDestination } from './sender.ts'

const env = {
  PIPECTL_BUFFER_SEGMENT_MAX_BYTES: '65536',
  PIPECTL_BUFFER_SEGMENT_MAX_SECONDS: '3600',
}
/** Batches of one request, so that a daemon that starts with many may be seen delivering them. */
const flush = { max_records: 50, max_bytes: 1_000_000, max_seconds: 0 }

export interface Segment {
  file: string
  firstSeq: number
  /** Numbers of the records of pipe `first` in it. */
  numbers: number[]
}

export interface Base {
  sink: HttpSink
  apiKey: string
  first: string
  second: string
  /** With a backlog, delivering everything, and that of the second pipe. */
  lanes: { backlog: string; flowing: string; second: string }
  /** Records accepted by pipe `first`: numbers 0 … accepted − 1. */
  accepted: number
  /** Stopped as systemd does, and killed with messages in the WAL of the newest segment. */
  stopped: string
  killed: string
}

const fillOf = (n: number) => `${n}-`.repeat(1200 / `${n}-`.length)
const recordOf = (n: number) => ({ n, fill: fillOf(n) })

/** Once for each test file; removed with it. */
export async function makeBase(t: Test): Promise<Base> {
  const root = mkdtempSync(path.join(os.tmpdir(), 'pipectl-damaged-'))
  t.teardown(() => rmSync(root, { recursive: true, force: true }))
  const sink = await startHttpSink()
  t.teardown(() => sink.stop())
  const dataDir = path.join(root, 'making')
  const { api_key: apiKey } = await initDataDir(dataDir)
  const daemon = await startDaemon({ dataDir, env })
  t.teardown(() => daemon.close())
  daemon.apiKey = apiKey
  sink.respondWith(({ path: url }) => (url === '/backlog' ? { status: 503 } : {}))
  const first = await daemon.createPipe({ pipe_name: 'first' })
  const second = await daemon.createPipe({ pipe_name: 'second' })
  const lane = (pipeId: string, name: string) =>
    daemon.createDestination(pipeId, {
      ...httpDestination(sink.url, { url: `${sink.url}/${name}` }),
      flush,
    })
  const lanes = {
    backlog: await lane(first, 'backlog'),
    flowing: await lane(first, 'flowing'),
    second: await lane(second, 'second'),
  }
  const base = { sink, apiKey, first, second, lanes, accepted: 0, stopped: '', killed: '' }
  // The stop moves everything created so far into metadata.db itself, out of its WAL.
  await daemon.stop()
  await daemon.start()
  await until('a dozen segments are there', async () => {
    await send(daemon, base, 20)
    return listSegments(path.join(dataDir, 'buffer')).length >= 13
  })
  // A full segment gives way to an empty one after its last response: a nearly full one may be about to.
  await until('the newest is about half full', async () => {
    const { length } = segmentsOf(dataDir, first).at(-1)!.numbers
    if (length >= 10 && length < 15) return true
    await send(daemon, base, 5)
    return false
  })
  await until('the flowing lanes have delivered', async () =>
    isDelivered(await daemon.lane(first, lanes.flowing), await daemon.lane(second, lanes.second)),
  )
  // One that was still read at its roll is sealed a second later: until then it is in WAL mode, as the newest is.
  await until('all but the newest are sealed', () => {
    const sealed = listSegments(path.join(dataDir, 'buffer')).slice(0, -1)
    return sealed.every((name) => !existsSync(`${segmentFile(path.join(dataDir, 'buffer'), name)}-wal`))
  })
  base.killed = path.join(root, 'killed')
  base.stopped = path.join(root, 'stopped')
  await daemon.kill()
  cpSync(dataDir, base.killed, { recursive: true })
  await daemon.start()
  await daemon.stop()
  cpSync(dataDir, base.stopped, { recursive: true })
  return base
}

const isDelivered = (...lanes: Record<string, unknown>[]) => lanes.every((one) => one.pending_messages === 0)

/** So many messages to pipe `first` and one, numbered -1, to `second`: all acknowledged. */
async function send(daemon: TestDaemon, base: Base, messages: number): Promise<void> {
  const numbers = Array.from({ length: messages }, (_, index) => base.accepted + index)
  base.accepted += messages
  await Promise.all(numbers.map((n) => daemon.ingest(base.first, recordOf(n))))
  await daemon.ingest(base.second, recordOf(-1))
}

export function segmentsOf(dataDir: string, pipeId: string): Segment[] {
  const dir = path.join(dataDir, 'buffer')
  return listSegments(dir).map((name) => {
    const file = segmentFile(dir, name)
    const db = new Database(file, { readonly: true })
    const bodies = db
      .prepare('SELECT body FROM message JOIN pipe ON no = pipe WHERE pipe_id = ? ORDER BY seq')
      .pluck()
      .all(pipeId) as Buffer[]
    db.close()
    const numbers = bodies.flatMap((body) =>
      JSON.parse(`[${body}]`)
        .flat()
        .map((one: { n: number }) => one.n),
    )
    return { file, firstSeq: name.firstSeq, numbers }
  })
}

export interface Copy {
  dataDir: string
  buffer: string
  /** Oldest first; the last is the one being written. */
  segments: Segment[]
}

/** A copy of the base, for one test to damage. */
export function copyOf(t: Test, base: Base, from: 'stopped' | 'killed'): Copy {
  const root = mkdtempSync(path.join(os.tmpdir(), 'pipectl-damaged-copy-'))
  t.teardown(() => rmSync(root, { recursive: true, force: true }))
  const dataDir = path.join(root, 'data')
  cpSync(base[from], dataDir, { recursive: true })
  // Read from another copy: looking at a database may change the files beside it.
  const seen = path.join(root, 'seen')
  cpSync(base[from], seen, { recursive: true })
  const segments = segmentsOf(seen, base.first).map((one) => ({
    ...one,
    file: path.join(dataDir, 'buffer', path.basename(one.file)),
  }))
  rmSync(seen, { recursive: true })
  return { dataDir, buffer: path.join(dataDir, 'buffer'), segments }
}

export interface Expected {
  /** Log events of which each must be said. */
  told: readonly string[]
  /** Which records of pipe `first` may be lost to the lane with the backlog: no others. Default: none. */
  mayLose?: readonly number[]
  /** Lanes may deliver again what they had delivered. */
  mayRepeat?: boolean
  /** The end of the log is lost: nobody knows of which pipes it was, so lanes cannot count it. */
  isEndLost?: boolean
  /** How many of those that may be lost are; default: any number. */
  dropped?: number
  /** The daemon's environment: a disk with bad sectors. */
  env?: Record<string, string>
}

/** Starts a daemon on it and looks whether everything that was not damaged goes on. */
export async function goesOn(t: Test, base: Base, dataDir: string, expected: Expected): Promise<void> {
  base.sink.deliveries.length = 0
  base.sink.respondWith(() => ({}))
  const daemon = new TestDaemon({ dataDir, env: { ...env, ...expected.env } })
  daemon.apiKey = base.apiKey
  t.teardown(() => daemon.close())
  await daemon.start()
  const died = daemon.exit.then((code) => {
    throw new Error(`the daemon ended with ${code}`)
  })
  const before = base.accepted
  try {
    const { lane, numbers } = await Promise.race([deliversAll(daemon, base), died])
    judge(t, base, lane, { ...expected, accepted: before, numbers })
    for (const event of expected.told) {
      await until(`${event} is logged`, () => warnings(daemon).some((line) => line.msg === event))
    }
    if (expected.told.includes('buffer.segment_missing')) await saysMissing(t, daemon)
    const lines = [...daemon.noise, ...daemon.log.map((line) => JSON.stringify(line))]
    t.notOk(
      lines.find((line) => line.includes('[object Object]')),
      'every line says what it means',
    )
    died.catch(() => {})
    t.equal(await daemon.stop(), 0, 'and it stops as it should')
  } catch (error) {
    throw new Error(`${error instanceof Error ? error.message : error}\n${daemon.tail()}`, { cause: error })
  } finally {
    base.accepted = before
  }
}

async function saysMissing(t: Test, daemon: TestDaemon): Promise<void> {
  // Main learns of the writer's segments with the writer's next report, a moment after the log line.
  await until('GET /v1/ready warns of it', async () => {
    const { body } = await daemon.api<{ warnings?: string[] }>('GET', '/v1/ready', undefined, { key: null })
    return body.warnings?.includes('segments_missing')
  })
  const { stdout } = await runCli(['status', '-o', 'table'], { env: cliEnv(daemon, daemon.dataDir) })
  t.match(stdout, /warning +parts of the buffer are missing/, 'and so does pipectl status')
}

/** Sends some more and waits until every lane has it. Returns what they were, and the lane with the backlog. */
async function deliversAll(daemon: TestDaemon, base: Base) {
  const { sink, first, lanes } = base
  const before = base.accepted
  await daemon.api('POST', `/v1/pipes/${first}/destinations/${lanes.backlog}/retry-now`)
  await send(daemon, base, 20)
  const numbers = range(before, base.accepted)
  await until('all lanes have delivered what is new', () => {
    const arrived = (name: string) => new Set(recordsAt(sink, name).map(({ n }) => n))
    return (
      ['/backlog', '/flowing'].map(arrived).every((seen) => numbers.every((n) => seen.has(n))) &&
      arrived('/second').size > 0
    )
  })
  const lane = await until('the lane with the backlog has nothing pending', async () => {
    const found = await daemon.lane(first, lanes.backlog)
    return found.pending_messages === 0 ? found : null
  })
  return { lane, numbers }
}

interface Seen extends Expected {
  /** Before the damage. */
  accepted: number
  /** The numbers of the records sent after it. */
  numbers: number[]
}

function judge(t: Test, { sink }: Base, lane: Record<string, unknown>, seen: Seen): void {
  const [backlog, flowing] = [recordsAt(sink, '/backlog'), recordsAt(sink, '/flowing')]
  const all = [...backlog, ...flowing, ...recordsAt(sink, '/second')]
  t.same(
    all.filter(({ n, fill }) => fill !== fillOf(n)),
    [],
    'nothing is delivered that was not sent',
  )
  t.same(late(backlog), [], 'in order')
  const arrived = new Set(backlog.map(({ n }) => n))
  const lost = range(0, seen.accepted).filter((n) => !arrived.has(n))
  const may = new Set(seen.mayLose)
  t.same(
    lost.filter((n) => !may.has(n)),
    [],
    `only what was damaged is lost: ${lost.length} of ${may.size}`,
  )
  if (seen.dropped !== undefined) t.equal(lost.length, seen.dropped, 'so many are lost')
  if (seen.isEndLost !== true) t.equal(lane.dropped_messages, lost.length, 'and counted')
  if (seen.mayRepeat === true) return
  t.equal(flowing.length, seen.numbers.length, 'nothing is delivered again')
  const attempts = deliveriesTo(sink, '/backlog')
  // The batch it was stuck at may be under way when it is told to retry: that attempt is aborted, and its range cut again.
  const [first, second] = attempts.map((attempt) => recordsIn(attempt)[0]?.n)
  const isRepeated = first !== undefined && first === second
  const counted = attempts.slice(isRepeated ? 1 : 0).flatMap(recordsIn)
  t.equal(counted.length, arrived.size, 'nor to the lane with the backlog')
}

/** First arrivals after that of a later one. */
function late(records: readonly { n: number }[]): number[] {
  const seen = new Set<number>()
  let latest = -1
  return records.flatMap(({ n }) => {
    const isLate = !seen.has(n) && n < latest
    seen.add(n)
    latest = Math.max(latest, n)
    return isLate ? [n] : []
  })
}

export const warnings = (daemon: TestDaemon): LogLine[] =>
  daemon.log.filter((line) => ['warn', 'error'].includes(line.level))

/** The daemon does not start, with this exit code and words on stderr. */
export async function refusesToStart(
  t: Test,
  dataDir: string,
  code: number,
  says: readonly RegExp[],
  more: Record<string, string> = {},
): Promise<void> {
  const daemon = new TestDaemon({ dataDir, env: { ...env, ...more } })
  t.teardown(() => daemon.close())
  const error = await daemon.start().then(
    () => new Error('it started'),
    (reason: Error) => reason,
  )
  t.match(error.message, new RegExp(`ended with ${code} `))
  for (const words of says) t.match(daemon.tail(), words)
  t.notMatch(daemon.tail(), /\[object Object\]/)
}

interface Sent {
  n: number
  fill: string
}

const recordsAt = (sink: HttpSink, url: string) => deliveriesTo(sink, url).flatMap(recordsIn)

const deliveriesTo = (sink: HttpSink, url: string) => sink.deliveries.filter(({ path }) => path === url)

const recordsIn = ({ text }: SinkDelivery): Sent[] =>
  text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))

const range = (from: number, to: number) => Array.from({ length: to - from }, (_, index) => from + index)
