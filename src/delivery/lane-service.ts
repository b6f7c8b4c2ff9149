/**
 * Implements `Delivery` over the lanes of this thread, and collects the thread's metrics. `delivery-thread.ts` receives
 * the calls.
 */
import { blockingPage } from '../contract/blocking-page.ts'
import type { LaneStatus } from '../contract/destination.ts'
import { resourceLimits } from '../contract/resource-limits.ts'
import type { TableProposal } from '../contract/table-proposal.ts'
import type { DestinationCheck, DestinationSpec, InferRequest, Sample } from '../destinations/driver.ts'
import type { BufferReader, StoredMessage } from '../log/buffer.ts'
import { recordTextsIn } from '../log/record-text.ts'
import type { LaneError } from '../metadata/lane-state.ts'
import type { Clock } from './clock.ts'
import type {
  BlockingMessage,
  BlockingPage,
  Delivery,
  DeliveryMetrics,
  PipeBacklog,
  Rereads,
  RewindResult,
  RewindTarget,
  TransformTrialRequest,
} from './delivery.ts'
import { DriverDiedError } from './isolated-driver.ts'
import type { Lane, LaneBacklog } from './lane.ts'
import type { LaneSet } from './lane-set.ts'
import { ChangesOfLanes, troublesOf } from './lane-views.ts'
import { KeptRecords, KeptSample, transformCheck, withTrial } from './transform-check.ts'
import { newestBodies, type RunTransform, TransformTrials } from './transform-trial.ts'
import { nothingShown, type TrialKeeper, talliedTrial } from './trial-tally.ts'

export interface LaneServiceDeps {
  lanes: LaneSet
  reader: BufferReader
  clock: Clock
  check(spec: DestinationSpec, signal: AbortSignal, sample: Sample | null): Promise<DestinationCheck[]>
  infer(spec: DestinationSpec, signal: AbortSignal, request: InferRequest): Promise<TableProposal>
  forget(spec: DestinationSpec, signal: AbortSignal): Promise<void>
  countUsage?(pipeId: string): Promise<void>
  /** Runs trials in threads that no lane uses. Undefined: transforms cannot be tried. */
  runTransform?: RunTransform
}

const checkDeadlineMs = 10_000
/** Changing a large table takes time. */
const inferDeadlineMs = 60_000

