/**
 * This node's view of all nodes, for the overview, the dashboard, metrics and the log. No decision depends on it.
 *
 * A node that ended without leaving is in the list of nodes only for seconds. The store remembers it as lost for an
 * hour, or until a node with its name joins again. It is shown as expired.
 */
import type { NodeState } from '../contract/node-words.ts'
import { type ClusterStore, type LostNode, leaseMs, type NodeRecord } from '../metadata/cluster-store.ts'
import { endsWithin } from '../platform/deadline.ts'
import type { Logger } from '../platform/log.ts'
import { Repeated } from '../platform/repeated.ts'
import type { ClusterNode } from './nodes.ts'

export interface ClusterViewOptions {
  node: Pick<ClusterNode, 'nodeId' | 'nodes' | 'lostNodes' | 'owners'> & {
    clock: { readonly offsetMs: number }
  }
  store: Pick<ClusterStore, 'pipes' | 'changes'>
  log: Logger
  /** Default: the process's own clock. */
  monotonicMs?: () => number
}

export interface SeenNode {
  nodeId: string
  nodeName: string
  state: NodeState
  isThis: boolean
}

export interface SeenCluster {
  nodes: SeenNode[]
  /** Pipe → the node that delivers it. Spans workspaces. */
  owners: ReadonlyMap<string, string>
}

/** As of the last successful read, except for the age of the heartbeat. */
export interface ClusterMeasured {
  nodes: Record<NodeState, number>
  ownedPipes: number
  unownedPipes: number
  /** Pipes that this node has taken since its start, as far as reads have seen them. */
  gainedPipes: number
  heartbeatAgeSeconds: number
  /** Changes that this node has not applied yet. */
  changesBehind: number
  clockOffsetSeconds: number
}

const lookEveryMs = 2_000
/** The time limit for a scrape, whose own limit is often a few seconds. */
const measureWithinMs = 500
/** Screens read more often than anything changes. */
const freshMs = 900

interface Look {
  atMs: number
  records: readonly NodeRecord[]
  /** Some can be in `records` too: the list was read a moment earlier. */
  lost: readonly LostNode[]
  owners: ReadonlyMap<string, string>
}

export class ClusterView {
  readonly #options: ClusterViewOptions
  readonly #nowMs: () => number
  /** The last known renewal of this node's lease. */
  #beatMs: number
  #last: Look | null = null
  #looking: Promise<Look> | null = null
  #measuring: Promise<void> | null = null
  #reads: Repeated | null = null
  #gained = 0
  #unowned = 0
  #behind = 0

  constructor(options: ClusterViewOptions) {
    this.#options = options
    this.#nowMs = options.monotonicMs ?? (() => performance.now())
    this.#beatMs = this.#nowMs()
  }

  /** Starts periodic reads. */
  open(): void {
    const read = async () => {
      await this.#look().catch((err: unknown) => this.#options.log.debug({ err }, 'cluster.view_not_read'))
    }
    void read()
    this.#reads = new Repeated(lookEveryMs, read)
  }

  close(): void {
    void this.#reads?.close()
  }

  /** Rejects when the database cannot be reached. */
  async facts(): Promise<SeenCluster> {
    const look = await this.#look()
    const { records, owners } = look
    const { nodeId: own } = this.#options.node
    const listed = records.map((one) => ({
      nodeId: one.nodeId,
      nodeName: one.name,
      state: stateOf(one),
      isThis: one.nodeId === own,
    }))
    const expired = shownAsLost(look).map(({ nodeId, name }) => ({
      nodeId,
      nodeName: name,
      isThis: false,
      state: 'expired' as const,
    }))
    return { nodes: [...listed, ...expired], owners }
  }

  /** Never rejects: values that cannot be read in time stay as they were. */
  async measured(): Promise<ClusterMeasured> {
    const { node } = this.#options
    this.#measuring ??= this.#measure().finally(() => {
      this.#measuring = null
    })
    await endsWithin(measureWithinMs, this.#measuring)
    const nodes = { live: 0, draining: 0, expired: this.#last === null ? 0 : shownAsLost(this.#last).length }
    for (const one of this.#last?.records ?? []) nodes[stateOf(one)] += 1
    const own = this.#own()
    return {
      nodes,
      ownedPipes: own?.ownedPipes ?? 0,
      unownedPipes: this.#unowned,
      gainedPipes: this.#gained,
      heartbeatAgeSeconds: Math.max(0, this.#nowMs() - this.#beatMs) / 1000,
      changesBehind: this.#behind,
      clockOffsetSeconds: node.clock.offsetMs / 1000,
    }
  }

  async #measure(): Promise<void> {
    const { store, log } = this.#options
    try {
      const [newest, free] = await Promise.all([store.changes.newest(), store.pipes.free(), this.#look()])
      this.#unowned = free.length
      this.#behind = Math.max(0, newest - (this.#own()?.seenChange ?? newest))
    } catch (err) {
      log.debug({ err }, 'cluster.view_not_read')
    }
  }

  #own(): NodeRecord | undefined {
    return this.#last?.records.find(({ nodeId }) => nodeId === this.#options.node.nodeId)
  }

  /** Runs one read at a time. */
  #look(): Promise<Look> {
    const last = this.#last
    if (last !== null && this.#nowMs() - last.atMs < freshMs) return Promise.resolve(last)
    this.#looking ??= this.#lookNow().finally(() => {
      this.#looking = null
    })
    return this.#looking
  }

  async #lookNow(): Promise<Look> {
    const { node } = this.#options
    const [records, owners] = await Promise.all([node.nodes(), node.owners()])
    // Read after the list: a node that is missing in it has left, or its loss is stored by now.
    const lost = await node.lostNodes()
    const look = { atMs: this.#nowMs(), records, lost, owners }
    if (this.#last !== null) this.#compare(this.#last, look)
    this.#last = look
    const own = this.#own()
    if (own !== undefined && own.leftMs > 0) this.#beatMs = look.atMs - (leaseMs - own.leftMs)
    return look
  }

  #compare(before: Look, now: Look): void {
    const { node, log } = this.#options
    const own = node.nodeId
    const isThere = new Set(now.records.map(({ nodeId }) => nodeId))
    const isLost = new Set(now.lost.map(({ nodeId }) => nodeId))
    for (const { nodeId, name } of before.records) {
      if (isThere.has(nodeId) || nodeId === own) continue
      if (isLost.has(nodeId)) log.warn({ node: name, node_id: nodeId }, 'cluster.node_lost')
      else log.info({ node: name, node_id: nodeId }, 'cluster.node_left')
    }
    const known = new Set(before.records.map(({ nodeId }) => nodeId))
    for (const { nodeId, name } of now.records)
      if (!known.has(nodeId)) log.info({ node: name, node_id: nodeId }, 'cluster.node_joined')
    for (const [pipeId, owner] of now.owners)
      if (owner === own && before.owners.get(pipeId) !== own) this.#gained += 1
  }
}

/** Not a node that is still listed, and not one whose successor with its name is live. */
function shownAsLost({ records, lost }: Look): LostNode[] {
  const ids = new Set(records.map(({ nodeId }) => nodeId))
  const names = new Set(records.filter(({ leftMs }) => leftMs > 0).map(({ name }) => name))
  return lost.filter(({ nodeId, name }) => !ids.has(nodeId) && !names.has(name))
}

export function stateOf({ leftMs, isDraining }: Pick<NodeRecord, 'leftMs' | 'isDraining'>): NodeState {
  if (leftMs === 0) return 'expired'
  return isDraining ? 'draining' : 'live'
}
