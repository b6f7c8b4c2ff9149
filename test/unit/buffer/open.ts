/** Opens real buffers for tests: temporary directory, settings that never get in the way, messages that say who they are. */
import './typescript-workers.ts'
import { mkdtempSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import type { Test } from 'tap'
import { v4, v7 } from 'uuid'
import type {
  Backlog,
  BufferFeed,
  BufferReader,
  LowWatermark,
  NewMessage,
  OpenBuffer,
  StoredMessage,
} from '../../../src/log/buffer.ts'
import type { SegmentsSpec } from '../../../src/log/segments/protocol.ts'
import { openSegmentFeed, openSegmentReader } from '../../../src/log/segments/reader.ts'
import { openLog } from '../../../src/platform/log.ts'
import { openBuffer } from '../../../src/stores/open-log.ts'

export const KiB = 1024
export const MiB = 1024 * KiB
export const quiet = { level: 'fatal', format: 'json' } as const

export type Overrides = Partial<Omit<SegmentsSpec, 'kind' | 'dir' | 'quarantineDir'>>

export interface OpenedBuffer {
  handle: OpenBuffer
  reader: BufferReader
  feed: BufferFeed
  close(): Promise<void>
}

export function temporaryDirectory(t: Test): string {
  const root = mkdtempSync(path.join(os.tmpdir(), 'pipectl-buffer-'))
  t.teardown(() => rmSync(root, { recursive: true, force: true }))
  return root
}

export function specAt(root: string, overrides: Overrides = {}): SegmentsSpec {
  return {
    kind: 'segments',
    channel: `buffer-${v4()}`,
    dir: path.join(root, 'buffer'),
    quarantineDir: path.join(root, 'quarantine'),
    maxBytes: 1024 * MiB,
    minFreeBytes: 0,
    segmentMaxBytes: 256 * MiB,
    segmentMaxSeconds: 3600,
    undeliveredHours: 168,
    deliveredHours: 24,
    deliveredMaxBytes: 1024 * MiB,
    ...overrides,
  }
}

/** Closed at the end of the test when the test has not done it. */
export async function openAt(t: Test, root: string, overrides: Overrides = {}): Promise<OpenedBuffer> {
  const opened = await openBufferAt(root, overrides)
  t.teardown(opened.close)
  return opened
}

/** For a program of its own. */
export async function openBufferAt(root: string, overrides: Overrides = {}): Promise<OpenedBuffer> {
  const spec = specAt(root, overrides)
  const onFatal = (error: Error) => {
    throw error
  }
  const handle = await openBuffer(spec, { log: quiet, onFatal })
  const reader = openSegmentReader(spec, openLog(quiet, 'test'))
  const feed = openSegmentFeed(spec)
  let closing: Promise<void> | null = null
  const close = () => {
    closing ??= reader
      .close()
      .then(() => handle.close())
      .then(() => feed.close())
    return closing
  }
  return { handle, reader, feed, close }
}

export function openReaderAt(root: string): BufferReader {
  return openSegmentReader(specAt(root), openLog(quiet, 'test'))
}

export const newPipeId = () => v4()

/** All pipes of a test are in one workspace unless it says otherwise. */
export const workspaceId = v4()

/** Everything up to the given seq is delivered. */
export const watermark = (
  pipeId: string,
  seq: number,
  retentionHours: number | null = null,
): LowWatermark => ({ pipeId, workspaceId, seq, retentionHours })

export const idempotent = (key: string, bodyHash = 'hash') => ({ idempotency: { key, bodyHash } })

export function message(
  pipeId: string,
  text: string | Uint8Array,
  more: Partial<NewMessage> = {},
): NewMessage {
  const body = typeof text === 'string' ? Buffer.from(text) : text
  return { pipeId, msgId: v7(), receivedMs: Date.now(), recordCount: 1, body, ...more }
}

/** Everything of a pipe after a cursor, read in small runs. */
export async function readAll(
  reader: BufferReader,
  pipeId: string,
  afterSeq = 0,
  maxRecords = 100,
): Promise<StoredMessage[]> {
  const all: StoredMessage[] = []
  for (let cursor = afterSeq; ; ) {
    const { messages, more } = await reader.read(pipeId, cursor, { maxRecords, maxBytes: 4 * MiB })
    all.push(...messages)
    cursor = messages.at(-1)?.seq ?? cursor
    if (!more) return all
  }
}

/** Everything that was ever appended to a pipe, or what of it lies up to a seq. */
export async function countOf(reader: BufferReader, pipeId: string, throughSeq?: number): Promise<Backlog> {
  // A pipe that has had nothing: its head is a cursor before everything.
  const beginning = await reader.head(newPipeId())
  return await reader.backlog(pipeId, beginning, throughSeq)
}

export const textsOf = (messages: readonly StoredMessage[]) => messages.map(({ body }) => body.toString())
