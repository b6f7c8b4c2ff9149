/**
 * Recovers the rows of a damaged segment page by page: first its own identity and its pipes, then the messages. A
 * message is recovered only when its checksum matches. The checksum covers the id of the pipe, so a pipe whose own row
 * is lost can be identified among the ids that are known from elsewhere.
 */
import { crc32 } from 'node:zlib'
import { type RowHeader, rowChecksum } from './layout.ts'
import type { PageFile } from './page-file.ts'
import { type Cell, type ColumnValue, isTextOf, readCells } from './page-reader.ts'
import type { PipePosition } from './position.ts'
import { type SegmentIdentity, type SeqRange, segmentFormat } from './segment-file.ts'

/** Everything that is found except messages. */
export interface FoundHead {
  /** Null when the segment's own row is lost. */
  identity: SegmentIdentity | null
  begunClockMs: number | null
  lastClockMs: number | null
  lastSeq: number | null
  holes: SeqRange[]
  /** The possible ids of each number: from the table and from its index. */
  pipeIds: Map<number, Set<string>>
  bases: Map<string, PipePosition>
}

export interface FoundMessage extends RowHeader {
  bodyCrc: number
  body: Buffer
}

const uuidCharacters = 36
const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/
const nullType = 0
/** The number of messages for which an unknown pipe number is compared with all known ids. */
const maxGuesses = 16

/** Null marks a pause. */
export function* findHead(file: PageFile): Generator<null, FoundHead> {
  const head: FoundHead = {
    identity: null,
    begunClockMs: null,
    lastClockMs: null,
    lastSeq: null,
    holes: [],
    pipeIds: new Map(),
    bases: new Map(),
  }
  for (const cell of readCells(file)) {
    if (cell === null) yield null
    else if (cell.kind === 'index') readIndexedPipe(cell, head)
    else if (cell.types.length === 6) readPipe(cell, head)
    else if (cell.types.length === 2) readHole(cell, head)
    else if (cell.types.length === 9) readSegment(cell, head)
  }
  return head
}

function readIndexedPipe(cell: Cell, { pipeIds }: FoundHead): void {
  if (cell.types.length !== 2 || !isTextOf(cell.types[0], uuidCharacters)) return
  const [pipeId, no] = cell.read() ?? []
  if (isUuid(pipeId) && isCount(no)) add(pipeIds, no, pipeId)
}

function readPipe(cell: Cell, { pipeIds, bases }: FoundHead): void {
  if (cell.types[0] !== nullType || !isTextOf(cell.types[1], uuidCharacters)) return
  const [, pipeId, seq, messages, records, bytes] = cell.read() ?? []
  if (!isUuid(pipeId)) return
  add(pipeIds, cell.rowid, pipeId)
  if (isCount(seq) && isCount(messages) && isCount(records) && isCount(bytes)) {
    bases.set(pipeId, { seq, messages, records, bytes })
  }
}

function readHole(cell: Cell, { holes }: FoundHead): void {
  const [, lastSeq] = cell.types[0] === nullType ? (cell.read() ?? []) : []
  if (isCount(lastSeq) && cell.rowid > 0 && cell.rowid <= lastSeq)
    holes.push({ firstSeq: cell.rowid, lastSeq })
}

function readSegment(cell: Cell, head: FoundHead): void {
  if (cell.rowid !== 1) return
  const [
    begunClockMs,
    lastClockMs,
    lastSeq,
    format,
    segmentId,
    dataDirId,
    epoch,
    firstSeq,
    previousSegmentId,
  ] = cell.read() ?? []
  if (!isCount(begunClockMs) || !isNullOr(isCount, lastClockMs) || !isNullOr(isCount, lastSeq)) return
  if (format !== segmentFormat || !isUuid(segmentId) || !isCount(epoch) || !isCount(firstSeq)) return
  if (!isNullOr(isUuid, dataDirId) || !isNullOr(isUuid, previousSegmentId)) return
  const identity = { segmentId, dataDirId, epoch, firstSeq, previousSegmentId }
  Object.assign(head, { identity, begunClockMs, lastClockMs, lastSeq })
}

