/** Opens real buffers for tests: temporary directory, settings that never get in the way, messages that say who they are. */
import './typescript-workers.ts'
import { mkdtempSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import type { Test } from 'tap'
import { v4, v7 } from 'uuid'
import type { BufferFeed, BufferReader, NewMessage, StoredMessage } from '../../src/buffer/buffer.ts'
import { openBufferFeed } from '../../src/buffer/segments/feed.ts'
import { type BufferHandle, type BufferOptions, openBuffer } from '../../src/buffer/segments/open-buffer.ts'
import { openBufferReader } from '../../src/buffer/segments/reader.ts'
import { openLog } from '../../src/log.ts'

export const KiB = 1024
export const MiB = 1024 * KiB
export const quiet = { level: 'fatal', format: 'json' } as const

export type Overrides = Partial<Omit<BufferOptions, 'dir' | 'quarantineDir'>>

export interface OpenedBuffer {
  handle: BufferHandle
  reader: BufferReader
  feed: BufferFeed
  close(): Promise<void>
}

export function temporaryDirectory(t: Test): string {
  const root = mkdtempSync(path.join(os.tmpdir(), 'pipectl-buffer-'))
  t.teardown(() => rmSync(root, { recursive: true, force: true }))
  return root
}

export function settingsAt(root: string, overrides: Overrides = {}): BufferOptions {
  return {
    dir: path.join(root, 'buffer'),
    quarantineDir: path.join(root, 'quarantine'),
    maxBytes: 1024 * MiB,
    minFreeBytes: 0,
    segmentMaxBytes: 256 * MiB,
    segmentMaxSeconds: 3600,
    undeliveredHours: 168,
    deliveredHours: 24,
    deliveredMaxBytes: 1024 * MiB,
    log: quiet,
    onFatal: (error) => {
      throw error
    },
    ...overrides,
  }
}

/** Closed at the end of the test when the test has not done it. */
export async function openAt(t: Test, root: string, overrides: Overrides = {}): Promise<OpenedBuffer> {
  const settings = settingsAt(root, overrides)
  const handle = await openBuffer(settings)
  const reader = openReaderAt(root)
  const feed = openBufferFeed(handle.feedPort)
  let closing: Promise<void> | null = null
  const close = () => {
    closing ??= reader.close().then(() => handle.close())
    return closing
  }
  t.teardown(close)
  return { handle, reader, feed, close }
}

export function openReaderAt(root: string): BufferReader {
  const { dir, quarantineDir } = settingsAt(root)
  return openBufferReader({ dir, quarantineDir, log: openLog(quiet, 'test') })
}

export const newPipeId = () => v4()

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

export const textsOf = (messages: readonly StoredMessage[]) => messages.map(({ body }) => body.toString())
