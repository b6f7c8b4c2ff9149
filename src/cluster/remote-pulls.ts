/**
 * Pulls from lanes of other nodes. A pull searches for an owner for as long as it can wait, and each request to an owner is
 * short, so that the pull follows its pipe to another node. A message of another node is held here until its outcome is known, and that node hears of it every two
 * seconds (serve-delivery.ts).
 */
import { setMaxListeners } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import type { PulledRef, PullRequest, PullResult, Pulls } from '../delivery/delivery.ts'
import {
  DeliveryElsewhereError,
  LaneElsewhereError,
  StorageUnavailableError,
} from '../platform/error-code.ts'
import type { Logger } from '../platform/log.ts'
import { slices } from '../platform/slices.ts'
import { NodeRequestError, type NodeRequests } from './node-requests.ts'
import type { PipeRoutes } from './pipe-routes.ts'
import { holdingEveryMs } from './serve-delivery.ts'

export const lookAgainMs = 100
/** The wait of a pull per request to an owner: the maximum delay when the owner is paused or the client has disconnected. */
const pullSliceMs = 2_000
/** Short, because reads can use the stored lanes instead. */
export const readSilenceMs = 2_000
/** The most ids in one request. */
export const idsAtOnce = 8_000

type PulledMessage = Extract<PullResult, { kind: 'message' }>

interface RemotePullsOptions {
  local: Pulls
  requests: NodeRequests
  log: Logger
}

export class RemotePulls {
  readonly #local: Pulls
  readonly #requests: NodeRequests
  readonly #log: Logger
  readonly #routes: PipeRoutes
  readonly #ending = new AbortController()
  /** Unsettled pulls from other nodes: the pull's id there, and the node. */
  readonly #held = new Map<string, string>()
  readonly #holding: NodeJS.Timeout

  constructor({ local, requests, log }: RemotePullsOptions, routes: PipeRoutes) {
    this.#local = local
    this.#requests = requests
    this.#log = log
    this.#routes = routes
    setMaxListeners(0, this.#ending.signal)
    this.#holding = setInterval(() => this.#reportHeld(), holdingEveryMs)
    this.#holding.unref()
  }

  async pull(destinationId: string, { waitMs, afterSeq }: PullRequest): Promise<PullResult> {
    const { signal } = this.#ending
    const deadline = performance.now() + waitMs
    let freshSinceMs: number | undefined
    for (;;) {
      const begunMs = performance.now()
      const leftMs = Math.max(0, deadline - begunMs)
      const route = await this.#routes.of(destinationId, freshSinceMs)
      if (route === 'gone') return { kind: 'not_found' }
      const request = { waitMs: Math.min(leftMs, pullSliceMs), afterSeq }
      const found = route === 'unowned' ? null : await this.#pullAt(route.node, destinationId, request)
      if (found !== null && found.kind !== 'empty') return found
      if (signal.aborted || performance.now() >= deadline) return { kind: 'empty' }
      // An earlier empty result means that the node is stopping and ends all pulls; another node will get the pipe.
      if (found !== null && performance.now() - begunMs >= request.waitMs - lookAgainMs) continue
      this.#routes.forget(destinationId)
      freshSinceMs = performance.now()
      await pause(Math.min(lookAgainMs, Math.max(0, deadline - freshSinceMs)), undefined, { signal }).catch(
        () => {},
      )
    }
  }

  async settle(method: 'pulled' | 'abandoned', ref: PulledRef): Promise<void> {
    const { destinationId, pullId } = ref
    const [node, idThere] = pullId.split('/')
    if (node === undefined || idThere === undefined) return await this.#local[method](ref)
    if (!this.#held.has(idThere)) return
    try {
      await this.#requests.request(node, `delivery.${method}`, [destinationId, idThere])
    } catch (error) {
      // The node that has the lane now redelivers the message.
      this.#log.warn(
        { destination_id: destinationId, node_id: node, err: error },
        'pull.not_settled_elsewhere',
      )
    } finally {
      this.#held.delete(idThere)
    }
  }

  /** Waiting pulls end without a message. */
  end(): void {
    this.#ending.abort()
  }

  close(): void {
    clearInterval(this.#holding)
  }

  /** Null: search for the owner again. */
  async #pullAt(node: string, destinationId: string, request: PullRequest): Promise<PullResult | null> {
    try {
      if (node === this.#requests.nodeId) return await this.#local.pull(destinationId, request)
      const { signal } = this.#ending
      const options = { waitMs: request.waitMs, silenceMs: readSilenceMs, signal }
      const { value, bytes } = await this.#requests.request(
        node,
        'delivery.pull',
        [destinationId, { ...request, waitMs: Math.ceil(request.waitMs) }],
        options,
      )
      const found = value as Exclude<PullResult, { kind: 'message' }> | Omit<PulledMessage, 'json'>
      if (found.kind !== 'message') return found
      if (bytes === null) return null
      // After a pull with after_seq nothing is in flight.
      if (request.afterSeq !== null) return { ...found, pullId: `${node}/-`, json: bytes }
      this.#held.set(found.pullId, node)
      return { ...found, pullId: `${node}/${found.pullId}`, json: bytes }
    } catch (error) {
      if (!isElsewhere(asDeliveryError(error))) throw error
      return null
    }
  }

  #reportHeld(): void {
    const byNode = new Map<string, string[]>()
    for (const [pullId, node] of this.#held) byNode.set(node, [...(byNode.get(node) ?? []), pullId])
    // A node that does not receive this redelivers the message.
    for (const [node, pullIds] of byNode)
      for (const some of slices(pullIds, idsAtOnce))
        this.#requests.request(node, 'delivery.holding', [some]).catch(() => {})
  }
}

/** Maps to the port's errors: `failed` is an internal error there. */
export function asDeliveryError(error: unknown): unknown {
  if (error instanceof LaneElsewhereError) return new DeliveryElsewhereError(true, error.message, error)
  if (!(error instanceof NodeRequestError) || error.reason === 'failed') return error
  return new DeliveryElsewhereError(error.isUndone, error.message, error)
}

export function isElsewhere(error: unknown): boolean {
  return error instanceof StorageUnavailableError || error instanceof LaneElsewhereError
}
