/** Implements `History` on the buffer of this thread. */
import { resourceLimits } from '../../contract/resource-limits.ts'
import type { BufferReader, Cursor, ListedMessage, MessageLookup, MessageRun } from '../../log/buffer.ts'
import { placedRecords } from '../../log/erased-body.ts'
import { hasDeleted, recordTexts } from '../../log/record-text.ts'
import { Semaphore } from '../../platform/semaphore.ts'
import type { Commits } from './commits.ts'
import type {
  FoundMessage,
  History,
  MessageRange,
  RangeBound,
  RangeQuery,
  TailedRecord,
  TailedRun,
  TailPosition,
} from './history.ts'
import { MessagePages } from './message-pages.ts'
import { NewestRecords } from './newest-records.ts'
import { checkRecords } from './schema-checks.ts'
import { proposeSchema } from './schema-proposals.ts'

const { shownRecords, shownRecordBytes, tailRunBytes, tailRecordBytes } = resourceLimits

export function openStoredHistory(reader: BufferReader, lookup: MessageLookup, commits: Commits): History {
  const steps = new Semaphore(1)
  const pages = new MessagePages(reader, lookup, steps)
  const newest = new NewestRecords(lookup, steps)
  return {
    async find(msgId) {
      const message = await lookup.find(msgId)
      if (message === null) return null
      const { body, ...rest } = message
      return { ...rest, bytes: body.length, ...firstRecords(body) } satisfies FoundMessage
    },
    range: (pipeId, query) => rangeOf(pipeId, query, reader),
    list: (pipeId, query) => pages.page(pipeId, query),
    checkSchema: (query) => checkRecords(newest, query),
    inferSchema: (query) => proposeSchema(newest, query),
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
function firstRecords(body: Buffer): Pick<FoundMessage, 'recordTexts' | 'isTruncated'> {
  const texts: string[] = []
  let bytes = 0
  for (const { record } of placedRecords(body)) {
    bytes += record.length
    if (bytes > shownRecordBytes || texts.length === shownRecords)
      return { recordTexts: texts, isTruncated: true }
    texts.push(record.toString('utf8'))
  }
  return { recordTexts: texts, isTruncated: false }
}

const nothing = { messages: 0, records: 0, bytes: 0 }
/** A pipe without messages: its head is the position before the first message of every pipe. */
const emptyPipe = '00000000-0000-0000-0000-000000000000'

async function rangeOf(
  pipeId: string,
  { from, to, throughSeq: limitSeq }: RangeQuery,
  reader: BufferReader,
): Promise<MessageRange> {
  const [fromSeq, toSeq] = [await seqBefore(pipeId, from, reader), await seqBefore(pipeId, to, reader)]
  const after = await reader.cursorAt(pipeId, fromSeq)
  const isComplete = from.at === 'start' || !(await isDroppedBefore(pipeId, fromSeq, from, reader))
  const limit = await reader.cursorAt(pipeId, Math.max(after.seq, limitSeq))
  const later = toSeq <= limit.seq ? nothing : await reader.backlog(pipeId, limit, toSeq)
  const endSeq = Math.min(limit.seq, toSeq)
  const counted = endSeq <= after.seq ? nothing : await reader.backlog(pipeId, after, endSeq)
  const head = { after, ...counted, isComplete, laterMessages: later.messages }
  if (counted.messages === 0) return { ...head, throughSeq: after.seq, first: null, last: null }
  const { seq } = await reader.cursorAt(pipeId, endSeq)
  const first = await messageAfter(pipeId, after.seq, reader)
  const last = await messageAfter(pipeId, seq - 1, reader)
  return { ...head, throughSeq: seq, first, last: last ?? first }
}

/** The greatest seq before the bound. */
async function seqBefore(pipeId: string, bound: RangeBound, reader: BufferReader): Promise<number> {
  switch (bound.at) {
    case 'start':
      return 0
    case 'end':
      return Number.MAX_SAFE_INTEGER
    case 'seq':
      return Math.max(0, bound.seq - 1)
    case 'time':
      return await reader.cursorAtTime(pipeId, bound.timeMs)
  }
}

/** The times of dropped messages are not known: any of them can have been received after a time. */
async function isDroppedBefore(
  pipeId: string,
  fromSeq: number,
  { at }: RangeBound,
  reader: BufferReader,
): Promise<boolean> {
  const earliest = await reader.earliest(pipeId)
  if (fromSeq > earliest.seq || (at === 'seq' && fromSeq === earliest.seq)) return false
  const dropped = await reader.backlog(pipeId, await reader.head(emptyPipe), earliest.seq)
  return dropped.messages > 0
}

async function messageAfter(
  pipeId: string,
  afterSeq: number,
  reader: BufferReader,
): Promise<Pick<ListedMessage, 'seq' | 'receivedMs'> | null> {
  const { messages } = await reader.read(pipeId, afterSeq, { maxRecords: 1, maxBytes: 1 })
  const [first] = messages
  return first === undefined ? null : { seq: first.seq, receivedMs: first.receivedMs }
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
    all += Math.max(0, recordCount - shown - deletedFrom(body, shown))
    for (const { index, record } of placedRecords(body, shown)) {
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

function deletedFrom(body: Buffer, from: number): number {
  return hasDeleted(body) ? recordTexts(body).filter((text, index) => index >= from && text === '').length : 0
}

/** Skips a range that has only damaged or lost messages. */
function afterGap({ damaged, lost }: MessageRun, from: TailPosition): TailPosition {
  const gap: Cursor | undefined = lost.at(-1)?.to ?? damaged.at(-1)
  return gap === undefined ? from : { cursor: { seq: gap.seq, mark: gap.mark } }
}
