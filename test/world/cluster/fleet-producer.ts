/**
 * A producer that sends as clients behind a load balancer do: each loop to one node, and to the next one when that fails or does not
 * answer in time. What was not answered 202 is no promise, and may arrive all the same.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { request } from 'undici'
import type { Producer } from '../../support/ledger.ts'

export interface Target {
  /** Where it serves. */
  url(): string
}

export interface FleetProducerOptions {
  apiKey: string
  loops: number
  /** From the beginning of a request of a loop to that of its next one. */
  paceMs: number
}

const answerTimeoutMs = 2_000

export interface FleetProducer extends Producer {
  /** Requests by status; 0: no answer. */
  readonly statuses: Map<number, number>
}

export function startFleetProducer(
  targets: readonly Target[],
  pipeId: string,
  { apiKey, loops, paceMs }: FleetProducerOptions,
): FleetProducer {
  const producer = {
    accepted: new Set<number>(),
    messages: new Set<string>(),
    statuses: new Map<number, number>(),
    sent: 0,
    stop: async () => {},
  }
  let isRunning = true
  const send = async (target: Target, n: number): Promise<number> => {
    try {
      const response = await request(`${target.url()}/v1/ingest/${pipeId}`, {
        method: 'POST',
        headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
        body: JSON.stringify({ n }),
        headersTimeout: answerTimeoutMs,
        bodyTimeout: answerTimeoutMs,
        signal: AbortSignal.timeout(answerTimeoutMs),
      })
      const { msg_id: msgId } = (await response.body.json()) as { msg_id: string }
      if (response.statusCode === 202) producer.messages.add(msgId)
      return response.statusCode
    } catch {
      return 0
    }
  }
  const loop = async (place: number) => {
    let at = place
    while (isRunning) {
      const begun = performance.now()
      const n = producer.sent++
      const status = await send(targets[at % targets.length]!, n)
      producer.statuses.set(status, (producer.statuses.get(status) ?? 0) + 1)
      if (status === 202) producer.accepted.add(n)
      else at += 1
      await delay(Math.max(0, paceMs - (performance.now() - begun)))
    }
  }
  const running = Array.from({ length: loops }, (_, place) => loop(place))
  producer.stop = async () => {
    isRunning = false
    await Promise.all(running)
  }
  return producer
}
