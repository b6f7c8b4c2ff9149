/**
 * Delivery as seen from main of each cluster node: every call goes to the node that delivers the pipe.
 *
 *   this node's own       refresh, test, infer, tryTransform, forget, metrics, usage, silence, close, the end of pulls
 *   the lane's owner      skip, retryNow, rewind, acknowledge, parkedChanged, pull; pulled and abandoned go to the node that gave the message
 *   the owner, or stored  blockingMessage
 *   by owner, together    lanes, lanesSince, backlogs; without a response in time, the stored lanes are used (`stale`)
 *   all nodes             troubles; null unless all of them have responded
 *
 * When an owner is gone or has just released the pipe, the new owner is searched for two seconds; then
 * DeliveryElsewhereError says that no node delivers the pipe at the moment. Pulls are in `remote-pulls.ts`.
 * A command without a response is never repeated, because its outcome is unknown.
 */
import { setTimeout as pause } from 'node:timers/promises'
import type { LaneStatus } from '../contract/destination.ts'
import type {
  BlockingMessage,
  BlockingPage,
  ChangedLanes,
  Delivery,
  LaneTrouble,
  LaneViews,
  LeasedMessage,
  PipeBacklog,
  RewindResult,
  RewindTarget,
  SkipResult,
  TroubleQuery,
} from '../delivery/delivery.ts'
import type { DeliveryHandle } from '../delivery/delivery-proxy.ts'
import { DeliveryElsewhereError, LaneElsewhereError } from '../platform/error-code.ts'
import type { Logger } from '../platform/log.ts'
import { slices } from '../platform/slices.ts'
import { LateNodes } from './late-nodes.ts'
import { NodeRequestError, type NodeRequests, type RequestOptions } from './node-requests.ts'
import { PipeRoutes, type PipeRoutesOptions } from './pipe-routes.ts'
import {
  asDeliveryError,
  idsAtOnce,
  isElsewhere,
  lookAgainMs,
  RemotePulls,
  readSilenceMs,
} from './remote-pulls.ts'
import { type SeenAtNode, SeenLanesKept } from './seen-lanes.ts'

export interface ClusterDeliveryOptions extends PipeRoutesOptions {
  local: DeliveryHandle
  requests: NodeRequests
  /** Lanes as they were last saved. */
  stored: Pick<LaneViews, 'lanes' | 'backlogs' | 'blockingMessage'>
  log: Logger
}

/** How long a call searches for an owner. */
const ownerWithinMs = 2_000
const notifyEveryMs = 1_000

export function clusterDelivery(options: ClusterDeliveryOptions): DeliveryHandle {
  return new ClusterDelivery(options)
}

class ClusterDelivery implements DeliveryHandle {
  readonly #options: ClusterDeliveryOptions
  readonly #local: DeliveryHandle
  readonly #requests: NodeRequests
  readonly #routes: PipeRoutes
  readonly #seen = new SeenLanesKept()
  readonly #late = new LateNodes()
  readonly #pulls: RemotePulls
  /** Destinations whose parked records changed while no owner could be notified. */
  readonly #unnotified = new Set<string>()
  readonly #telling: NodeJS.Timeout

