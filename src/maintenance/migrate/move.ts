/**
 * Moves everything from a data directory into a cluster: messages, then metadata with every seq that it names translated. The source
 * is only read, until it is marked at the end. A crash can come between any two lines:
 *
 *   | the move ends …                           | source     | target                | run again                              |
 *   |-------------------------------------------|------------|-----------------------|----------------------------------------|
 *   | before `moving` is written                | as it was  | empty streams or none | begins                                 |
 *   | before the transaction of all rows        | as it was  | moving, some messages | removes the streams, begins again      |
 *   | while it removes or creates the streams   | as it was  | moving, no messages   | begins again                           |
 *   | after the transaction of all rows, before | as it was  | complete              | writes `moved_to`, unless the source   |
 *   |   `moved_to` is written                   |            |                       |   was served from since                |
 *   | after that                                | moved      | complete              | nothing is left to do                  |
 *
 * `moving` names the stream by the time of its creation, and is written before the first message is published. So no stream is
 * ever removed but the one that this move has filled. Nobody has read from that one, and its numbers are given out again. No daemon
 * starts on a target that is `moving`, nor on a source with `moved_to` (`metadata/move-state.ts`).
 */
import { randomUUID } from 'node:crypto'
import { openFrameImport, rehearseStreams } from '../../cluster/jetstream/frame-import.ts'
import { current, movedEpoch } from '../../contract/epochs.ts'
import type { Backlog, BufferReader } from '../../log/buffer.ts'
import type { JetStreamSpec } from '../../log/buffer-spec.ts'
import { seqBaseOf } from '../../log/offset.ts'
import type { SegmentsSpec } from '../../log/segments/protocol.ts'
import type { LaneState } from '../../metadata/lane-state.ts'
import type { Moving } from '../../metadata/move-state.ts'
import { type LogSettings, openLog } from '../../platform/log.ts'
import { openBuffer, openBufferReader } from '../../stores/open-log.ts'
import { DataDirError } from '../errors.ts'
import { copyPipe } from './copy-messages.ts'
import type { MovedPipe, MoveStore, RowRules } from './metadata-store.ts'
import { SeqMap } from './seq-map.ts'
import { type Gap, namedSeqs, translatedLane, translatedParked, translatedRun } from './translate.ts'

/** The data directory, or the cluster. */
export interface MoveSide<Spec = SegmentsSpec | JetStreamSpec> {
  /** For people. */
  place: string
  store: MoveStore
  /** Without what metadata knows of it: that is read. */
  buffer: Spec
}

