/** The buffer as the fault programs use it: the one place here that knows how it is opened. */
import path from 'node:path'
import { v4, v7 } from 'uuid'
import type { SegmentsSpec } from '../../../src/log/segments/protocol.ts'
import { openSegmentFeed, openSegmentReader } from '../../../src/log/segments/reader.ts'
import { openLog } from '../../../src/platform/log.ts'
import { makeRoomToOpen, openBuffer } from '../../../src/stores/open-log.ts'
import { fileWith } from './file-with.ts'

/** Tiny: a few messages fill a segment, a few segments the quota, so that rolls and drops come at once. */
export const tiny = {
  minFreeBytes: 0,
  segmentMaxBytes: 44 * 1024,
  segmentMaxSeconds: 3600,
  undeliveredHours: 168,
  deliveredHours: 24,
  deliveredMaxBytes: 1024 * 1024 * 1024,
  maxBytes: 12 * 1024 * 1024,
}
export type StoreSettings = Partial<typeof tiny>

const quiet = { level: 'fatal', format: 'json' } as const

/** In the records to delete. */
export const person = 'person-to-be-forgotten'

/** The record that stays, of the message with this number. */
export function keptRecord(number: number): string {
  return `{"kept":${number}}`
}

/** After a deletion, before anything is started again; null when no file has a personal record. */
export function undeletedFile(root: string): string | null {
  const file = fileWith(root, person)
  return file && `${file} has a deleted record`
}

/** By pipe: its seqs up to here are delivered. */
export type Delivered = Record<string, number>

export interface StoredMessage {
  seq: number
  msgId: string
  recordCount: number
  text: string
}

export interface Store {
  append(
    pipeId: string,
    text: string,
    key?: string,
  ): Promise<{ seq: number; msgId: string; repeated: boolean }>
  /** Each pipe is delivered up to there. */
  reportDelivered(seqs: Delivered): void
  /** All messages of the pipe are older than its limit, also those that are not delivered. */
  reportExpired(pipeId: string): void
  headSeq(): Promise<number>
  /** That wait to be salvaged. */
  damagedSegments(): Promise<number>
  /** A message with the personal record and another one, whose text is returned. */
  appendPersonal(pipeId: string, number: number): Promise<{ seq: number }>
  /** Deletes the personal records of all pipes. */
  erase(pipeIds: readonly string[]): Promise<void>
  /** Every message that is kept. */
  readAll(pipeId: string): Promise<StoredMessage[]>
  close(): Promise<void>
}

/** `root`: the data directory. `onFatal`: the buffer has given up and its process must end. */
export async function openStore(
  root: string,
  settings: StoreSettings,
  onFatal: (error: Error) => void,
): Promise<Store> {
  const [dir, quarantineDir] = [path.join(root, 'buffer'), path.join(root, 'quarantine')]
  const spec: SegmentsSpec = {
    ...{ kind: 'segments', channel: `faults-${v4()}`, dir, quarantineDir },
    ...tiny,
    ...settings,
  }
  // As the daemon does.
  makeRoomToOpen(spec)
  const handle = await openBuffer(spec, { log: quiet, onFatal })
  const feed = openSegmentFeed(spec)
  const reader = openSegmentReader(spec, openLog(quiet, 'faults'))
  return {
    append(pipeId, text, key) {
      const plain = { pipeId, msgId: v7(), receivedMs: Date.now(), recordCount: 1, body: Buffer.from(text) }
      const idempotency = key === undefined ? undefined : { key, bodyHash: 'hash' }
      return handle.appender.append({ ...plain, idempotency })
    },
    appendPersonal(pipeId, number) {
      const body = Buffer.from(`{"user":"${person}","filler":"${'f'.repeat(3_000)}"}\n${keptRecord(number)}`)
      return handle.appender.append({ pipeId, msgId: v7(), receivedMs: Date.now(), recordCount: 2, body })
    },
    async erase(pipeIds) {
      await handle.erasure!.erase({ pipeIds, conditions: [{ path: ['user'], value: person }] })
    },
    reportDelivered: (seqs) =>
      feed.reportLowWatermarks(
        Object.entries(seqs).map(([pipeId, seq]) => {
          return { pipeId, workspaceId: 'workspace', seq, retentionHours: null }
        }),
      ),
    reportExpired: (pipeId) =>
      feed.reportLowWatermarks([{ pipeId, workspaceId: 'workspace', seq: 0, retentionHours: 1e-9 }]),
    headSeq: () => handle.headSeq(),
    damagedSegments: async () => (await handle.status()).damagedSegments,
    async readAll(pipeId) {
      const all: StoredMessage[] = []
      for (let cursor = 0; ; ) {
        const run = await reader.read(pipeId, cursor, { maxRecords: 1000, maxBytes: 16 * 1024 * 1024 })
        for (const { seq, msgId, recordCount, body } of run.messages)
          all.push({ seq, msgId, recordCount, text: body.toString() })
        if (!run.more) return all
        // Like a lane: what is missing after the cursor, here delivered messages that compaction removed, is passed.
        cursor = Math.max(all.at(-1)?.seq ?? cursor, run.lost.at(-1)?.to.seq ?? cursor)
      }
    },
    async close() {
      await reader.close()
      await handle.close()
      feed.close()
    },
  }
}
