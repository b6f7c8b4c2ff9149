/**
 * Fair share (fair-share.ts) while the buffer of a cluster is getting full. The owners of pipes publish the bytes that each
 * pipe holds. Every appending thread keeps the newest report and adds its own appends.
 *
 * The reports of a silent node expire: then another owner reports the pipe, or the pipe is not limited. The stream's own
 * limit applies in any case.
 */
import Type, { type Static } from 'typebox'
import { fits } from '../../contract/validate.ts'
import { FairShare } from '../../log/fair-share.ts'
import type { NatsConnection } from '../nats/headers.ts'
import { count, parsed } from '../protocol.ts'
import { sharesSubject } from './frames.ts'

const forgottenAfterMs = 10_000
/** Bytes of a message in the stream in addition to its body. */
export const messageHeadBytes = 120

/** The limit of one message. A report with more pipes is split. */
export const pipesPerReport = 500
/** The limit of one node's report. Further pipes are left out, and their shares do not count. */
const maxPipesOfNode = 100_000
/** Reports of more nodes are ignored: a client of the NATS account can invent any number. */
const maxNodes = 1_000

const bytes = Type.Number()
/** The report of one node about its pipes, or a part of it. */
const sharesReport = Type.Object({
  node: Type.String({ maxLength: 64 }),
  /** Increases with each report. All parts of a report have the same number. */
  report: count,
  /** Bytes of all pipes of the node: undelivered ones, and delivered ones that are still stored. */
  undelivered: bytes,
  delivered: bytes,
  /** True when the buffer is above its limit with nothing delivered left to free: shares apply. */
  isPressed: Type.Boolean(),
  /** Pipe, workspace, undelivered bytes. Empty unless shares apply. */
  pipes: Type.Array(Type.Tuple([Type.String({ maxLength: 64 }), Type.String({ maxLength: 64 }), bytes]), {
    maxItems: pipesPerReport,
  }),
})
export type SharesReport = Static<typeof sharesReport>

interface NodeReport extends SharesReport {
  at: number
}

export class Shares {
  readonly #maxBytes: number
  /** Null while no node is short of space. */
  #share: FairShare | null = null
  readonly #nodes = new Map<string, NodeReport>()
  readonly #forget: NodeJS.Timeout

  constructor(connection: NatsConnection, cluster: string, maxBytes: number) {
    this.#maxBytes = maxBytes
    connection.subscribe(sharesSubject(cluster), {
      callback: (error, message) => {
        const report = error === null ? parsed(message.string()) : null
        if (fits(sharesReport, report)) this.#receive(report)
      },
    })
    this.#forget = setInterval(() => this.#measure(), forgottenAfterMs)
    this.#forget.unref()
  }

  /** Returns false when the pipe or its workspace has used up its share. */
  take(pipeId: string, bytes: number): boolean {
    return this.#share === null || this.#share.take(pipeId, bytes + messageHeadBytes)
  }

  /** The sums of the other nodes that have reported recently. */
  othersThan(node: string): { undelivered: number; delivered: number } {
    let undelivered = 0
    let delivered = 0
    for (const one of this.#fresh()) {
      if (one.node === node) continue
      undelivered += one.undelivered
      delivered += one.delivered
    }
    return { undelivered, delivered }
  }

  close(): void {
    clearInterval(this.#forget)
  }

  #receive(report: SharesReport): void {
    const { node } = report
    const known = this.#nodes.get(node)
    if (known === undefined && this.#nodes.size >= maxNodes) return
    const before = known?.report === report.report ? known.pipes : []
    const pipes = [...before, ...report.pipes].slice(0, maxPipesOfNode)
    this.#nodes.set(node, { ...report, pipes, at: performance.now() })
    this.#measure()
  }

  #measure(): void {
    const reports = this.#fresh()
    this.#share = null
    if (!reports.some(({ isPressed }) => isPressed)) return
    const pipes = reports.flatMap((report) => report.pipes)
    this.#share = new FairShare(
      this.#maxBytes,
      new Map(pipes.map(([pipeId, , bytes]) => [pipeId, bytes])),
      pipes.map(([pipeId, workspaceId]) => [pipeId, workspaceId]),
    )
  }

  #fresh(): NodeReport[] {
    const since = performance.now() - forgottenAfterMs
    for (const [node, { at }] of this.#nodes) if (at < since) this.#nodes.delete(node)
    return [...this.#nodes.values()]
  }
}
