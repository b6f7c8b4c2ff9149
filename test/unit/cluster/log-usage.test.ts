/** The usage of a pipe, counted from the log by its owner. */
import { randomBytes } from 'node:crypto'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { LogUsage } from '../../../src/cluster/log-usage.ts'
import type { Backlog } from '../../../src/log/buffer.ts'
import type { Metadata } from '../../../src/metadata/store.ts'
import { newPipe, newWorkspace, open } from '../metadata/fixture.ts'

/** A log that several nodes append to. */
class Log {
  readonly pipes = new Map<string, Backlog>()
  reads = 0
  append(pipeId: string, messages = 1): void {
    const had = this.pipes.get(pipeId) ?? { messages: 0, records: 0, bytes: 0 }
    this.pipes.set(pipeId, {
      messages: had.messages + messages,
      records: had.records + 3 * messages,
      bytes: had.bytes + 30 * messages,
    })
  }
  readonly head = (pipeId: string) => this.pipes.get(pipeId)?.messages ?? 0
  readonly totals = async (pipeId: string) => {
    this.reads += 1
    return this.pipes.get(pipeId) ?? { messages: 0, records: 0, bytes: 0 }
  }
}

const nowMs = Date.UTC(2026, 0, 15, 12, 30)

function counter(log: Log, metadata: Metadata, pipes: Set<string>): LogUsage {
  return new LogUsage({
    pipeIds: () => pipes,
    headSeq: log.head,
    totals: log.totals,
    usage: metadata.usage,
    now: () => nowMs,
    log: pino({ level: 'silent' }),
  })
}

async function openPipes(t: Test, count: number) {
  const metadata = await open(t)
  const workspaceId = await newWorkspace(metadata, 'w')
  const pipeIds: string[] = []
  for (let index = 0; index < count; index++)
    pipeIds.push((await newPipe(metadata, workspaceId, `p${index}${randomBytes(2).toString('hex')}`)).pipe_id)
  const counted = async (pipeId: string) =>
    (await metadata.usage.byPipe(workspaceId, nowMs - 86_400_000))[pipeId]?.ingest_records ?? 0
  return { metadata, pipeIds, counted }
}

t.test(
  'an owner that dies has counted a part; the next one counts the rest, and nothing twice',
  async (t) => {
    const { metadata, pipeIds, counted } = await openPipes(t, 1)
    const pipeId = pipeIds[0]!
    const log = new Log()
    const dead = counter(log, metadata, new Set(pipeIds))
    log.append(pipeId, 5)
    await dead.count()
    t.equal(await counted(pipeId), 15)
    log.append(pipeId, 7)
    const next = counter(log, metadata, new Set(pipeIds))
    await Promise.all([next.count(), next.countPipe(pipeId), dead.count()])
    t.equal(await counted(pipeId), 36)
    await next.close()
    t.equal(await counted(pipeId), 36)
  },
)

t.test('only what has grown is looked at, of the pipes that are owned', async (t) => {
  const { metadata, pipeIds, counted } = await openPipes(t, 3)
  const [mine, quiet, theirs] = pipeIds as [string, string, string]
  const log = new Log()
  const owned = new Set([mine, quiet])
  const usage = counter(log, metadata, owned)
  log.append(mine)
  log.append(theirs)
  await usage.count()
  await usage.count()
  t.equal(log.reads, 1)
  t.equal(await counted(theirs), 0)
  owned.add(theirs)
  await usage.count()
  t.equal(await counted(theirs), 3)
  t.equal(log.reads, 2)
})

t.test('what could not be counted is counted later', async (t) => {
  const { metadata, pipeIds, counted } = await openPipes(t, 1)
  const pipeId = pipeIds[0]!
  const log = new Log()
  let isBroken = true
  const usage = new LogUsage({
    pipeIds: () => pipeIds,
    headSeq: log.head,
    totals: async (id) => {
      if (isBroken) throw new Error('nobody answers')
      return await log.totals(id)
    },
    usage: metadata.usage,
    now: () => nowMs,
    log: pino({ level: 'silent' }),
  })
  log.append(pipeId, 2)
  await t.rejects(usage.count())
  isBroken = false
  await usage.count()
  t.equal(await counted(pipeId), 6)
})
