/**
 * The loss of the machine: kill -9 under load, and the data directory deleted. What is restored from the bucket has every
 * acknowledged record in sync mode; in async mode it lacks only records that were acknowledged after the moment that the
 * restore prints. A table with `exactly_once` has no record twice, although the lane's last saves are lost too. The tables of steps between which a kill can come are in src/replica/writer.ts and keeper.ts.
 */
import { rmSync } from 'node:fs'
import t from 'tap'
import { spawnCli } from '../support/cli.ts'
import type { TestDaemon } from '../support/daemon.ts'
import { readAll } from '../support/ledger.ts'
import { startPostgres } from '../support/postgres.ts'
import { replicated } from '../support/replica.ts'
import { openReplicaWorld } from '../support/replica-world.ts'
import { scaled } from '../support/scale.ts'
import { until } from '../support/until.ts'

const postgres = await startPostgres({ ssl: false })
t.teardown(() => postgres.stop())

/** `--scale` of test/run-files.ts multiplies it. */
const losses = scaled(2)

/** When each record was acknowledged, by number. */
class Sender {
  readonly acknowledgedMs = new Map<number, number>()
  #next: number
  #isRunning = true
  #loops: Promise<unknown>

  constructor(daemon: TestDaemon, pipeId: string, first: number) {
    this.#next = first
    const loop = async () => {
      while (this.#isRunning) {
        const numbers = [this.#next++, this.#next++]
        try {
          await daemon.ingest(
            pipeId,
            numbers.map((n) => ({ n, text: 'x'.repeat(200) })),
          )
          for (const n of numbers) this.acknowledgedMs.set(n, Date.now())
        } catch {
          // The machine is gone.
          return
        }
      }
    }
    this.#loops = Promise.all(Array.from({ length: 4 }, loop))
  }

  async more(count: number): Promise<void> {
    const goal = this.acknowledgedMs.size + count
    await until(`${count} more records are acknowledged`, () => this.acknowledgedMs.size >= goal, {
      timeoutMs: 60_000,
    })
  }

  /** Returns the first number that was not sent. */
  async stop(): Promise<number> {
    this.#isRunning = false
    await this.#loops
    return this.#next
  }
}

async function openWorld(t: { teardown(fn: () => unknown): void }, mode: 'sync' | 'async') {
  const { server, env, daemon, keyFile, pipeId, pullId } = await openReplicaWorld(t, {
    PIPECTL_REPLICA_MODE: mode,
    PIPECTL_BUFFER_SEGMENT_MAX_BYTES: '256KiB',
  })
  const table = `ledger_${mode}`
  await postgres.query(`CREATE TABLE ${table} (n int)`)
  const { host, port, user: username, password, database } = postgres
  await daemon.createDestination(pipeId, {
    destination_type: 'destination_database',
    destination_config: {
      ...{ dialect: 'postgresql', host, port, username, password, database },
      ...{ table, exactly_once: true },
    },
    columns: [{ column_name: 'n', column_type: 'number' }],
    flush: { max_records: 10, max_bytes: 1_000_000, max_seconds: 0 },
  })
  // In sync mode the response waited until the pipe was in the bucket. In async mode only records are to be lost.
  if (mode === 'async') await replicated(daemon)
  /** The machine is gone. Returns the moment through which everything must be there, ms since the epoch. */
  const loseAndRestore = async () => {
    await daemon.kill()
    rmSync(daemon.dataDir, { recursive: true })
    const { code, stderr } = await spawnCli(
      ['restore', '--from', env.PIPECTL_REPLICA_URL!, '--key-file', keyFile, '--data-dir', daemon.dataDir],
      { env },
    )
    if (code !== 0) throw new Error(stderr)
    const [, through = ''] = /acknowledged before (\S+Z)/.exec(stderr) ?? []
    await daemon.start()
    return Date.parse(through)
  }
  return { server, daemon, pipeId, pullId, table, loseAndRestore }
}

for (const mode of ['sync', 'async'] as const) {
  t.test(`${mode}: the machine is lost ${losses} times`, async (t) => {
    const { daemon, pipeId, pullId, table, loseAndRestore } = await openWorld(t, mode)
    const acknowledged = new Map<number, number>()
    const lost = new Set<number>()
    let next = 0
    for (let round = 1; round <= losses; round += 1) {
      const sender = new Sender(daemon, pipeId, next)
      await sender.more(400)
      const throughMs = await loseAndRestore()
      t.ok(throughMs > 0, 'it says how far it goes')
      next = await sender.stop()
      for (const [n, ms] of sender.acknowledgedMs) acknowledged.set(n, ms)
      const { numbers, seqs } = await readAll(daemon, pullId)
      const there = new Set(numbers)
      t.equal(new Set(seqs).size, seqs.length, 'no seq is used twice')
      for (const [n, acknowledgedMs] of acknowledged) {
        if (there.has(n) || lost.has(n)) continue
        lost.add(n)
        if (acknowledgedMs < throughMs) t.fail(`record ${n} was acknowledged before ${throughMs} and is lost`)
      }
    }
    const { numbers } = await readAll(daemon, pullId)
    const rows = await until('everything is in the table', async () => {
      const found = await postgres.query(`SELECT n, count(*)::int AS copies FROM ${table} GROUP BY n`)
      const stored = new Set(found.map(({ n }) => Number(n)))
      return numbers.every((n) => stored.has(n)) ? found : null
    })
    t.same(
      rows.filter(({ copies }) => copies !== 1),
      [],
      'no record is in the table twice',
    )
    const stored = new Set(rows.map(({ n }) => Number(n)))
    const missing = [...acknowledged.keys()].filter((n) => !stored.has(n) && !lost.has(n))
    t.same(missing, [], 'and none is missing')
    if (mode === 'sync') t.same([...lost], [], 'no acknowledged record is lost')
    t.comment(`${lost.size} of ${acknowledged.size} records were lost`)
  })
}