export function openLaneService({
  lanes,
  reader,
  clock,
  check,
  infer,
  forget,
  countUsage,
  runTransform = noTransforms,
}: LaneServiceDeps): Delivery & Rereads {
  const consumers = (destinationId: string) => lanes.lane(destinationId)?.consumers
  const trials = new TransformTrials({ reader, clock, run: runTransform })
  const tried = (request: TransformTrialRequest, keeper?: TrialKeeper) =>
    talliedTrial(trials, request, keeper)
  const views = new ChangesOfLanes(lanes)

  return {
    refresh: (pipeId) => lanes.refresh(pipeId),
    lanes: (destinationIds) => statusesOf(lanes, destinationIds),
    lanesSince: (destinationIds, since) => views.changedSince(destinationIds, since),
    backlogs: (pipeIds) => backlogsOf(lanes, pipeIds, reader),
    parkedChanged: async (destinationId) => await lanes.lane(destinationId)?.parkedChanged(),
    skip: async (destinationId) => (await lanes.lane(destinationId)?.skip()) ?? false,
    retryNow: async (destinationId) => (await lanes.lane(destinationId)?.retryNow()) ?? null,
    blockingMessage: async (destinationId, page) => blockingMessage(lanes.lane(destinationId), page),
    rewind: async (destinationId, target) => rewind(lanes.lane(destinationId), target, lanes.reader),
    async test(spec, { sample: wantsSample } = { sample: false }) {
      const { pipeId, transform } = spec
      if (!transform) {
        const sample = wantsSample ? { recent: await newestMessage(pipeId, reader) } : null
        return await checkWithin((signal) => check(spec, signal, sample), clock)
      }
      return await checkWithin(async (signal) => {
        const kept = new KeptSample()
        const trial = tried({ pipeId, sample: null, transform, show: nothingShown }, kept)
        if (wantsSample) await trial
        const [checks, seen] = await Promise.all([
          check(spec, signal, wantsSample ? kept.sample : null),
          trial,
        ])
        return [...checks, transformCheck(seen)]
      }, clock)
    },
    async infer(spec, { sample, ...request }) {
      const { pipeId, transform } = spec
      const source = sample === null ? 'pipe' : 'sample'
      const propose = (bodies: readonly Buffer[]) =>
        within(inferDeadlineMs, clock, (signal) => infer(spec, signal, { ...request, bodies, source }))
      if (!transform)
        return await propose(sample === null ? await newestBodies(pipeId, reader) : [Buffer.from(sample)])
      const kept = new KeptRecords()
      const seen = await tried({ pipeId, sample, transform, show: nothingShown }, kept)
      const proposal = await propose(kept.bodies)
      return proposal === null ? null : withTrial(proposal, seen)
    },
    tryTransform: (request) => tried(request),
    async forget(spec) {
      const deadline = new AbortController()
      const cancel = clock.wake(checkDeadlineMs, () => deadline.abort())
      await forget(spec, deadline.signal)
      cancel()
    },
    pull: async (destinationId, request) =>
      (await consumers(destinationId)?.pull(request)) ?? { kind: 'not_found' },
    pulled: async ({ destinationId, pullId }) => consumers(destinationId)?.pulled(pullId),
    abandoned: async ({ destinationId, pullId }) => consumers(destinationId)?.abandoned(pullId),
    acknowledge: async ({ destinationId, msgId }, isDone) =>
      (await consumers(destinationId)?.acknowledge(msgId.toLowerCase(), isDone)) ?? false,
    endPulls: async () => lanes.endPulls(),
    troubles: (query) => troublesOf(lanes, query),
    async reread(pipeId) {
      for (const lane of lanes.lanesOf(pipeId)) await lane.reread()
    },
    countUsage: async (pipeId) => await countUsage?.(pipeId),
    metrics: () => metricsOf(lanes),
  }
}

async function statusesOf(
  lanes: LaneSet,
  destinationIds: readonly string[],
): Promise<Record<string, LaneStatus>> {
  const statuses: Record<string, LaneStatus> = {}
  for (const destinationId of destinationIds) {
    const lane = lanes.lane(destinationId)
    if (lane !== undefined) statuses[destinationId] = await lane.view.status()
  }
  return statuses
}

async function backlogsOf(
  lanes: LaneSet,
  pipeIds: readonly string[],
  reader: BufferReader,
): Promise<Record<string, PipeBacklog>> {
  const backlogs: Record<string, PipeBacklog> = {}
  for (const pipeId of pipeIds) {
    const ofLanes = await Promise.all(lanes.lanesOf(pipeId).map((lane) => lane.view.backlog()))
    backlogs[pipeId] = await pipeBacklog(pipeId.toLowerCase(), ofLanes, reader)
  }
  return backlogs
}

async function metricsOf(lanes: LaneSet): Promise<DeliveryMetrics> {
  const inFlightBytes = lanes.budget.reservedBytes
  const attempts = lanes.observed.histograms()
  const numbers: DeliveryMetrics = { inFlightBytes, workerRestarts: 0, lanes: [], attempts }
  for (const lane of lanes.lanes()) {
    const { destinationId, pipeId, pipeName, name, type } = lane.spec
    const identity = { destinationId, pipeId, pipeName, name, type }
    const { attempts, latency, parked } = lane
    numbers.lanes.push({
      ...identity,
      lane: await lane.view.status(),
      attempts: { ...attempts },
      latency,
      isReplaying: parked.hasRanges,
      unmappedRecords: lanes.drift.unmappedRecords(destinationId),
    })
  }
  return numbers
}

async function noTransforms(): Promise<never> {
  throw new Error('there are no threads for transforms here')
}

async function blockingMessage(lane: Lane | undefined, page?: BlockingPage): Promise<BlockingMessage | null> {
  const message = await lane?.view.blockingMessage()
  return lane && message ? shownBlockingMessage(message, lane.row.lastError, page) : null
}