  constructor(options: ClusterDeliveryOptions) {
    this.#options = options
    this.#local = options.local
    this.#requests = options.requests
    this.#routes = new PipeRoutes(options)
    this.#pulls = new RemotePulls(options, this.#routes)
    this.#telling = setInterval(() => {
      void this.#notifyMissed()
      this.#probeLate().catch((err) => this.#options.log.debug({ err }, 'cluster.probe_failed'))
    }, notifyEveryMs)
    this.#telling.unref()
  }

  refresh: Delivery['refresh'] = (pipeId) => this.#local.refresh(pipeId)
  test: Delivery['test'] = (spec, options) => this.#local.test(spec, options)
  infer: Delivery['infer'] = (spec, request) => this.#local.infer(spec, request)
  tryTransform: Delivery['tryTransform'] = (request) => this.#local.tryTransform(request)
  forget: Delivery['forget'] = (spec) => this.#local.forget(spec)
  metrics: DeliveryHandle['metrics'] = () => this.#local.metrics()
  countUsage: DeliveryHandle['countUsage'] = (pipeId) => this.#local.countUsage(pipeId)
  silentMs: DeliveryHandle['silentMs'] = () => this.#local.silentMs()
  pull: Delivery['pull'] = (destinationId, request) => this.#pulls.pull(destinationId, request)
  pulled: Delivery['pulled'] = (ref) => this.#pulls.settle('pulled', ref)
  abandoned: Delivery['abandoned'] = (ref) => this.#pulls.settle('abandoned', ref)

  get workerRestarts(): number {
    return this.#local.workerRestarts
  }

  async close(graceMs?: number): Promise<void> {
    this.#pulls.close()
    clearInterval(this.#telling)
    await this.#local.close(graceMs)
  }

  async endPulls(): Promise<void> {
    this.#pulls.end()
    await this.#local.endPulls()
  }

  skip(destinationId: string): Promise<SkipResult> {
    return this.#command<SkipResult>('skip', destinationId, [], false)
  }

  retryNow(destinationId: string): Promise<string | null> {
    return this.#command('retryNow', destinationId, [], null)
  }

  rewind(destinationId: string, target: RewindTarget): Promise<RewindResult> {
    return this.#command<RewindResult>('rewind', destinationId, [target], { kind: 'rewound', cursorSeq: 0 })
  }

  acknowledge({ destinationId, msgId }: LeasedMessage, isDone: boolean): Promise<boolean> {
    return this.#command('acknowledge', destinationId, [msgId, isDone], false)
  }

  /** Notifies only the current owner, because a new owner reads the records by itself. */
  async parkedChanged(destinationId: string): Promise<void> {
    try {
      await this.#command('parkedChanged', destinationId, [], undefined)
    } catch (error) {
      if (!(error instanceof DeliveryElsewhereError)) throw error
      this.#unnotified.add(destinationId)
    }
  }

  async blockingMessage(destinationId: string, page?: BlockingPage): Promise<BlockingMessage | null> {
    try {
      const run = (node: string) =>
        this.#at<BlockingMessage | null>(node, 'blockingMessage', [destinationId, page], {
          silenceMs: readSilenceMs,
        })
      return await this.#onOwner(destinationId, null, run)
    } catch (error) {
      if (!isElsewhere(error)) throw error
      return await this.#options.stored.blockingMessage(destinationId, page)
    }
  }

  async lanes(destinationIds: readonly string[]): Promise<Record<string, LaneStatus>> {
    const groups = await this.#routes.byNode(destinationIds)
    const found = await this.#ofEach<LaneStatus>('lanes', groups)
    const missing = destinationIds.filter((id) => found[id] === undefined)
    return missing.length === 0 ? found : { ...found, ...(await this.#options.stored.lanes(missing)) }
  }

  async backlogs(pipeIds: readonly string[]): Promise<Record<string, PipeBacklog>> {
    const found = await this.#ofEach<PipeBacklog>('backlogs', await this.#routes.pipesByNode(pipeIds))
    const missing = pipeIds.filter((id) => found[id] === undefined)
    return missing.length === 0 ? found : { ...found, ...(await this.#options.stored.backlogs(missing)) }
  }

  async lanesSince(destinationIds: readonly string[], since: string | null): Promise<ChangedLanes> {
    const before = this.#seen.find(since)
    const groups = await this.#routes.byNode(destinationIds)
    const seen = new Map<string, SeenAtNode>()
    const lanes: Record<string, LaneStatus> = {}
    const told = new Set<string>()
    const look = async ([node, ids]: [string, string[]]) => {
      const changed = await this.#read(node, () => this.#changedAt(node, ids, before.get(node)))
      if (changed === undefined) return
      const absent = new Set(changed.absent)
      const present = ids.filter((id) => !absent.has(id))
      for (const id of present) told.add(id)
      Object.assign(lanes, changed.lanes)
      seen.set(node, { revision: changed.revision, destinationIds: new Set(present) })
    }
    await Promise.all([...groups].map(look))
    const missing = destinationIds.filter((id) => !told.has(id))
    if (missing.length > 0) Object.assign(lanes, await this.#options.stored.lanes(missing))
    return { revision: this.#seen.keep(seen), lanes }
  }

  async troubles(query: TroubleQuery): Promise<LaneTrouble[] | null> {
    const nodes = new Set([...(await this.#routes.nodes()), this.#requests.nodeId])
    const asked = await Promise.all([...nodes].map((node) => this.#troublesAt(node, query)))
    const found = new Map<string, LaneTrouble>()
    for (const ofNode of asked) {
      if (ofNode === null) return null
      for (const lane of ofNode) found.set(lane.destinationId, lane)
    }
    // A requested lane without an owner is moving, unless it was deleted: nothing is known about it.
    for (const id of query.destinationIds)
      if (!found.has(id) && (await this.#routes.of(id)) !== 'gone') return null
    return [...found.values()]
  }

  /** `nothing` is the result for a destination that does not exist. */
  #command<Result>(
    method: 'skip' | 'retryNow' | 'rewind' | 'acknowledge' | 'parkedChanged',
    destinationId: string,
    args: readonly unknown[],
    nothing: Result,
  ): Promise<Result> {
    return this.#onOwner(destinationId, nothing, (node) =>
      this.#at<Result>(node, method, [destinationId, ...args], { confirm: true }),
    )
  }

  async #onOwner<Result>(
    destinationId: string,
    nothing: Result,
    run: (node: string) => Promise<Result>,
  ): Promise<Result> {
    const deadline = performance.now() + ownerWithinMs
    let freshSinceMs: number | undefined
    let last: unknown
    for (;;) {
      const route = await this.#routes.of(destinationId, freshSinceMs)
      if (route === 'gone') return nothing
      try {
        if (route !== 'unowned') return await run(route.node)
      } catch (error) {
        if (!isWorthAnotherLook(error)) throw asDeliveryError(error)
        last = error
      }
      if (performance.now() >= deadline) {
        throw new DeliveryElsewhereError(true, `no node delivers destination ${destinationId}`, last)
      }
      this.#routes.forget(destinationId)
      await pause(lookAgainMs)
      freshSinceMs = performance.now()
    }
  }

  /** Calls a method of the lane service at that node. */
  async #at<Result>(
    node: string,
    method: LaneMethod,
    args: readonly unknown[],
    options: RequestOptions = {},
  ): Promise<Result> {
    if (node === this.#requests.nodeId) return await Reflect.apply(this.#local[method], this.#local, args)
    const { value } = await this.#requests.request(node, `delivery.${method}`, args, options)
    return value as Result
  }

  /** Undefined when another node has the lane, or the node does not respond in time. */
  async #read<T>(node: string, ask: () => Promise<T>): Promise<T | undefined> {
    const isOwn = node === this.#requests.nodeId
    return await (isOwn ? ask() : this.#late.read(node, ask)).catch(unlessElsewhere)
  }

  async #probeLate(): Promise<void> {
    await this.#late.probe(
      () => this.#routes.nodes(),
      (node) => this.#at(node, 'lanes', [[]], { silenceMs: readSilenceMs }),
    )
  }

  /** Combines the results of each node for its own ids, without nodes that do not respond. */
  async #ofEach<Found>(
    method: 'lanes' | 'backlogs',
    groups: ReadonlyMap<string, readonly string[]>,
  ): Promise<Record<string, Found>> {
    const asked: Promise<Record<string, Found> | undefined>[] = []
    for (const [node, ids] of groups)
      for (const some of slices(ids, idsAtOnce)) {
        const options = { silenceMs: readSilenceMs }
        asked.push(this.#read(node, () => this.#at<Record<string, Found>>(node, method, [some], options)))
      }
    return Object.assign({}, ...(await Promise.all(asked)))
  }

  /** Lanes that were read at this node before are asked for first, so that changes during the read are reported again. */
  async #changedAt(
    node: string,
    ids: readonly string[],
    before: SeenAtNode | undefined,
  ): Promise<ChangedLanes> {
    const known = ids.filter((id) => before?.destinationIds.has(id))
    const isKnown = new Set(known)
    const others = ids.filter((id) => !isKnown.has(id))
    const all: { revision: string; lanes: Record<string, LaneStatus>; absent: string[] } = {
      revision: '',
      lanes: {},
      absent: [],
    }
    const look = async (some: readonly string[], since: string | null) => {
      const options = { silenceMs: readSilenceMs }
      const found = await this.#at<ChangedLanes>(node, 'lanesSince', [some, since], options)
      if (all.revision === '') all.revision = found.revision
      Object.assign(all.lanes, found.lanes)
      all.absent.push(...(found.absent ?? []))
    }
    for (const some of slices(known, idsAtOnce)) await look(some, before?.revision ?? null)
    for (const some of slices(others, idsAtOnce)) await look(some, null)
    return all
  }

  async #troublesAt(node: string, query: TroubleQuery): Promise<LaneTrouble[] | null> {
    if (node === this.#requests.nodeId) return await this.#local.troubles(query)
    if (this.#late.isLate(node)) return null
    const found: LaneTrouble[] = []
    const { workspaceIds, destinationIds, withAges } = query
    for (const workspaces of slices(workspaceIds, idsAtOnce))
      for (const destinations of destinationIds.length === 0 ? [[]] : slices(destinationIds, idsAtOnce)) {
        const part = { workspaceIds: workspaces, destinationIds: destinations, withAges }
        const asked = this.#at<LaneTrouble[] | null>(node, 'troubles', [part])
        const some = (await asked.catch(unlessElsewhere)) ?? null
        if (some === null) return null
        found.push(...some)
      }
    return found
  }

  async #notifyMissed(): Promise<void> {
    for (const destinationId of [...this.#unnotified]) {
      this.#unnotified.delete(destinationId)
      await this.parkedChanged(destinationId).catch((err) =>
        this.#options.log.warn({ destination_id: destinationId, err }, 'lane.parked_not_forwarded'),
      )
    }
  }
}

/** The methods that nodes call at each other. */
type LaneMethod =
  | 'lanes'
  | 'lanesSince'
  | 'backlogs'
  | 'troubles'
  | 'blockingMessage'
  | 'skip'
  | 'retryNow'
  | 'rewind'
  | 'acknowledge'
  | 'parkedChanged'

/** Nothing was done there: the pipe has moved, the node is gone, or it is busy. */
function isWorthAnotherLook(error: unknown): boolean {
  if (error instanceof LaneElsewhereError) return true
  if (!(error instanceof NodeRequestError)) return false
  return error.reason === 'not_owner' || error.reason === 'unreachable' || error.reason === 'busy'
}

function unlessElsewhere(error: unknown): undefined {
  const known = asDeliveryError(error)
  if (!isElsewhere(known)) throw known
}
