/**
 * Moves everything from one place to another: messages, then metadata with every seq that it names translated. The source is only
 * read, until it is marked at the end; what a crash leaves on the way is in `metadata/move-state.ts`.
 *
 *   1 begin     the target is empty, or this same move goes on; its epochs are settled and written down
 *   2 messages  all that the source keeps, pipe by pipe (`copy-messages.ts`)
 *   3 compare   both sides read again; what the seqs become is known now (`compare-messages.ts`)
 *   4 metadata  every row in one transaction (`translate.ts`), which ends the move on that side
 *   5 mark      the source is not served from any more
 */
import { randomUUID } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import { current, movedEpoch } from '../../contract/epochs.ts'
import { type Backlog, BufferUnavailableError, type OpenBuffer } from '../../log/buffer.ts'
import type { BufferSpec } from '../../log/buffer-spec.ts'
import type { LaneState } from '../../metadata/lane-state.ts'
import type { Moving } from '../../metadata/move-state.ts'
import { StorageUnavailableError } from '../../platform/error-code.ts'
import { type LogSettings, openLog } from '../../platform/log.ts'
import { openBuffer, openBufferReader, openMessageLookup } from '../../stores/open-log.ts'
import { keysOfPipe, openMessageSink, rehearseOpening } from '../../stores/open-move.ts'
import { DataDirError } from '../errors.ts'
import { comparePipe } from './compare-messages.ts'
import { copyPipe, type ReadableBuffer } from './copy-messages.ts'
import type { MovedPipe, MoveStore, RowRules } from './metadata-store.ts'
import { SeqMap } from './seq-map.ts'
import {
  cursorOf,
  type Gap,
  namedSeqs,
  translatedLane,
  translatedParked,
  translatedRun,
} from './translate.ts'

/** One of the two. */
export interface MoveSide {
  /** For people. */
  place: string
  store: MoveStore
  /** Without what metadata knows of it: that is read. */
  buffer: BufferSpec
}

/** The amount of data to move. */
export interface MovePlan {
  pipes: number
  lanes: number
  parked: number
  messages: number
  records: number
  /** The bytes of the records' text. */
  bytes: number
}

export interface MoveReport extends MovePlan {
  /** Messages that the source has lost or holds damaged. */
  missingMessages: number
  /** The move was done before; nothing was copied. */
  wasDone: boolean
}

export interface MoveOptions {
  /** Each byte counts twice: once copied, once compared. */
  onProgress(doneBytes: number, totalBytes: number): void
  log: LogSettings
  now(): number
  /** Whether a batch under way may be stored twice although its destination has `exactly_once`. */
  allowRepeats: boolean
}

/**
 * Makes every check that `moveAll` makes before it copies, and leaves both sides as they were. Throws the errors that `moveAll`
 * would throw.
 */
export async function planMove(
  source: MoveSide,
  target: MoveSide,
  options: Omit<MoveOptions, 'onProgress'>,
): Promise<MovePlan> {
  await requireMovable(source, options)
  const from = await openSide(await currentSpec(source), options.log)
  try {
    const plan = await countAll(source.store, from)
    requireRoom(plan, target)
    const moving = await movingOrNew(source, target, from, options.now())
    if (moving !== null) await rehearseOpening(specOf(target, moving))
    return plan
  } finally {
    await from.close()
  }
}

/** Throws DataDirError, ConfigError, StorageUnavailableError, BufferUnavailableError: run again, it goes on. */
export async function moveAll(source: MoveSide, target: MoveSide, options: MoveOptions): Promise<MoveReport> {
  await requireMovable(source, options)
  const from = await openSide(await currentSpec(source), options.log)
  try {
    const plan = await countAll(source.store, from)
    requireRoom(plan, target)
    const moving = await begin(source, target, from, options.now())
    if (moving === null)
      return await finish(source, target, options, { ...plan, missingMessages: 0, wasDone: true })
    const into = await openSide(specOf(target, moving), options.log)
    try {
      const missingMessages = await moveContents({ source, target, from, into, moving, plan }, options)
      return await finish(source, target, options, { ...plan, missingMessages, wasDone: false })
    } finally {
      await into.close()
    }
  } finally {
    await from.close()
  }
}

interface OpenSide extends ReadableBuffer {
  spec: BufferSpec
  buffer: OpenBuffer
  close(): Promise<void>
}

async function openSide(spec: BufferSpec, log: LogSettings): Promise<OpenSide> {
  const buffer = await openBuffer(spec, {
    log,
    onFatal: (error) => {
      throw error
    },
  })
  const reader = await openBufferReader(spec, openLog(log, 'migrate'))
  const lookup = await openMessageLookup(spec)
  return {
    spec,
    buffer,
    reader,
    lookup,
    async close() {
      await lookup.close()
      await reader.close()
      await buffer.close()
    },
  }
}

