/** Implements `History` on the buffer of this thread. */
import { resourceLimits } from '../../contract/resource-limits.ts'
import type { BufferReader, Cursor, MessageLookup, MessageRun } from '../../log/buffer.ts'
import { records } from '../../log/record-text.ts'
import type { Commits } from './commits.ts'
import type { FoundMessage, History, TailedRecord, TailedRun, TailPosition } from './history.ts'
import { MessagePages } from './message-pages.ts'

const { shownRecords, shownRecordBytes, tailRunBytes, tailRecordBytes } = resourceLimits

export function openStoredHistory(reader: BufferReader, lookup: MessageLookup, commits: Commits): History {
  const pages = new MessagePages(reader, lookup)
  return {
    async find(msgId) {
      const message = await lookup.find(msgId)
      if (message === null) return null
      const { body, ...rest } = message
      const recordTexts = firstRecords(body)
      const isTruncated = recordTexts.length < message.recordCount
      return { ...rest, bytes: body.length, recordTexts, isTruncated } satisfies FoundMessage
    },
    list: (pipeId, query) => pages.page(pipeId, query),
    async positionAt(pipeId, afterSeq) {
      const cursor = await (afterSeq === null ? reader.head(pipeId) : reader.cursorAt(pipeId, afterSeq))
      return { cursor }
    },
    async follow(pipeId, from, maxRecords, waitMs) {
      // Subscribe before the read, so that commits in between are not missed.
      const committed = await commits.after(pipeId, waitMs)
      try {
        const run = await readRun(reader, pipeId, from, maxRecords)
        if (run.records.length > 0 || run.omitted > 0 || !(await committed.wait())) return run
        return await readRun(reader, pipeId, run.position, maxRecords)
      } finally {
        committed.cancel()
      }
    },
  }
}

/** The first 20 records, as far as they fit into the byte limit together. */
function firstRecords(body: Buffer): string[] {
  const texts: string[] = []
  let bytes = 0
  for (const record of records(body)) {
    bytes += record.length
    if (bytes > shownRecordBytes || texts.length === shownRecords) break
    texts.push(record.toString('utf8'))
  }
  return texts
}

async function readRun(
  reader: BufferReader,
  pipeId: string,
  from: TailPosition,
  maxRecords: number,
): Promise<TailedRun> {
  const limits = { maxRecords: (from.shown?.records ?? 0) + maxRecords, maxBytes: tailRunBytes }
  const run = await reader.read(pipeId, from.cursor.seq, limits)
  const taken = takeRecords(run, from, maxRecords)
  const passed = taken.position ?? afterGap(run, from)
  if (!run.more && taken.rest === 0) return { ...taken, position: passed }
  // There are more records than can be shown now. The tail skips to the newest.
  const head = await reader.head(pipeId)
  const { records: behind } = await reader.backlog(pipeId, passed.cursor, head.seq)
  const omitted = taken.omitted + taken.rest + behind
  return { records: taken.records, position: { cursor: head }, omitted }
}

interface TakenRecords {
  records: TailedRecord[]
  /** Just after the last message that was read. Null: there was none. */
  position: TailPosition | null
  /** Records that are too large to be shown. */
  omitted: number
  /** The number of records of these messages beyond the limit. */
  rest: number
}

function takeRecords({ messages }: MessageRun, from: TailPosition, maxRecords: number): TakenRecords {
  const taken: TailedRecord[] = []
  let position: TailPosition | null = null
  let bytes = 0
  let omitted = 0
  let all = 0
  for (const { msgId, seq, receivedMs, recordCount, body, mark } of messages) {
    const shown = from.shown?.seq === seq ? from.shown.records : 0
    all += Math.max(0, recordCount - shown)
    let index = -1
    for (const record of records(body)) {
      index += 1
      if (index < shown) continue
      if (taken.length + omitted >= maxRecords || bytes + record.length > tailRunBytes) break
      if (record.length > tailRecordBytes) {
        omitted += 1
        continue
      }
      bytes += record.length
      taken.push({ msgId, seq, index, receivedMs, text: record.toString('utf8') })
    }
    position = { cursor: { seq, mark } }
  }
  return { records: taken, position, omitted, rest: all - taken.length - omitted }
}

/** Skips a range that has only damaged or lost messages. */
function afterGap({ damaged, lost }: MessageRun, from: TailPosition): TailPosition {
  const gap: Cursor | undefined = lost.at(-1)?.to ?? damaged.at(-1)
  return gap === undefined ? from : { cursor: { seq: gap.seq, mark: gap.mark } }
}
