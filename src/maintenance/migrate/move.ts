/**
 * Moves all data from a data directory into a cluster: messages first, then metadata with every seq translated. The source is
 * only read until it is marked at the end. A crash can happen between any two lines:
 *
 *   | the move ends …                           | source     | target                | run again                              |
 *   |-------------------------------------------|------------|-----------------------|----------------------------------------|
 *   | before `moving` is written                | unchanged  | empty streams or none | starts                                 |
 *   | before the transaction of all rows        | unchanged  | moving, some messages | removes the streams, starts again      |
 *   | while it removes or creates the streams   | unchanged  | moving, no messages   | starts again                           |
 *   | after the transaction of all rows, before | unchanged  | complete              | writes `moved_to`, unless the source   |
 *   |   `moved_to` is written                   |            |                       |   was served from in the meantime      |
 *   | after that                                | moved      | complete              | nothing is left to do                  |
 *
 * `moving` identifies the stream by its creation time, and is written before the first message is published. Therefore a move
 * removes only the stream that it filled itself. No client has read from it, so its numbers can be assigned again. No daemon
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
  /** The location as messages show it. */
  place: string
  store: MoveStore
  /** Without the details in metadata, which are read from there. */
  buffer: Spec
}

export interface Sides {
  source: MoveSide<SegmentsSpec>
  target: MoveSide<JetStreamSpec>
}

/** The amount of data to move. */
export interface MovePlan {
  pipes: number
  /** Pipes whose `pipe_retention_hours` is removed: a cluster has one retention for all. */
  pipesWithRetention: number
  lanes: number
  parked: number
  messages: number
  records: number
  /** The size of the records' text. */
  bytes: number
}

export interface MoveReport extends MovePlan {
  /** Messages that are lost or damaged in the source. */
  missingMessages: number
  /** True: the move was already complete, and nothing was copied. */
  wasDone: boolean
}

export interface MoveOptions {
  onProgress(doneBytes: number, totalBytes: number): void
  log: LogSettings
  now(): number
  /** Allows a move although a batch of an `exactly_once` destination is in progress and can be stored twice. */
  allowRepeats: boolean
}

/** Makes every check of `moveAll` without changing either side. Throws the same errors. */
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
  /** Null: the target is complete, and only the source is not marked yet. */
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
  // Opened for writing, because opening repairs the effects of a kill.
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

/** The settings with which the daemon opens it, except that no message is dropped by age while it is read. */
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
    `the data of ${place} was moved to ${moved.place} on ${new Date(moved.movedMs).toISOString()}`,
    'serve from there; to return to the earlier data here, restore the backup from before the move',
  )
}

/** The progress of such a lane is stored in its destination table, with the seqs of the source. */
async function requireNothingExactUnderWay({ store }: MoveSide): Promise<void> {
  const names = await store.exactlyOnceUnderWay()
  if (names.length === 0) return
  throw new DataDirError(
    'conflict',
    `destinations with exactly_once have an unfinished batch, which could be stored twice after the move: ${names.join(', ')}; nothing was changed`,
    'serve from here until it is delivered, and stop with SIGTERM; or use --allow-repeats',
  )
}

/** The interrupted move, or a new one. Null: only the mark on the source is missing. */
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
  if ((await target.store.count('workspaces')) > 0) {
    const isOurs = (await target.store.identity()).dataDirId === dataDirId
    // A source that was served from since then has data that the target lacks.
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
  const rows = { lanes: await store.count('lanes'), parked: await store.count('parked') }
  const pipesWithRetention = await store.pipesWithRetention()
  return { pipes: pipes.length, pipesWithRetention, ...rows, ...sum }
}

/** A message in a frame has a header of 96 bytes, and the frame has its own. */
const headBytes = 128

function requireRoom({ messages, bytes }: MovePlan, { buffer, place }: MoveSide): void {
  const needed = bytes + messages * headBytes
  // Above 80 % a pipe is limited to its share of the buffer.
  if (needed < buffer.maxBytes * 0.8) return
  throw new DataDirError(
    'conflict',
    `${place} can store ${buffer.maxBytes} bytes (buffer.max_bytes), and ${needed} must be moved; nothing was changed`,
    `set buffer.max_bytes to ${Math.ceil(needed / 0.8)} or more`,
  )
}

/** Returns the number of messages that the source has lost. */
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
  // A pipe that is still empty starts before all messages.
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

/** The messages that retention dropped before the lane reached them. The lane would count them at its next run. */
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

/**
 * Messages that are accepted but not yet counted in an hour stay outside the mark. `after`: the target contains
 * exactly the copied messages.
 */
function markOf(counted: Backlog | undefined, before: Backlog, after: Backlog): Backlog {
  const of = (name: keyof Backlog) => {
    const missed = counted === undefined ? 0 : Math.max(0, before[name] - Number(counted[name]))
    return Math.max(0, after[name] - missed)
  }
  return { messages: of('messages'), records: of('records'), bytes: of('bytes') }
}
