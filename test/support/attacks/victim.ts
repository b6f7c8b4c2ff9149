/**
 * A workspace that does nothing wrong: it sends at a steady pace, has an endpoint that takes everything, and asks for its
 * pipes and for the daemon's health all the while. What it sees during an attack is compared with what it sees without.
 */
import { setTimeout } from 'node:timers/promises'
import type { ApiClient } from '../api-client.ts'
import { startHttpSink } from '../http-sink.ts'
import { startProducer } from '../ledger.ts'
import { until } from '../until.ts'

export interface Seen {
  tookMs: number
  requests: number
  /** The requests among them that got 202. */
  accepted: number
  /** Records that arrived at its endpoint. */
  delivered: number
  /** Medians; infinite where nothing was answered. */
  ingestMs: number
  healthMs: number
  pipesMs: number
  /** Management requests that were not answered 200. */
  failures: number
}

export const loops = 4
const paceMs = 100

export class Victim {
  #seen = new Window()
  /** When what is being asked for was asked for. */
  readonly #asked = { health: performance.now(), pipes: performance.now() }
  #stop: () => Promise<unknown> = async () => {}

  static async open(client: ApiClient): Promise<Victim> {
    const victim = new Victim()
    const sink = await startHttpSink()
    sink.respondWith(({ text }) => {
      victim.#seen.delivered += text.split('\n').filter((line) => line !== '').length
      sink.deliveries.length = 0
      return {}
    })
    const pipeId = await client.createPipe({ pipe_name: 'victim' })
    await client.createDestination(pipeId, {
      destination_type: 'destination_http_endpoint',
      destination_config: { url: sink.url, body_format: 'ndjson' },
    })
    const producer = startProducer(client, pipeId, {
      loops,
      paceMs,
      perRequest: 1,
      onResponse: (tookMs, isAccepted) => victim.#seen.note('ingest', tookMs, isAccepted),
    })
    let isRunning = true
    const ask = async (what: 'health' | 'pipes') => {
      while (isRunning) {
        const asked = performance.now()
        victim.#asked[what] = asked
        const isGood = await client.api('GET', `/v1/${what}`).then(
          ({ status }) => status === 200,
          () => false,
        )
        victim.#seen.note(what, performance.now() - asked, isGood)
        await setTimeout(paceMs)
      }
    }
    const asking = [ask('health'), ask('pipes')]
    victim.#stop = async () => {
      isRunning = false
      await Promise.all([producer.stop(), ...asking])
      await sink.stop()
    }
    return victim
  }

  /** Ends when so many of its messages were accepted, delivered and so on from now on, at the latest after `limitMs`. */
  async look(messages: number, limitMs: number): Promise<Seen> {
    const window = new Window()
    this.#seen = window
    await until('the victim has seen enough', () => window.has(messages) || window.tookMs() > limitMs)
    // A request without a response has taken at least that long.
    for (const what of ['health', 'pipes'] as const) {
      const waited = performance.now() - this.#asked[what]
      if (waited > 2 * paceMs) window.note(what, waited, true)
    }
    return window.close()
  }

  async stop(): Promise<void> {
    await this.#stop()
  }
}

class Window {
  readonly #start = performance.now()
  readonly #times: Record<'ingest' | 'health' | 'pipes', number[]> = { ingest: [], health: [], pipes: [] }
  #accepted = 0
  #failures = 0
  delivered = 0

  tookMs(): number {
    return performance.now() - this.#start
  }

  note(what: 'ingest' | 'health' | 'pipes', tookMs: number, isGood: boolean): void {
    this.#times[what].push(tookMs)
    if (what === 'ingest') this.#accepted += isGood ? 1 : 0
    else this.#failures += isGood ? 0 : 1
  }

  has(messages: number): boolean {
    const { health, pipes } = this.#times
    const least = Math.min(this.#accepted, this.delivered, loops * health.length, loops * pipes.length)
    return least >= messages
  }

  close(): Seen {
    const { ingest, health, pipes } = this.#times
    return {
      tookMs: this.tookMs(),
      requests: ingest.length,
      accepted: this.#accepted,
      delivered: this.delivered,
      ingestMs: median(ingest),
      healthMs: median(health),
      pipesMs: median(pipes),
      failures: this.#failures,
    }
  }
}

export function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[values.length >> 1] ?? Number.POSITIVE_INFINITY
}

/** The forbidden effects of an attack on a victim; empty if there is none. */
export function harm(calm: Seen, seen: Seen): string[] {
  const rate = ({ delivered, tookMs }: Seen) => delivered / tookMs
  const success = ({ accepted, requests }: Seen) => accepted / Math.max(1, requests)
  const found: string[] = []
  const check = (what: string, isGood: boolean) => isGood || found.push(what)
  check('less than half is delivered', rate(seen) >= rate(calm) / 2)
  check('requests are rejected', success(seen) >= 0.9 * success(calm))
  check('ingest is slow', seen.ingestMs <= Math.max(200, 20 * calm.ingestMs))
  check('health is slow', seen.healthMs <= Math.max(1_000, 4 * calm.healthMs))
  check('management is slow', seen.pipesMs <= Math.max(1_000, 4 * calm.pipesMs))
  check('management fails', seen.failures === 0)
  return found
}

/** For people. */
export function inWords(seen: Seen): string {
  const perSecond = Math.round((1_000 * seen.delivered) / seen.tookMs)
  const ms = (value: number) => (Number.isFinite(value) ? `${Math.round(value)} ms` : 'none')
  return (
    `accepted ${seen.accepted} of ${seen.requests}, delivered ${perSecond}/s, medians: ingest ${ms(seen.ingestMs)}, ` +
    `health ${ms(seen.healthMs)}, pipes ${ms(seen.pipesMs)}`
  )
}
