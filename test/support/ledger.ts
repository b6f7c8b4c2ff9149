/**
 * The ledger: what was acknowledged on one side, what arrived on the other, and the comparison of both. Every record
 * carries a number `n` of its own, so that a lost, repeated or reordered one can be named.
 */
import { setTimeout } from 'node:timers/promises'
import type { ApiClient } from './api-client.ts'
import { until } from './until.ts'

export interface Producer {
  /** Numbers of records whose request was answered 202. */
  accepted: Set<number>
  /** `msg_id` of every 202. */
  messages: Set<string>
  /** Numbers that were sent; one that was not accepted may arrive all the same (the response was lost). */
  sent: number
  stop(): Promise<void>
}

export interface ProducerOptions {
  loops?: number
  perRequest?: number
  /** Each loop's pause between requests: a steady load instead of all that the daemon takes. */
  paceMs?: number
  /** Told of every request: how long its response took, and whether it was 202. */
  onResponse?: (tookMs: number, isAccepted: boolean) => void
}

/** Sends records to a pipe from several loops at once until stopped; a rejected or broken request is left behind. */
export function startProducer(
  daemon: ApiClient,
  pipeId: string,
  { loops = 8, perRequest = 3, paceMs = 0, onResponse = () => {} }: ProducerOptions = {},
): Producer {
  const producer: Producer = { accepted: new Set(), messages: new Set(), sent: 0, stop: async () => {} }
  let running = true
  const loop = async () => {
    while (running) {
      const numbers = Array.from({ length: perRequest }, () => producer.sent++)
      const asked = performance.now()
      try {
        const answer = await daemon.ingest(
          pipeId,
          numbers.map((n) => ({ n })),
        )
        for (const n of numbers) producer.accepted.add(n)
        producer.messages.add(answer.msg_id)
        onResponse(performance.now() - asked, true)
      } catch {
        onResponse(performance.now() - asked, false)
        // The daemon is down or restarting: what was not answered 202 is no promise.
        await until('the daemon is there again', () => daemon.isReady || !running)
      }
      if (paceMs > 0) await setTimeout(paceMs)
    }
  }
  const loops_ = Array.from({ length: loops }, loop)
  producer.stop = async () => {
    running = false
    await Promise.all(loops_)
  }
  return producer
}

export interface Audit {
  /** Accepted and never arrived: must be empty. */
  missing: number[]
  /** Arrived for the first time after a later one: must be empty. */
  outOfOrder: number[]
  /** Arrivals of something that had arrived. */
  repeats: number
  /** Arrived and was never sent: must be empty. */
  unknown: number[]
}

/** `arrived` in the order of arrival; `inOrder` the buffer's own order of all records. */
export function audit(producer: Producer, arrived: readonly number[], inOrder: readonly number[]): Audit {
  const place = new Map(inOrder.map((n, index) => [n, index]))
  const seen = new Set<number>()
  const result: Audit = { missing: [], outOfOrder: [], repeats: 0, unknown: [] }
  let furthest = -1
  for (const n of arrived) {
    if (seen.has(n)) {
      result.repeats++
      continue
    }
    seen.add(n)
    const at = place.get(n)
    if (n >= producer.sent || at === undefined) result.unknown.push(n)
    else if (at < furthest) result.outOfOrder.push(n)
    else furthest = at
  }
  for (const n of producer.accepted) if (!seen.has(n)) result.missing.push(n)
  return result
}

/** Every message of a pipe through a pull lane, in `stream_seq` order, without moving the lane past its messages. */
export async function readAll(
  daemon: ApiClient,
  pullId: string,
): Promise<{ numbers: number[]; messages: string[]; seqs: number[] }> {
  const all = { numbers: [] as number[], messages: [] as string[], seqs: [] as number[] }
  let after = 0
  for (;;) {
    const answer = await daemon.api<{ stream_seq: number; msg_id: string; records: { n: number }[] }>(
      'GET',
      `/v1/pull/${pullId}?wait_ms=0&after_seq=${after}`,
    )
    if (answer.status === 204) return all
    if (answer.status !== 200) throw new Error(`pull answered ${answer.status} ${answer.text}`)
    after = answer.body.stream_seq
    all.seqs.push(after)
    all.messages.push(answer.body.msg_id)
    all.numbers.push(...answer.body.records.map((record) => record.n))
  }
}

/** Resolves once the lane has nothing pending. */
export async function drained(
  daemon: ApiClient,
  pipeId: string,
  destinationId: string,
): Promise<Record<string, unknown>> {
  return await until(
    `lane ${destinationId} has drained`,
    async () => {
      const lane = await daemon.lane(pipeId, destinationId)
      return lane.pending_messages === 0 ? lane : null
    },
    { timeoutMs: 90_000, everyMs: 100 },
  )
}
