/**
 * Five nodes as processes, killed and paused at random: no pipe has two owners under one epoch, and nobody acts for a pipe
 * once a later owner has. A paused node that wakes up believes nothing of what it held.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import t, { type Test } from 'tap'
import { type ClusterDatabase, startClusterServer } from '../../support/cluster-database.ts'
import type { Act, LeaseChildOptions } from '../../support/lease-child.ts'
import { standStill } from '../../support/stand-still.ts'
import { until } from '../../support/until.ts'

const server = await startClusterServer(t)
const script = new URL('../../support/lease-child.ts', import.meta.url).pathname

class Nodes {
  readonly #file: string
  readonly #database: ClusterDatabase
  readonly #flags: Pick<LeaseChildOptions, 'isAlone' | 'isCareless'>
  readonly running = new Map<string, ChildProcess>()

  constructor(t: Test, database: ClusterDatabase, flags: Pick<LeaseChildOptions, 'isAlone' | 'isCareless'>) {
    const directory = mkdtempSync(path.join(os.tmpdir(), 'pipectl-leases-'))
    this.#file = path.join(directory, 'acts')
    this.#database = database
    this.#flags = flags
    t.teardown(() => {
      for (const nodeId of [...this.running.keys()]) this.kill(nodeId)
      rmSync(directory, { recursive: true, force: true })
    })
  }

  async start(): Promise<string> {
    const nodeId = randomUUID()
    const { url, sealingKey } = this.#database
    const options: LeaseChildOptions = {
      ...{ url, sealingKey: sealingKey.toString('hex'), nodeId, file: this.#file },
      ...this.#flags,
    }
    const child = spawn(process.execPath, ['--import=tsx', script, JSON.stringify(options)], {
      stdio: ['ignore', 'pipe', 'ignore'],
    })
    this.running.set(nodeId, child)
    await new Promise<void>((resolve, reject) => {
      child.stdout!.once('data', () => resolve())
      child.once('exit', () => reject(new Error('a node ended')))
    })
    return nodeId
  }

  kill(nodeId: string): void {
    this.running.get(nodeId)?.kill('SIGKILL')
    this.running.delete(nodeId)
  }

  pause(nodeId: string): void {
    const { pid } = this.running.get(nodeId) ?? {}
    if (pid !== undefined) standStill(pid)
  }

  resume(nodeId: string): void {
    this.running.get(nodeId)?.kill('SIGCONT')
  }

  acts(): Act[] {
    return readFileSync(this.#file, 'utf8')
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line))
  }

  /** The last to act for each pipe. */
  lastActs(): Map<string, Act> {
    return new Map(this.acts().map((act) => [act.pipe, act]))
  }
}

/** Violations of the rules: one epoch of two nodes; an act after the first one of a later epoch. */
function violations(acts: readonly Act[]): { sharedEpochs: number; lateActs: number; takeovers: number } {
  const holders = new Map<string, Set<string>>()
  const begins = new Map<string, Map<number, bigint>>()
  for (const { pipe, epoch, node, atNs } of acts) {
    const key = `${pipe} ${epoch}`
    holders.set(key, (holders.get(key) ?? new Set()).add(node))
    const ofPipe = begins.get(pipe) ?? new Map<number, bigint>()
    begins.set(pipe, ofPipe)
    const first = ofPipe.get(epoch)
    if (first === undefined || BigInt(atNs) < first) ofPipe.set(epoch, BigInt(atNs))
  }
  const late = acts.filter(({ pipe, epoch, atNs }) =>
    [...begins.get(pipe)!].some(([later, first]) => later > epoch && first < BigInt(atNs)),
  )
  const takeovers = [...begins.values()].reduce((sum, epochs) => sum + epochs.size - 1, 0)
  const sharedEpochs = [...holders.values()].filter((nodes) => nodes.size > 1).length
  return { sharedEpochs, lateActs: late.length, takeovers }
}

