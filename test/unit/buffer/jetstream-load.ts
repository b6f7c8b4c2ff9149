/**
 * Appending while servers fail: who sends what, what was acknowledged, and what the stream has of it afterwards.
 */
import type { Test } from 'tap'
import { streamName } from '../../../src/cluster/jetstream/frames.ts'
import { openJetStreamBuffer } from '../../../src/cluster/jetstream/open-buffer.ts'
import { BufferUnavailableError, type NewMessage, type OpenBuffer } from '../../../src/log/buffer.ts'
import type { JetStreamSpec } from '../../../src/log/buffer-spec.ts'
import { startNats, type TestNats } from '../../support/nats.ts'
import { until } from '../../support/until.ts'
import { maxPayload, readerOf } from './jetstream-open.ts'
import { message, quiet, readAll, textsOf } from './open.ts'

export interface Ledger {
  /** By sender: the numbers that were acknowledged, in order. */
  acknowledged: Map<string, number[]>
  rejected: number
  slowestMs: number
}

const onFatal = (error: Error) => {
  throw error
}

export async function open(t: Test, spec: JetStreamSpec): Promise<OpenBuffer> {
  const buffer = await openJetStreamBuffer(spec, { log: quiet, onFatal })
  t.teardown(() => buffer.close())
  return buffer
}

/** Each sender sends one after the other until `faults` has ended; a message that was not acknowledged is not sent again. */
export async function load(
  buffers: readonly OpenBuffer[],
  pipes: readonly string[],
  faults: (ledger: Ledger) => Promise<void>,
  append = (buffer: OpenBuffer, one: NewMessage): Promise<unknown> => buffer.appender.append(one),
): Promise<Ledger> {
  const ledger: Ledger = { acknowledged: new Map(), rejected: 0, slowestMs: 0 }
  let isOver = false
  const senders = Array.from({ length: 24 }, async (_, s) => {
    const sender = `${s}`
    const own: number[] = []
    ledger.acknowledged.set(sender, own)
    for (let n = 0; !isOver; n += 1) {
      const startedAt = performance.now()
      try {
        await append(buffers[s % buffers.length]!, message(pipes[s % pipes.length]!, `${sender}/${n}`))
        own.push(n)
      } catch (error) {
        if (!(error instanceof BufferUnavailableError)) throw error
        ledger.rejected += 1
        // As a client that is told Retry-After, but sooner.
        await new Promise((resolve) => setTimeout(resolve, 50))
      }
      ledger.slowestMs = Math.max(ledger.slowestMs, performance.now() - startedAt)
    }
  })
  try {
    await faults(ledger)
  } finally {
    isOver = true
  }
  await Promise.all(senders)
  return ledger
}

export const countOf = ({ acknowledged }: Ledger) =>
  [...acknowledged.values()].reduce((sum, own) => sum + own.length, 0)

export const moreAcknowledged = (ledger: Ledger, more: number) => {
  const before = countOf(ledger)
  return until(`${more} more are acknowledged`, () => countOf(ledger) >= before + more, { timeoutMs: 60_000 })
}

/** The stored messages of each sender, in the order of the pipes. */
async function stored(
  t: Test,
  spec: JetStreamSpec,
  pipes: readonly string[],
): Promise<Map<string, number[]>> {
  const reader = await readerOf(t, spec)
  const found = new Map<string, number[]>()
  for (const pipeId of pipes) {
    // A reader rejects while the stream, or that of the totals, has no leader; lanes try again.
    const messages = await until('the stream is read', () => readAll(reader, pipeId, 0, 5_000))
    for (const text of textsOf(messages)) {
      const [sender = '', n] = text.split('/')
      found.set(sender, [...(found.get(sender) ?? []), Number(n)])
    }
  }
  return found
}

interface Verdict {
  missing: number
  twice: number
  outOfOrder: number
}

export async function verdictOf(
  t: Test,
  spec: JetStreamSpec,
  pipes: readonly string[],
  ledger: Ledger,
): Promise<Verdict> {
  const found = await stored(t, spec, pipes)
  const verdict = { missing: 0, twice: 0, outOfOrder: 0 }
  for (const [sender, own] of ledger.acknowledged) {
    const all = found.get(sender) ?? []
    const known = new Set(all)
    const acknowledged = new Set(own)
    verdict.missing += own.filter((n) => !known.has(n)).length
    verdict.twice += all.length - known.size
    const order = all.filter((n) => acknowledged.has(n))
    verdict.outOfOrder += order.filter((n, index) => index > 0 && n < order[index - 1]!).length
  }
  return verdict
}

export const fine: Verdict = { missing: 0, twice: 0, outOfOrder: 0 }

export async function natsWith(t: Test, options: Parameters<typeof startNats>[0]): Promise<TestNats> {
  const nats = await startNats({ maxPayload, ...options })
  t.teardown(() => nats.stop())
  return nats
}

/**
 * Runs `scenario` with three servers. A nats-server that was killed at the wrong moment can keep the three from ever electing a
 * leader again, which says nothing about pipectl: if no client gets an answer from JetStream after a failure, it is
 * repeated with new servers.
 */
export async function withClusterOfThree(
  t: Test,
  scenario: (nats: TestNats) => Promise<void>,
): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    const nats = await natsWith(t, { replicas: 3 })
    try {
      return await scenario(nats)
    } catch (error) {
      const doesAnswer = await nats.ready(30_000).then(
        () => true,
        () => false,
      )
      if (doesAnswer || attempt === 3) throw error
      t.comment(`the servers elect no leader any more: ${String(error)}`)
    }
  }
}

export const leaderOf = async (nats: TestNats, spec: JetStreamSpec) => {
  const found = await nats.leaderOf(streamName(spec.cluster))
  if (found === null) throw new Error('the stream has no leader')
  return found
}