function add(pipeIds: FoundHead['pipeIds'], no: number, pipeId: string): void {
  pipeIds.set(no, (pipeIds.get(no) ?? new Set()).add(pipeId))
}

/** Yields messages of the range with a matching checksum, in page order; some occur more than once. */
export function* findMessages(
  file: PageFile,
  head: FoundHead,
  range: SeqRange,
  knownPipeIds: ReadonlySet<string>,
): Generator<FoundMessage | null> {
  const pipes = new PipeGuesses(head.pipeIds, knownPipeIds)
  for (const cell of readCells(file)) {
    if (cell === null) {
      yield null
      continue
    }
    const isMessage = cell.types.length === 12 && cell.types[0] === nullType
    if (cell.kind !== 'table' || !isMessage || !isTextOf(cell.types[2], uuidCharacters)) continue
    if (cell.rowid < range.firstSeq || cell.rowid > range.lastSeq) continue
    const row = decodeMessage(cell.rowid, cell.read())
    const message = row === null ? null : recognize(row, pipes)
    if (message !== null) yield message
  }
}

interface DecodedRow {
  pipeNo: number
  crc: number
  message: FoundMessage
}

/** The pipe's id is not known yet. */
function decodeMessage(seq: number, columns: ColumnValue[] | null): DecodedRow | null {
  const [
    ,
    pipeNo,
    msgId,
    receivedMs,
    recordCount,
    crc,
    messages,
    records,
    bytes,
    idempotencyKey,
    body,
    bodyHash,
  ] = columns ?? []
  if (!isCount(pipeNo) || !isUuid(msgId) || !isTime(receivedMs) || !isCount(recordCount) || !isCount(crc))
    return null
  if (!isCount(messages) || !isCount(records) || !isCount(bytes) || !Buffer.isBuffer(body)) return null
  if (!isNullOr(isText, idempotencyKey) || !isNullOr(isText, bodyHash)) return null
  if (messages < 1 || records < recordCount || bytes < body.length) return null
  // biome-ignore format: the order of the columns, at a glance.
  const message = {
    seq, pipeId: '', msgId, receivedMs, recordCount, messages, records, bytes, idempotencyKey, bodyHash,
    body, bodyCrc: crc32(body),
  }
  return { pipeNo, crc, message }
}

function recognize({ pipeNo, crc, message }: DecodedRow, pipes: PipeGuesses): FoundMessage | null {
  for (const pipeId of pipes.candidates(pipeNo)) {
    if (rowChecksum({ ...message, pipeId }, message.bodyCrc) !== crc) continue
    pipes.confirm(pipeNo, pipeId)
    return { ...message, pipeId }
  }
  return null
}

/** Guesses which pipe a number stands for. */
class PipeGuesses {
  readonly #all: readonly string[]
  readonly #found: FoundHead['pipeIds']
  readonly #confirmed = new Map<number, string>()
  readonly #guessed = new Map<number, number>()

  constructor(pipeIds: FoundHead['pipeIds'], known: ReadonlySet<string>) {
    this.#found = pipeIds
    this.#all = [...new Set([...known, ...[...pipeIds.values()].flatMap((ids) => [...ids])])]
  }

  /** The last id that was right for this number comes first. The number itself can be the damaged part of a row. */
  *candidates(no: number): Generator<string> {
    const confirmed = this.#confirmed.get(no)
    if (confirmed !== undefined) yield confirmed
    const guesses = this.#guessed.get(no) ?? 0
    this.#guessed.set(no, guesses + 1)
    const found = this.#found.get(no) ?? []
    yield* guesses < maxGuesses ? new Set([...found, ...this.#all]) : found
  }

  confirm(no: number, pipeId: string): void {
    this.#confirmed.set(no, pipeId)
  }
}

function isNullOr<T>(is: (value: unknown) => value is T, value: unknown): value is T | null {
  return value === null || is(value)
}

function isUuid(value: unknown): value is string {
  return typeof value === 'string' && uuid.test(value)
}

function isText(value: unknown): value is string {
  return typeof value === 'string'
}

/** True for a count, an ordinal or a time of the buffer's clock. */
function isCount(value: unknown): value is number {
  return typeof value === 'number' && value >= 0 && value <= Number.MAX_SAFE_INTEGER
}

function isTime(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value)
}