t.test('a node paused for longer than its lease wakes up owning nothing', async (t) => {
  const database = await server.create(t)
  const pipes = await database.pipes(6)
  const nodes = new Nodes(t, database, { isAlone: false, isCareless: false })
  const first = await nodes.start()
  await until('it acts for all', () => nodes.lastActs().size === pipes.length)
  await nodes.start()
  nodes.pause(first)
  const pausedAt = performance.now()
  const isTaken = () => [...nodes.lastActs().values()].every(({ node }) => node !== first)
  await until('all are taken over', isTaken, { everyMs: 50 })
  t.comment(`taken over ${Math.round(performance.now() - pausedAt)} ms after the pause began`)
  nodes.resume(first)
  await until('it has a share again', () => !isTaken(), { everyMs: 50 })
  t.match(violations(nodes.acts()), { sharedEpochs: 0, lateActs: 0 })
})

t.test('a node that is killed: how long its pipes stand still', async (t) => {
  const database = await server.create(t)
  const pipes = await database.pipes(6)
  const nodes = new Nodes(t, database, { isAlone: false, isCareless: false })
  const first = await nodes.start()
  await until('it acts for all', () => nodes.lastActs().size === pipes.length)
  await nodes.start()
  nodes.kill(first)
  const killedAt = performance.now()
  await until(
    'all are taken over',
    () => [...nodes.lastActs().values()].every(({ node }) => node !== first),
    { everyMs: 50 },
  )
  t.comment(`taken over ${Math.round(performance.now() - killedAt)} ms after it was killed`)
  t.match(violations(nodes.acts()), { sharedEpochs: 0, lateActs: 0 })
})

/** Kills and pauses for a while; what the nodes did. */
async function chaos(t: Test, flags: { isAlone: boolean; isCareless: boolean }, rounds: number) {
  const database = await server.create(t)
  await database.pipes(30)
  const nodes = new Nodes(t, database, flags)
  await Promise.all([1, 2, 3, 4, 5].map(() => nodes.start()))
  for (let round = 0; round < rounds; round += 1) {
    // One that has something to lose, and any other.
    const victim = nodes.acts().at(-1)!.node
    const others = [...nodes.running.keys()].filter((nodeId) => nodeId !== victim)
    const other = others[Math.floor(Math.random() * others.length)]!
    const before = nodes.acts().length
    if (Math.random() < 0.5) {
      nodes.kill(victim)
      await nodes.start()
    } else nodes.pause(victim)
    if (Math.random() < 0.5) nodes.pause(other)
    const from = performance.now()
    // Around the length of a lease: some wake up just before it ends, some after.
    const forMs = round === 0 ? 9_000 : 4_000 + Math.random() * 5_000
    await until('some time', () => performance.now() - from > forMs)
    nodes.resume(victim)
    nodes.resume(other)
    await until('somebody acts', () => nodes.acts().length > before)
  }
  const found = violations(nodes.acts())
  t.comment(`${nodes.acts().length} acts`, found)
  return found
}

t.test('no two owners under one epoch, and none acts after a later one', async (t) => {
  const found = await chaos(t, { isAlone: false, isCareless: false }, 4)
  t.ok(found.takeovers > 20, 'pipes changed hands')
  t.match(found, { sharedEpochs: 0, lateActs: 0 })
})

t.test('also where the nodes do not agree on who shall have what', async (t) => {
  const found = await chaos(t, { isAlone: true, isCareless: false }, 3)
  t.ok(found.takeovers > 20, 'pipes changed hands')
  t.match(found, { sharedEpochs: 0, lateActs: 0 })
})

t.test('negative control: without the comparison two nodes act for one pipe', async (t) => {
  await until('they are found', async () => {
    const found = await chaos(t, { isAlone: true, isCareless: true }, 2)
    return found.sharedEpochs + found.lateActs > 0
  })
})