/** As the daemon opens it; but nothing is dropped because of its age while it is read. */
async function currentSpec({ store, buffer }: MoveSide): Promise<BufferSpec> {
  const { dataDirId, epochs } = await store.identity()
  const { epoch, first_seq: nextSeqAtLeast } = current(epochs)
  const known = { identity: { dataDirId, epoch }, nextSeqAtLeast, knownSeq: await store.knownSeq() }
  return buffer.kind === 'segments'
    ? { ...buffer, ...known, undeliveredHours: neverHours }
    : { ...buffer, ...known }
}

const neverHours = 1_000_000

function specOf({ buffer }: MoveSide, { dataDirId, epochs }: Moving): BufferSpec {
  const { epoch, first_seq: nextSeqAtLeast } = current(epochs)
  return { ...buffer, identity: { dataDirId, epoch }, nextSeqAtLeast }
}

async function requireMovable(
  source: MoveSide,
  { allowRepeats }: Pick<MoveOptions, 'allowRepeats'>,
): Promise<void> {
  await requireUnmoved(source)
  if (!allowRepeats) await requireNothingExactUnderWay(source)
}

async function requireUnmoved({ store, place }: MoveSide): Promise<void> {
  const moved = await store.movedTo()
  if (moved === null) return
  throw new DataDirError(
    'conflict',
    `what ${place} held was moved to ${moved.place} on ${new Date(moved.movedMs).toISOString()}`,
    'serve from there; to go back to what was here then, `pipectl migrate --undo`',
  )
}

/** How far such a lane has come stands in its table, in the numbers of the source. */
async function requireNothingExactUnderWay({ store }: MoveSide): Promise<void> {
  const names = await store.exactlyOnceUnderWay()
  if (names.length === 0) return
  throw new DataDirError(
    'conflict',
    `a batch is under way to destinations with exactly_once, and might be stored twice after the move: ${names.join(', ')}; nothing was changed`,
    'serve from here until it is delivered, and stop in order; or give --allow-repeats',
  )
}

/** As `movingOrNew`, and a new move is recorded in the target. */
async function begin(
  source: MoveSide,
  target: MoveSide,
  from: OpenSide,
  nowMs: number,
): Promise<Moving | null> {
  const moving = await movingOrNew(source, target, from, nowMs)
  if (moving !== null && (await target.store.moving()) === null) await target.store.beginMove(moving)
  return moving
}

/** The move that is under way, or a new one; null: the target is complete already, and only the source is not marked. */
async function movingOrNew(
  source: MoveSide,
  target: MoveSide,
  from: OpenSide,
  nowMs: number,
): Promise<Moving | null> {
  const { dataDirId, epochs } = await source.store.identity()
  const stored = await target.store.moving()
  if (stored !== null) {
    if (stored.dataDirId === dataDirId) return stored
    throw new DataDirError(
      'conflict',
      `${target.place}: another move into it is not finished`,
      'finish that one, or begin with an empty database and another cluster.name',
    )
  }
  const newest = await newestSeq(source, from)
  if ((await target.store.countWorkspaces()) > 0) {
    const isOurs = (await target.store.identity()).dataDirId === dataDirId
    // One that was served from since holds what the target does not.
    if (isOurs && (await target.store.movedFrom()) === (await source.store.stateOf(newest))) return null
    const why = isOurs
      ? 'an earlier move from here, and here more was accepted or changed since'
      : 'workspaces'
    throw new DataDirError(
      'conflict',
      `${target.place} is in use: it has ${why}; nothing was changed`,
      'move into an empty database, with another cluster.name (or into another directory)',
    )
  }
  return { dataDirId, epochs: [...epochs, movedEpoch(epochs, newest, nowMs)] }
}

async function newestSeq({ store }: MoveSide, { reader }: OpenSide): Promise<number> {
  return Math.max((await reader.heads(0))?.newestSeq ?? 0, await store.knownSeq())
}

async function countAll(store: MoveStore, { reader }: OpenSide): Promise<MovePlan> {
  const pipes = await store.pipes()
  const sum: Backlog = { messages: 0, records: 0, bytes: 0 }
  for (const { pipeId } of pipes) {
    const kept = await reader.backlog(pipeId, await reader.earliest(pipeId))
    for (const name of ['messages', 'records', 'bytes'] as const) sum[name] += kept[name]
  }
  const rows = { lanes: await store.countLanes(), parked: await store.countParked() }
  return { pipes: pipes.length, ...rows, ...sum }
}

/** In a frame a message has a head of 96 bytes, and a frame one of its own. */
const headBytes = 128

function requireRoom({ messages, bytes }: MovePlan, { buffer, place }: MoveSide): void {
  const needed = bytes + messages * headBytes
  // Beyond it a pipe has to be content with its share of a buffer.
  if (needed < buffer.maxBytes * 0.8) return
  throw new DataDirError(
    'conflict',
    `${place} may hold ${buffer.maxBytes} bytes (buffer.max_bytes), and ${needed} are to be moved; nothing was changed`,
    `set buffer.max_bytes to ${Math.ceil(needed / 0.8)} or more`,
  )
}

interface Move {
  source: MoveSide
  target: MoveSide
  from: OpenSide
  into: OpenSide
  moving: Moving
  plan: MovePlan
}

