/**
 * Who may still append while the buffer is getting full (fair-share.ts): the owners of the pipes publish what each pipe holds, every
 * thread that appends keeps the newest and counts on in between.
 *
 * A report is forgotten when its node has said nothing for some time: another owner reports the pipe then, or nobody does, and
 * nobody is kept back for want of news. The stream's own limit holds in any case.
 */
import Type, { type Static } from 'typebox'
import { fits } from '../../contract/validate.ts'
import { FairShare } from '../../log/fair-share.ts'
import type { NatsConnection } from '../nats/headers.ts'
import { count, parsed } from '../protocol.ts'
import { sharesSubject } from './frames.ts'

const forgottenAfterMs = 10_000
/** The bytes of a message in the stream in addition to its body. */
export const messageHeadBytes = 120

/** The limit of one message; a report of more pipes has several. */
export const pipesPerReport = 500
/** The limit of one node's report: further pipes are left out, and their shares do not count. */
const mostPipesOfNode = 100_000
/** Reports of more nodes are passed over: a client of the NATS account can invent any number. */
const mostNodes = 1_000

const bytes = Type.Number()
/** One node's, all pipes that it owns; a part of them when there are many. */
const sharesReport = Type.Object({
  node: Type.String({ maxLength: 64 }),
  /** Counts up with each report; parts of one report have one number. */
  report: count,
  /** The bytes of all pipes of the node that are not delivered, and those that are delivered and still stored. */
  undelivered: bytes,
  delivered: bytes,
  /** The buffer is over its mark although nothing delivered is left to free: shares count. */
  isPressed: Type.Boolean(),
  /** Pipe, workspace, undelivered bytes. Empty unless shares count. */
  pipes: Type.Array(Type.Tuple([Type.String({ maxLength: 64 }), Type.String({ maxLength: 64 }), bytes]), {
    maxItems: pipesPerReport,
  }),
})
export type SharesReport = Static<typeof sharesReport>

interface NodeReport extends SharesReport {
  at: number
}

export class Shares {
  readonly #share: FairShare
  readonly #nodes = new Map<string, NodeReport>()
  #isPressed = false
  readonly #forget: NodeJS.Timeout

  constructor(connection: NatsConnection, cluster: string, maxBytes: number) {
    this.#share = new FairShare(maxBytes)
    connection.subscribe(sharesSubject(cluster), {
      callback: (error, message) => {
        const report = error === null ? parsed(message.string()) : null
        if (fits(sharesReport, report)) this.#receive(report)
      },
    })
    this.#forget = setInterval(() => this.#measure(), forgottenAfterMs)
    this.#forget.unref()
  }

  /** False: the pipe, or its workspace, has had its share. */
  take(pipeId: string, bytes: number): boolean {
    return this.#share.take(pipeId, bytes + messageHeadBytes)
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
    if (known === undefined && this.#nodes.size >= mostNodes) return
    const before = known?.report === report.report ? known.pipes : []
    const pipes = [...before, ...report.pipes].slice(0, mostPipesOfNode)
    this.#nodes.set(node, { ...report, pipes, at: performance.now() })
    this.#measure()
  }

  #measure(): void {
    const reports = this.#fresh()
    const isPressed = reports.some((report) => report.isPressed)
    if (!isPressed && this.#isPressed) this.#share.release()
    this.#isPressed = isPressed
    if (!isPressed) return
    const pipes = reports.flatMap((report) => report.pipes)
    this.#share.measured(
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