export interface Sides {
  source: MoveSide<SegmentsSpec>
  target: MoveSide<JetStreamSpec>
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
export async function planMove(sides: Sides, options: Omit<MoveOptions, 'onProgress'>): Promise<MovePlan> {
  return await prepared(sides, options, async ({ target }, { plan, moving }) => {
    if (moving !== null) await rehearseStreams(specOf(target, moving), moving.stream ?? null)
    return plan
  })
}

/** Throws DataDirError, ConfigError, StorageUnavailableError, BufferUnavailableError. */
export async function moveAll(sides: Sides, options: MoveOptions): Promise<MoveReport> {
  return await prepared(sides, options, async ({ source, target }, preparation) => {
    const { plan, moving } = preparation
    const missingMessages =
      moving === null ? 0 : await moveContents(sides, { ...preparation, moving }, options)
    await source.store.markMoved({ place: target.place, movedMs: options.now() })
    return { ...plan, missingMessages, wasDone: moving === null }
  })
}

interface Preparation {
  plan: MovePlan
  reader: BufferReader
  /** Null: the target is complete already, and only the source is not marked. */
  moving: Moving | null
}

/** Runs `work` after the checks, with the source open. */
async function prepared<Result>(
  sides: Sides,
  { log, now, allowRepeats }: Omit<MoveOptions, 'onProgress'>,
  work: (sides: Sides, preparation: Preparation) => Promise<Result>,
): Promise<Result> {
  const { source, target } = sides
  await requireUnmoved(source)
  if (!allowRepeats) await requireNothingExactUnderWay(source)
  const spec = await currentSpec(source)
  // Opened for writing, because that repairs what a kill has left.
  const buffer = await openBuffer(spec, {
    log,
    onFatal: (error) => {
      throw error
    },
  })
  const reader = await openBufferReader(spec, openLog(log, 'migrate'))
  try {
    const plan = await countAll(source.store, reader)
    requireRoom(plan, target)
    return await work(sides, { plan, reader, moving: await movingOrNew(sides, reader, now()) })
  } finally {
    await reader.close()
    await buffer.close()
  }
}

/** As the daemon opens it; but nothing is dropped because of its age while it is read. */
async function currentSpec({ store, buffer }: MoveSide<SegmentsSpec>): Promise<SegmentsSpec> {
  const { dataDirId, epochs } = await store.identity()
  const { epoch, first_seq: nextSeqAtLeast } = current(epochs)
  const known = { identity: { dataDirId, epoch }, nextSeqAtLeast, knownSeq: await store.knownSeq() }
  return { ...buffer, ...known, undeliveredHours: neverHours }
}

const neverHours = 1_000_000

function specOf({ buffer }: MoveSide<JetStreamSpec>, { dataDirId, epochs }: Moving): JetStreamSpec {
  const { epoch, first_seq: nextSeqAtLeast } = current(epochs)
  return { ...buffer, identity: { dataDirId, epoch }, nextSeqAtLeast }
}

async function requireUnmoved({ store, place }: MoveSide): Promise<void> {
  const moved = await store.movedTo()
  if (moved === null) return
  throw new DataDirError(
    'conflict',
    `the data of ${place} were moved to ${moved.place} on ${new Date(moved.movedMs).toISOString()}`,
    'serve from there; to return to the earlier data here, restore the backup from before the move',
  )
}

/** How far such a lane has come is stored in its table, in the numbers of the source. */
async function requireNothingExactUnderWay({ store }: MoveSide): Promise<void> {
  const names = await store.exactlyOnceUnderWay()
  if (names.length === 0) return
  throw new DataDirError(
    'conflict',
    `destinations with exactly_once have an unfinished batch, which could be stored twice after the move: ${names.join(', ')}; nothing was changed`,
    'serve from here until it is delivered, and stop with SIGTERM; or use --allow-repeats',
  )
}

/** The move that is under way, or a new one; null: only the source is not marked yet. */
async function movingOrNew(
  { source, target }: Sides,
  reader: BufferReader,
  nowMs: number,
): Promise<Moving | null> {
  const { dataDirId, epochs } = await source.store.identity()
  const stored = await target.store.moving()
  if (stored !== null) {
    if (stored.dataDirId === dataDirId) return stored
    throw new DataDirError(
      'conflict',
      `${target.place}: another move into it is not finished`,
      'finish that one, or use an empty database and another cluster.name',
    )
  }
  const newest = await newestSeq(source, reader)
  if ((await target.store.countWorkspaces()) > 0) {
    const isOurs = (await target.store.identity()).dataDirId === dataDirId
    // A source that was served from since holds what the target does not.
    if (isOurs && (await target.store.movedFrom()) === (await source.store.stateOf(newest))) return null
    const why = isOurs
      ? 'an earlier move from here, and more was accepted or changed here since'
      : 'workspaces'
    throw new DataDirError(
      'conflict',
      `${target.place} is in use: it has ${why}; nothing was changed`,
      'move into an empty database, with another cluster.name',
    )
  }
  return { dataDirId, epochs: [...epochs, movedEpoch(epochs, newest, nowMs)] }
}

async function newestSeq({ store }: MoveSide, reader: BufferReader): Promise<number> {
  return Math.max((await reader.heads(0))?.newestSeq ?? 0, await store.knownSeq())
}

async function countAll(store: MoveStore, reader: BufferReader): Promise<MovePlan> {
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
    `${place} can store ${buffer.maxBytes} bytes (buffer.max_bytes), and ${needed} must be moved; nothing was changed`,
    `set buffer.max_bytes to ${Math.ceil(needed / 0.8)} or more`,
  )
}