/** Returns how many messages the source does not have any more. */
async function moveContents(move: Move, { onProgress, log }: MoveOptions): Promise<number> {
  const { source, target, from, into, moving, plan } = move
  const pipes = await source.store.pipes()
  let done = 0
  const progress = (bytes: number) => {
    done += bytes
    onProgress(done, plan.bytes * 2)
  }
  await copyMessages(pipes, from, { ...into, keys: target.store.keys }, progress)
  done = plan.bytes
  const maps = new Map<string, SeqMap>()
  const lanes = new Map<string, (row: Parameters<RowRules['lane']>[0]) => ReturnType<RowRules['lane']>>()
  let missing = 0
  for (const { pipeId } of pipes) {
    const named = await source.store.lanes(pipeId)
    const map = new SeqMap(named.flatMap(namedSeqs))
    const gaps = await comparePipe(pipeId, from, into, map, progress)
    maps.set(pipeId, map)
    missing += gaps.reduce((sum, gap) => sum + gap.messages, 0)
    for (const lane of named) {
      const cursor = await into.reader.cursorAt(pipeId, cursorOf(lane, map))
      const lost = [...(await droppedBefore(lane.state, pipeId, from)), ...gaps]
      lanes.set(lane.state.destinationId, () => translatedLane(lane, cursor, map, lost))
    }
  }
  const mapOf = (pipeId: string) => maps.get(pipeId) ?? new SeqMap([])
  const marks = new Map((await source.store.usageMarks()).map((row) => [row.pipe_id, row]))
  const [before, after] = [await totalsOf(pipes, from), await totalsOf(pipes, into)]
  openLog(log, 'migrate').debug({ pipes: pipes.length, missing }, 'migrate.compared')
  const state = await source.store.stateOf(await newestSeq(source, from))
  const rules: RowRules = {
    lane: (row) => lanes.get(row.destination_id)?.(row) ?? row,
    history: (row, pipeId) => translatedRun(row, mapOf(pipeId)),
    parked: (row, pipeId) => translatedParked(row, mapOf(pipeId)),
    usageMarks: pipes.map(({ pipeId }) => ({
      pipe_id: pipeId,
      ...markOf(marks.get(pipeId), before.get(pipeId), after.get(pipeId)),
    })),
  }
  await source.store.copyTo(target.store, moving, rules, state)
  return missing
}

/** Again from what is there when the target fails for a while. */
async function copyMessages(
  pipes: readonly MovedPipe[],
  from: OpenSide,
  into: OpenSide & Pick<MoveStore, 'keys'>,
  progress: (bytes: number) => void,
): Promise<void> {
  const source = { ...from, keysOf: (pipeId: string) => keysOfPipe(from.spec, pipeId) }
  for (let attempt = 1; ; attempt += 1) {
    try {
      const sink = await openMessageSink(into.spec, into.buffer, into.keys)
      try {
        for (const pipe of pipes) await copyPipe(pipe, source, into, sink, progress)
        await sink.flush()
        return
      } finally {
        await sink.close()
      }
    } catch (error) {
      const isTransient = error instanceof BufferUnavailableError || error instanceof StorageUnavailableError
      if (!isTransient || attempt === mostAttempts) throw error
      await wait(retryMs)
    }
  }
}

const mostAttempts = 20
const retryMs = 1_000

/** The messages that retention had dropped before the lane reached them: the lane would count them when it ran next. */
async function droppedBefore(
  { cursorSeq: seq, cursorMark }: LaneState,
  pipeId: string,
  { reader }: OpenSide,
): Promise<Gap[]> {
  const earliest = await reader.earliest(pipeId)
  if (seq >= earliest.seq) return []
  const mark = cursorMark ?? (await reader.cursorAt(pipeId, 0)).mark
  const { messages } = await reader.backlog(pipeId, { seq, mark }, earliest.seq)
  return [{ throughSeq: earliest.seq, messages }]
}

/**
 * The totals of everything that was ever appended to each pipe: a pipe that is still empty begins before all
 * messages.
 */
async function totalsOf(
  pipes: readonly MovedPipe[],
  { reader }: OpenSide,
): Promise<ReadonlyMap<string, Backlog>> {
  const beginning = await reader.head(randomUUID())
  const totals = new Map<string, Backlog>()
  for (const { pipeId } of pipes) totals.set(pipeId, await reader.backlog(pipeId, beginning))
  return totals
}

/** Messages that were accepted and are in no hour yet stay outside the mark. */
function markOf(counted: Backlog | undefined, before = nothing, after = nothing): Backlog {
  const of = (name: keyof Backlog) => {
    const missed = counted === undefined ? 0 : Math.max(0, before[name] - Number(counted[name]))
    return Math.max(0, after[name] - missed)
  }
  return { messages: of('messages'), records: of('records'), bytes: of('bytes') }
}

const nothing: Backlog = { messages: 0, records: 0, bytes: 0 }

async function finish(
  source: MoveSide,
  target: MoveSide,
  { now }: MoveOptions,
  report: MoveReport,
): Promise<MoveReport> {
  await source.store.markMoved({ place: target.place, movedMs: now() })
  return report
}
