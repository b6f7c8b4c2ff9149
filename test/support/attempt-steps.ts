/** Attempts in the thread of a test: the steps around their drivers, and the spec of a lane. */
import type { AttemptSteps } from '../../src/delivery/attempt.ts'
import type { Clock } from '../../src/delivery/clock.ts'
import { Containment, newBoardMemory, WorkerBoard } from '../../src/delivery/containment.ts'
import { DriftWatch } from '../../src/delivery/drift.ts'
import { compileTransform } from '../../src/delivery/transform/compile.ts'
import { recordTexts } from '../../src/log/record-text.ts'
import type { DriftStore, LaneSpec } from '../../src/metadata/lane-state.ts'
import type { Logger } from '../../src/platform/log.ts'
import { makeSpec } from './batches.ts'

/** Filters in this thread, and so without the limits of a transform thread, which a busy machine would reach. */
const filtersHere: AttemptSteps['transforms'] = {
  async run(_lane, transform, bodies) {
    const apply = compileTransform(transform, () => {})
    return bodies.map((body) => {
      const texts = recordTexts(Buffer.from(body))
      const isKept = (text: string) => text !== '' && apply(text) !== null
      const places = [...texts.keys()].filter((place) => isKept(texts[place]!))
      const kept = Buffer.from(places.map((place) => texts[place]).join('\n'))
      return { body: kept, places, filtered: texts.length - places.length, failed: [] }
    })
  },
}

export function attemptSteps(
  store: DriftStore,
  clock: Clock,
  log: Logger,
  transforms: AttemptSteps['transforms'] = filtersHere,
): AttemptSteps {
  const guard = new Containment({
    board: new WorkerBoard(newBoardMemory()),
    openIsolated: () => {
      throw new Error('no lane is quarantined here')
    },
    quarantined: [],
    suspects: [],
    onFinished: () => {},
    onDeliveredApart: () => {},
  })
  return { transforms, guard, drift: new DriftWatch(store, clock, log) }
}

/** For attempts at destinations without drift. */
export const noDrift: DriftStore = { load: async () => null, save: async () => {} }

/** The lane of an HTTP endpoint, with the defaults. */
export function makeLaneSpec(change: Partial<LaneSpec> = {}): LaneSpec {
  const lane = {
    workspaceId: '6f3c4f0e-9c59-4d57-8a3a-000000000001',
    status: 'active',
    maxRetrySeconds: 86_400,
    name: 'shop',
    flush: { maxRecords: 1_000, maxBytes: 1_000_000, maxSeconds: 0 },
    rate: null,
    concurrency: 1,
    onPermanentError: 'block',
    pinGeneration: 0,
    revision: '1',
  } as const
  const spec = makeSpec('destination_http_endpoint', { url: 'http://127.0.0.1:9/' })
  return { ...spec, ...lane, ...change } as LaneSpec
}