/** The backlog of a pipe, computed from its lanes' backlogs. */
export async function pipeBacklog(
  pipeId: string,
  ofLanes: readonly LaneBacklog[],
  reader: BufferReader,
): Promise<PipeBacklog> {
  const kept = async () => ({
    ...(await reader.backlog(pipeId, await reader.earliest(pipeId))),
    isStuck: false,
  })
  const backlogs = ofLanes.length === 0 ? [await kept()] : ofLanes
  return {
    pending_messages: Math.max(...backlogs.map(({ messages }) => messages)),
    pending_bytes: Math.max(...backlogs.map(({ bytes }) => bytes)),
    blocked_lanes: backlogs.filter(({ isStuck }) => isStuck).length,
  }
}

export function shownBlockingMessage(
  message: StoredMessage,
  error: LaneError | null,
  { from, limit }: BlockingPage = { from: 0, limit: blockingPage.default },
): BlockingMessage {
  const texts = recordTextsIn(message.body, { from, limit, maxBytes: resourceLimits.shownRecordBytes })
  const next = from + texts.length
  const isWhole = next >= message.recordCount
  return {
    msg_id: message.msgId,
    stream_seq: message.seq,
    received_ts: new Date(message.receivedMs).toISOString(),
    records_count: message.recordCount,
    failing: failingRecord(error),
    recordTexts: texts.filter((text) => text !== ''),
    truncated: !isWhole,
    next: isWhole ? null : next,
  }
}

function failingRecord(error: LaneError | null): BlockingMessage['failing'] {
  if (error === null || error.recordIndex === null) return null
  return { record_index: error.recordIndex, column: error.column, value: error.value }
}

async function rewind(
  lane: Lane | undefined,
  target: RewindTarget,
  reader: BufferReader,
): Promise<RewindResult> {
  if (lane === undefined) return { kind: 'rewound', cursorSeq: 0 }
  const { pipeId } = lane.spec
  return await lane.rewind(async () => {
    switch (target.to) {
      case 'earliest':
        return 0
      case 'seq':
        return target.seq
      case 'time':
        // The position just after the last message before that time, or `earliest`. `cursorAtTime` counts over all pipes
        // of the log, so it is mapped to this pipe.
        return (await reader.cursorAt(pipeId, await reader.cursorAtTime(pipeId, target.timeMs))).seq
    }
  })
}

/** A driver that ended its own thread is reported as a failed check, because the destination's settings caused it. */
function checkEnded(error: unknown): DestinationCheck[] {
  if (!(error instanceof DriverDiedError)) throw error
  const message = `The response of the destination could not be read and ended the check (${error.message}).`
  return [{ name: 'response', ok: false, message }]
}

async function newestMessage(pipeId: string, reader: BufferReader): Promise<StoredMessage | null> {
  const { seq } = await reader.head(pipeId)
  if (seq === 0) return null
  const run = await reader.read(pipeId, seq - 1, { maxRecords: 1, maxBytes: 1 })
  return run.messages[0] ?? null
}

/** Null when the work did not end in time, or ended its thread. */
async function within<T>(
  limitMs: number,
  clock: Clock,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T | null> {
  const deadline = new AbortController()
  const cancel = clock.wake(limitMs, () => deadline.abort())
  try {
    return await work(deadline.signal)
  } catch (error) {
    if (error instanceof DriverDiedError || deadline.signal.aborted) return null
    throw error
  } finally {
    cancel()
  }
}

/** A check that does not end in time is reported as such. */
async function checkWithin(
  check: (signal: AbortSignal) => Promise<DestinationCheck[]>,
  clock: Clock,
): Promise<DestinationCheck[]> {
  const deadline = new AbortController()
  let cancel = () => {}
  const late = new Promise<DestinationCheck[]>((resolve) => {
    cancel = clock.wake(checkDeadlineMs, () => {
      deadline.abort()
      const message = `The destination did not respond within ${checkDeadlineMs / 1000} s.`
      resolve([{ name: 'deadline', ok: false, message }])
    })
  })
  try {
    return await Promise.race([check(deadline.signal).catch(checkEnded), late])
  } finally {
    cancel()
  }
}
