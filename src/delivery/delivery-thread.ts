/**
 * The delivery thread: opens what lanes need, then answers the main thread.
 *
 *   main ──question──▶ desk ──▶ lane set ──▶ lane ──▶ driver ──▶ destination
 *        ◀──answer───                │
 *   writer ──committed, dropped──▶ feed ──floors──▶ writer
 *
 * Whatever is thrown here and belongs to nobody's question ends the thread, and with it the process: a lane that can no
 * longer save or read must not look alive.
 */
import assert from 'node:assert'
import { parentPort, workerData } from 'node:worker_threads'
import { openBufferFeed } from '../buffer/segments/feed.ts'
import { openBufferReader } from '../buffer/segments/reader.ts'
import { driverFor } from '../destinations/drivers.ts'
import { openLog } from '../log.ts'
import { openMetadata } from '../metadata/open.ts'
import { systemClock } from './clock.ts'
import { openDesk } from './delivery-desk.ts'
import type { DeliveryAnswer, DeliveryQuestion, DeliveryThreadData } from './delivery-protocol.ts'
import { LaneSet } from './lane-set.ts'

assert(parentPort !== null)
const port = parentPort
const data = workerData as DeliveryThreadData
const log = openLog(data.log, 'delivery')

const metadata = await openMetadata({ file: data.metadataFile, sealingKey: Buffer.from(data.sealingKey) })
const reader = openBufferReader({ dir: data.bufferDir, quarantineDir: data.quarantineDir, log })
const lanes = new LaneSet({
  source: metadata.laneSource,
  store: metadata.laneStore,
  reader,
  feed: openBufferFeed(data.feedPort),
  openDriver: (spec) => driverFor(spec.type, spec.config).open(spec, data.driverSettings),
  clock: systemClock,
  random: Math.random,
  log,
  maxInFlightBytes: data.maxInFlightBytes,
  onFatal: end,
})
const desk = openDesk({
  lanes,
  reader,
  clock: systemClock,
  check: (spec, signal) => driverFor(spec.type, spec.config).check(spec, data.driverSettings, signal),
})
await lanes.open()
port.on('message', (question: DeliveryQuestion) => void answer(question))
say({ kind: 'ready' })

async function answer({ id, method, args }: DeliveryQuestion): Promise<void> {
  try {
    const value =
      method === 'close' ? await close(Number(args[0])) : await Reflect.apply(desk[method], desk, args)
    say({ kind: 'answer', id, value }, buffersOf(value))
    // Nothing keeps the thread after this.
    if (method === 'close') port.close()
  } catch (error) {
    log.error({ err: error, method }, 'delivery.question_failed')
    say({ kind: 'failure', id, message: error instanceof Error ? error.message : String(error) })
    if (isIoError(error)) end(error)
  }
}

async function close(graceMs: number): Promise<void> {
  await lanes.close(graceMs)
  await reader.close()
  await metadata.close()
  data.feedPort.close()
}

/** After a failed read or write nothing this thread believes about its files can be trusted. */
function isIoError(error: unknown): boolean {
  return error instanceof Error && 'code' in error && String(error.code).startsWith('SQLITE_IOERR')
}

/** The records of a pulled message are handed over, not copied. */
function buffersOf(value: unknown): ArrayBuffer[] {
  if (typeof value !== 'object' || value === null || !('recordsJson' in value)) return []
  const { recordsJson } = value
  return recordsJson instanceof Uint8Array && recordsJson.buffer instanceof ArrayBuffer
    ? [recordsJson.buffer]
    : []
}

function say(message: DeliveryAnswer, transfer: ArrayBuffer[] = []): void {
  port.postMessage(message, transfer)
}

function end(error: unknown): void {
  log.fatal({ err: error }, 'delivery.fatal')
  setImmediate(() => {
    throw error
  })
}
