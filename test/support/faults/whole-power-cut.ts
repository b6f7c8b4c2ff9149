/**
 * Power cuts on a whole data directory: the real daemon runs on a disk that records, with a lane that delivers; then
 * the real daemon opens the directories that a cut could leave. It must start, deliver the messages that were
 * acknowledged before the cut and had not arrived by then, know every pipe that was created, and accept more.
 *
 * A promise is dated by the record's length, read when a response or a delivery arrives here. Later calls are later
 * in the record.
 */
import { rmSync, statSync } from 'node:fs'
import path from 'node:path'
import { request } from 'undici'
import { copyFreshDataDir, TestDaemon } from '../daemon.ts'
import { type HttpSink, startHttpSink } from '../http-sink.ts'
import { until } from '../until.ts'
import { faultyDisk, soundDisk } from './library.ts'
import { type Cut, type Image, imagesAfter, readImage, writeImage } from './power-cut.ts'
import type { Verdict } from './store-check.ts'
import { type Call, readTrace, traceEnds } from './trace.ts'

/** Small segments, and nothing kept that is delivered: rolls and drops come at once. */
const env = {
  PIPECTL_BUFFER_SEGMENT_MAX_BYTES: '65536',
  PIPECTL_BUFFER_DELIVERED_HOURS: '0',
  PIPECTL_BUFFER_DELIVERED_MAX_BYTES: '0',
  PIPECTL_BUFFER_MAX_BYTES: String(8 * 1024 * 1024),
}
/** The ballast is a part of the disk's size. */
const diskBytes = 64 * 1024 * 1024
const fill = 'x'.repeat(4_000)
const atOnce = 4

/** An observation, and the length of the record at that moment. */
interface Seen<What> {
  what: What
  at: number
}

export interface WholeRecording {
  root: string
  base: Image
  calls: Call[]
  /** The record's length after each call. */
  ends: number[]
  apiKey: string
  pipeId: string
  /** Numbers of records. */
  acknowledged: Seen<number>[]
  arrived: Seen<number>[]
  pipesMade: Seen<string>[]
  sink: HttpSink
}

/** Two runs of the daemon, both killed: the second one starts with a backlog. `sink` is used again and stays open. */
export async function recordDaemon(work: string): Promise<WholeRecording> {
  const root = path.join(work, 'root')
  const { api_key: apiKey } = await copyFreshDataDir(root)
  const sink = await startHttpSink()
  const pipeId = await withDaemon(root, apiKey, soundDisk(root, diskBytes), (daemon) => prepare(daemon, sink))
  const base = readImage(root)
  const disk = faultyDisk(root, path.join(work, 'record'), { trace: true, diskBytes })
  const length = () => statSync(disk.traceFile, { throwIfNoEntry: false })?.size ?? 0
  const seen: Pick<WholeRecording, 'acknowledged' | 'arrived' | 'pipesMade'> = {
    ...{ acknowledged: [], arrived: [], pipesMade: [] },
  }
  sink.respondWith(({ text }) => {
    const at = length()
    seen.arrived.push(...numbersIn(text).map((what) => ({ what, at })))
    return {}
  })
  for (const first of [0, 60]) {
    await withDaemon(root, apiKey, disk.env, async (daemon) => {
      for (let n = first; n < first + 60; n += atOnce) {
        const numbers = Array.from({ length: atOnce }, (_, index) => n + index)
        await Promise.all(
          numbers.map(async (what) => {
            if (!(await isAccepted(daemon, pipeId, what))) throw new Error(`${what} was rejected`)
            seen.acknowledged.push({ what, at: length() })
          }),
        )
        if (n % 20 !== 0) continue
        const what = await daemon.createPipe({ pipe_name: `made-at-${n}` })
        seen.pipesMade.push({ what, at: length() })
        await until('the lane delivers', () => seen.arrived.some((one) => one.what >= n - 20))
      }
    })
  }
  const calls = readTrace(disk.traceFile)
  return {
    root: disk.env.FAULTS_ROOT!,
    base,
    calls,
    ends: traceEnds(disk.traceFile),
    apiKey,
    pipeId,
    ...seen,
    sink,
  }
}

/** The directory is on a disk on which nothing fails. */
export async function checkWholeCuts(recording: WholeRecording, work: string, cuts: readonly Cut[]) {
  const { calls, root, base } = recording
  const outcomes: { cut: Cut; verdict: Verdict }[] = []
  for (const { cut, image } of imagesAfter(calls, root, cuts, base)) {
    const directory = path.join(work, `cut-${cut.seed}`)
    writeImage(image, directory)
    outcomes.push({ cut, verdict: await check(recording, directory, cut) })
    rmSync(directory, { recursive: true, force: true })
  }
  return outcomes
}

async function check(recording: WholeRecording, directory: string, cut: Cut): Promise<Verdict> {
  const { ends, apiKey, pipeId, acknowledged, arrived, pipesMade, sink } = recording
  const length = ends[cut.before - 1] ?? 0
  const before = <What>(all: readonly Seen<What>[]) =>
    all.filter(({ at }) => at <= length).map(({ what }) => what)
  const numbers = new Set(before(arrived))
  sink.respondWith(({ text }) => {
    for (const number of numbersIn(text)) numbers.add(number)
    return {}
  })
  try {
    return await withDaemon(directory, apiKey, soundDisk(directory, diskBytes), async (daemon) => {
      const last = 1_000_000 + cut.seed
      if (!(await isAccepted(daemon, pipeId, last))) return 'it accepts no more'
      for (const made of before(pipesMade))
        if (!(await isAccepted(daemon, made, 0))) return `pipe ${made} is gone`
      // A lane delivers in order: when the last one is there, the others are.
      await until('what is new is delivered', () => numbers.has(last))
      const missing = before(acknowledged).filter((number) => !numbers.has(number))
      return missing.length === 0 ? null : `acknowledged and not delivered: ${missing.join(', ')}`
    })
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}

async function prepare(daemon: TestDaemon, sink: HttpSink): Promise<string> {
  const pipeId = await daemon.createPipe({ pipe_name: 'events' })
  await daemon.createDestination(pipeId, {
    destination_type: 'destination_http_endpoint',
    destination_config: { url: `${sink.url}/`, body_format: 'ndjson' },
    flush: { max_records: 8, max_bytes: 1_000_000, max_seconds: 0 },
  })
  return pipeId
}

/** Killed at the end. */
async function withDaemon<Result>(
  dataDir: string,
  apiKey: string,
  disk: Record<string, string>,
  use: (daemon: TestDaemon) => Promise<Result>,
): Promise<Result> {
  const daemon = new TestDaemon({ dataDir, env: { ...env, ...disk } })
  daemon.apiKey = apiKey
  try {
    await daemon.start()
    return await use(daemon)
  } finally {
    await daemon.kill()
  }
}

async function isAccepted({ dataUrl, apiKey }: TestDaemon, pipeId: string, n: number): Promise<boolean> {
  const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' }
  const body = JSON.stringify({ n, fill })
  const { statusCode, body: answer } = await request(`${dataUrl}/v1/ingest/${pipeId}`, {
    method: 'POST',
    headers,
    body,
  })
  await answer.dump()
  return statusCode === 202
}

const numbersIn = (text: string) =>
  text
    .trim()
    .split('\n')
    .map((line) => (JSON.parse(line) as { n: number }).n)