/** Returns how many messages the source does not have any more. */
async function moveContents(
  { source, target }: Sides,
  { plan, reader, moving }: Preparation & { moving: Moving },
  { onProgress }: MoveOptions,
): Promise<number> {
  const spec = specOf(target, moving)
  const frames = await openFrameImport(spec, target.store.keys, moving.stream ?? null)
  try {
    await target.store.beginMove({ ...moving, stream: frames.stream })
    const pipes = await source.store.pipes()
    let done = 0
    const onCopied = (bytes: number) => {
      done += bytes
      onProgress(done, plan.bytes)
    }
    const into = { frames, seqBase: seqBaseOf(spec), onCopied }
    const moved = new Map<string, TranslatedPipe>()
    for (const pipe of pipes) moved.set(pipe.pipeId, await movePipe(pipe, source, reader, into))
    await frames.flush()
    const state = await source.store.stateOf(await newestSeq(source, reader))
    await source.store.copyTo(target.store, moving, await rowRules(moved, source.store), state)
    return [...moved.values()].reduce((sum, { missing }) => sum + missing, 0)
  } finally {
    await frames.close()
  }
}

interface TranslatedPipe {
  map: SeqMap
  lanes: ReadonlyMap<string, ReturnType<RowRules['lane']>>
  /** The totals of everything that was ever appended to the pipe. */
  before: Backlog
  copied: Backlog
  missing: number
}

async function movePipe(
  pipe: MovedPipe,
  source: MoveSide<SegmentsSpec>,
  reader: BufferReader,
  into: Parameters<typeof copyPipe>[2],
): Promise<TranslatedPipe> {
  const { pipeId } = pipe
  const lanes = await source.store.lanes(pipeId)
  const map = new SeqMap(lanes.flatMap(namedSeqs))
  const { counts: copied, gaps } = await copyPipe(pipe, { reader, spec: source.buffer }, into, map)
  const rows = new Map<string, ReturnType<RowRules['lane']>>()
  for (const lane of lanes) {
    const lost = [...(await droppedBefore(lane.state, pipeId, reader)), ...gaps]
    rows.set(lane.state.destinationId, translatedLane(lane, map, lost))
  }
  // A pipe that is still empty begins before all messages.
  const before = await reader.backlog(pipeId, await reader.head(randomUUID()))
  return { map, lanes: rows, before, copied, missing: gaps.reduce((sum, gap) => sum + gap.messages, 0) }
}

async function rowRules(moved: ReadonlyMap<string, TranslatedPipe>, source: MoveStore): Promise<RowRules> {
  const lanes = new Map([...moved.values()].flatMap((pipe) => [...pipe.lanes]))
  const mapOf = (pipeId: string) => moved.get(pipeId)?.map ?? new SeqMap([])
  const marks = new Map((await source.usageMarks()).map((row) => [row.pipe_id, row]))
  return {
    lane: (row) => lanes.get(row.destination_id) ?? row,
    history: (row, pipeId) => translatedRun(row, mapOf(pipeId)),
    parked: (row, pipeId) => translatedParked(row, mapOf(pipeId)),
    usageMarks: [...moved].map(([pipeId, { before, copied }]) => ({
      pipe_id: pipeId,
      ...markOf(marks.get(pipeId), before, copied),
    })),
  }
}

/** The messages that retention had dropped before the lane reached them: the lane would count them when it ran next. */
async function droppedBefore(
  { cursorSeq: seq, cursorMark }: LaneState,
  pipeId: string,
  reader: BufferReader,
): Promise<Gap[]> {
  const earliest = await reader.earliest(pipeId)
  if (seq >= earliest.seq) return []
  const mark = cursorMark ?? (await reader.cursorAt(pipeId, 0)).mark
  const { messages } = await reader.backlog(pipeId, { seq, mark }, earliest.seq)
  return [{ throughSeq: earliest.seq, messages }]
}

/** Messages that were accepted and are in no hour yet stay outside the mark. `after`: the target holds what was copied, and no more. */
function markOf(counted: Backlog | undefined, before: Backlog, after: Backlog): Backlog {
  const of = (name: keyof Backlog) => {
    const missed = counted === undefined ? 0 : Math.max(0, before[name] - Number(counted[name]))
    return Math.max(0, after[name] - missed)
  }
  return { messages: of('messages'), records: of('records'), bytes: of('bytes') }
}
