/**
 * Records parked at a pipe, through kill -9 under load: each record of an acknowledged request is stored or parked, and
 * with an Idempotency-Key exactly once, while replays run too. The steps of a request and of a replay, between which a
 * kill can come, are in src/metadata/pipe-parked-port.ts.
 */
import t from 'tap'
import type { TestDaemon } from '../support/daemon.ts'
import { startDaemon } from '../support/daemon.ts'
import { readAll } from '../support/ledger.ts'
import { until } from '../support/until.ts'
import { restarts } from './ledger-daemon.ts'

/** The records of request `i`: in every third request none matches the schema. */
function recordsOf(i: number): { n: number; bad?: true }[] {
  const records = [0, 1, 2].map((index) => ({ n: 3 * i + index }))
  return records.map((record, index) =>
    i % 3 === 0 || index === 1 ? { ...record, bad: true as const } : record,
  )
}

function repeated(numbers: readonly number[]): number[] {
  return numbers.filter((n, at) => numbers.indexOf(n) !== at)
}

async function newPipe(daemon: TestDaemon, name: string) {
  const pipeId = await daemon.createPipe({
    ...{ pipe_name: name, pipe_schema: { properties: { bad: false } }, pipe_schema_on_mismatch: 'park' },
  })
  const pullId = await daemon.createDestination(pipeId, {
    destination_type: 'destination_pull',
    destination_config: {},
    start_from: 'earliest',
  })
  return { pipeId, pullId, parked: `/v1/pipes/${pipeId}/parked` }
}

type Send = (i: number) => Promise<boolean>

/** Sends request after request until it is stopped. `send` returns false for a request that is given up. */
function startLoops(loops: number, send: Send) {
  const acknowledged: number[] = []
  let next = 0
  let isRunning = true
  const loop = async () => {
    while (isRunning) {
      const i = next++
      if (await send(i)) acknowledged.push(...recordsOf(i).map(({ n }) => n))
    }
  }
  const running = Array.from({ length: loops }, loop)
  const stop = async () => {
    isRunning = false
    await Promise.all(running)
  }
  return { acknowledged, stop }
}

t.test(`parked records survive kill -9 (${restarts} times)`, async (t) => {
  const daemon = await startDaemon()
  t.teardown(() => daemon.close())
  const [keyed, plain] = [await newPipe(daemon, 'keyed'), await newPipe(daemon, 'plain')]
  const post = async (path: string, body: unknown, headers: Record<string, string> = {}) => {
    try {
      const { status } = await daemon.api('POST', path, body, { headers, isBroken: true })
      return status
    } catch {
      await until('the daemon is there again', () => daemon.isReady)
      return 0
    }
  }
  const withKey = startLoops(4, async (i) => {
    const headers = { 'Idempotency-Key': `request-${i}` }
    await until(
      `request ${i} is acknowledged`,
      async () => (await post(`/v1/ingest/${keyed.pipeId}`, recordsOf(i), headers)) === 202,
      { timeoutMs: 60_000 },
    )
    return true
  })
  const withoutKey = startLoops(
    4,
    async (i) => (await post(`/v1/ingest/${plain.pipeId}`, recordsOf(i))) === 202,
  )
  const replays = startLoops(1, async () => {
    await post(`${keyed.parked}/replay`, { all: true, force: true })
    return false
  })
  for (let round = 0; round < restarts; round++) {
    const [before, beforePlain] = [withKey.acknowledged.length, withoutKey.acknowledged.length]
    await until('both are under load', () => {
      const isBusy = withKey.acknowledged.length > before + 100 + 37 * round
      return isBusy && withoutKey.acknowledged.length > beforePlain + 50
    })
    await daemon.kill()
    await daemon.start()
  }
  await Promise.all([withKey.stop(), withoutKey.stop(), replays.stop()])
  for (const { parked } of [keyed, plain]) {
    const { status, body } = await daemon.api('POST', `${parked}/replay`, { all: true, force: true })
    t.equal(status, 200, JSON.stringify(body))
    t.equal((await daemon.api<{ count: number }>('GET', parked)).body.count, 0)
  }
  const { numbers } = await readAll(daemon, keyed.pullId)
  t.same(
    [...numbers].sort((a, b) => a - b),
    [...withKey.acknowledged].sort((a, b) => a - b),
    'with a key, each record is stored once',
  )
  const stored = new Set((await readAll(daemon, plain.pullId)).numbers)
  t.same(
    withoutKey.acknowledged.filter((n) => !stored.has(n)),
    [],
    'without a key, none is lost',
  )
  t.ok(withKey.acknowledged.length > 0 && withoutKey.acknowledged.length > 0)
  t.same(repeated([1, 2, 1]), [1], 'negative control: a record that is stored twice is seen')
  t.same(repeated(numbers), [])
})
