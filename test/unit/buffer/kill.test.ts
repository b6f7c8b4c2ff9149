/** docs/dev/contract.md#buffer-and-retention: nothing acknowledged is lost by kill -9, at whatever step it comes. */
import { rmSync } from 'node:fs'
import path from 'node:path'
import Database from 'better-sqlite3'
import t from 'tap'
import { listSegments, segmentFile } from '../../../src/log/segments/layout.ts'
import { type Acknowledged, findAll, runUntilDead } from './crash-run.ts'
import { countOf, idempotent, KiB, message, newPipeId, openAt, specAt, temporaryDirectory } from './open.ts'

const smallSegments = { segmentMaxBytes: 256 * KiB }

t.test('kill -9 under load, again and again: every acknowledged message is found, in order', async (t) => {
  const root = temporaryDirectory(t)
  const pipes = [newPipeId(), newPipeId(), newPipeId()]
  const acknowledged: Acknowledged[] = []
  let from = 0
  for (const killAfter of [1, 40, 700, 1500, 3000]) {
    const run = await runUntilDead({ root, pipes, from, settings: smallSegments }, { killAfter })
    t.equal(run.exit.signal, 'SIGKILL')
    acknowledged.push(...run.acknowledged)
    from += 100_000
  }
  const buffer = await openAt(t, root, smallSegments)
  t.equal(await findAll(buffer.reader, acknowledged), acknowledged.length)
  t.equal((await buffer.handle.status()).missingAcknowledged, 0)
  const seqs = acknowledged.map(({ seq }) => seq)
  t.equal(new Set(seqs).size, seqs.length, 'no seq was given twice')
  t.same(
    seqs,
    seqs.toSorted((a, b) => a - b),
    'also over restarts',
  )
  await buffer.close()

  // Negative control: the check must notice one acknowledged message that is gone.
  const victim = acknowledged[Math.floor(acknowledged.length / 2)]!
  const { dir } = specAt(root)
  const holder = listSegments(dir).findLast(({ firstSeq }) => firstSeq <= victim.seq)!
  const db = new Database(segmentFile(dir, holder))
  t.equal(db.prepare('DELETE FROM message WHERE seq = ?').run(victim.seq).changes, 1)
  db.close()
  const robbed = await openAt(t, root, smallSegments)
  await t.rejects(findAll(robbed.reader, acknowledged), {
    message: new RegExp(`seq ${victim.seq}\\) is missing`),
  })
})

// The steps of rolling to a new segment and of dropping one (layout.ts), each with the process killed at it.
const steps = [
  { name: 'before the new segment is named', inject: 'rename:signal=KILL:when=2' },
  { name: 'at an early fsync', inject: 'fsync,fdatasync:signal=KILL:when=9' },
  { name: 'at a later fsync', inject: 'fsync,fdatasync:signal=KILL:when=60' },
  { name: 'at an unlink', inject: 'unlink,unlinkat:signal=KILL:when=9' },
  { name: 'at a later unlink', inject: 'unlink,unlinkat:signal=KILL:when=12' },
]
t.test('killed between the steps of sealing and dropping: the next start goes on from there', async (t) => {
  for (const { name, inject } of steps) {
    const root = temporaryDirectory(t)
    const pipes = [newPipeId(), newPipeId()]
    const settings = { ...smallSegments, deliveredMaxBytes: 512 * KiB }
    const task = { root, pipes, bodyBytes: 4 * KiB, settings, delivers: inject.startsWith('unlink') }
    const calls = inject.split(':')[0]!
    const run = await runUntilDead(task, { strace: ['-e', `trace=${calls}`, '-e', `inject=${inject}`] })
    t.equal(run.exit.signal, 'SIGKILL', `${name}: killed (${run.acknowledged.length} acknowledged)`)
    const { reader, handle, close } = await openAt(t, root, settings)
    const earliest = new Map<string, number>()
    for (const pipeId of pipes) earliest.set(pipeId, (await reader.earliest(pipeId)).seq)
    await findAll(reader, run.acknowledged, (pipeId) => earliest.get(pipeId) ?? 0)
    for (const pipeId of pipes) {
      const { seq } = await handle.appender.append(message(pipeId, '900000 after'))
      await findAll(reader, [{ seq, pipeId, number: 900_000 }])
      const { messages } = await countOf(reader, pipeId)
      const kept = run.acknowledged.filter((one) => one.pipeId === pipeId).length
      t.ok(messages > kept, `${name}: totals still count all ${kept} acknowledged and the new one`)
    }
    await close()
  }
})

t.test(
  'Idempotency-Key: killed between the commit and the look-up, the key is known after the restart',
  async (t) => {
    const root = temporaryDirectory(t)
    const pipeId = newPipeId()
    const highWater = path.join(specAt(root).dir, 'high-water')
    // The mark is written after the COMMIT and before the look-up.
    const strace = ['-P', highWater, '-e', 'trace=pwrite64', '-e', 'inject=pwrite64:signal=KILL:when=6']
    const run = await runUntilDead({ root, pipes: [pipeId], inFlight: 4, withKeys: true }, { strace })
    t.equal(run.exit.signal, 'SIGKILL')
    const { handle, reader } = await openAt(t, root)
    const { messages: before } = await countOf(reader, pipeId)
    t.ok(before > run.acknowledged.length, 'messages were committed that nobody was told of')
    for (let number = 0; number < before; number += 1) {
      const again = await handle.appender.append(message(pipeId, 'x', idempotent(`key ${number}`)))
      t.equal(again.repeated, true)
    }
    t.equal((await countOf(reader, pipeId)).messages, before, 'nothing was kept twice')
  },
)

t.test(
  'Idempotency-Key: the look-up is made again from the messages when it is gone or damaged',
  async (t) => {
    const root = temporaryDirectory(t)
    const pipeId = newPipeId()
    const lookup = path.join(specAt(root).dir, 'idempotency.db')
    const first = await openAt(t, root, { segmentMaxBytes: 64 * KiB })
    const appended = []
    for (let n = 0; n < 60; n += 1) {
      const more = n % 2 === 0 ? idempotent(`key ${n}`) : {}
      appended.push(await first.handle.appender.append(message(pipeId, 'x'.repeat(4 * KiB), more)))
    }
    await first.close()
    for (const suffix of ['', '-wal', '-shm']) rmSync(lookup + suffix, { force: true })
    const second = await openAt(t, root)
    const again = await second.handle.appender.append(message(pipeId, 'x', idempotent('key 0')))
    t.same(again, { ...appended[0], repeated: true })
    const last = await second.handle.appender.append(message(pipeId, 'x', idempotent('key 58')))
    t.same(last, { ...appended[58], repeated: true })
  },
)
