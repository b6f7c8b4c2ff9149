/** The file of a segment is missing and its WAL is there: what the WAL holds is salvaged, or kept in the quarantine. */
import { copyFileSync, cpSync, existsSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import t, { type Test } from 'tap'
import { fileBytes, listSegments, segmentFile } from '../../../src/log/segments/layout.ts'
import { until } from '../../support/until.ts'
import { KiB, MiB, message, newPipeId, openAt, readAll, specAt, temporaryDirectory } from './open.ts'

/** A copy of an open buffer: what a crash of the process leaves. */
async function crashedBuffer(
  t: Test,
  { messages, segmentMaxBytes }: { messages: number; segmentMaxBytes: number },
) {
  const root = temporaryDirectory(t)
  const pipeId = newPipeId()
  const { handle } = await openAt(t, root, { segmentMaxBytes })
  const seqs: number[] = []
  while (seqs.length < messages) {
    const texts = Array.from({ length: 10 }, (_, n) => `{"n":${n},"fill":"${'x'.repeat(500)}"}`)
    const appended = await Promise.all(texts.map((text) => handle.appender.append(message(pipeId, text))))
    seqs.push(...appended.map(({ seq }) => seq))
  }
  const { dir: writtenDir } = specAt(root)
  await until('the newest segment has messages in its WAL, and the others are sealed', async () => {
    // The writer rolls after the response: it answers this when that is done.
    await handle.headSeq()
    const files = listSegments(writtenDir).map((name) => segmentFile(writtenDir, name))
    const newest = files.pop()!
    // Copied while it is being sealed, a segment would be torn.
    if (files.some((file) => existsSync(`${file}-wal`))) return false
    if (fileBytes(`${newest}-wal`) > 0) return true
    // The last message filled a segment: the one after it is empty.
    seqs.push((await handle.appender.append(message(pipeId, '{"n":0}'))).seq)
    return false
  })
  const crashed = temporaryDirectory(t)
  cpSync(root, crashed, { recursive: true })
  const { dir, quarantineDir } = specAt(crashed)
  return { root: crashed, dir, quarantined: path.join(quarantineDir, 'segments'), pipeId, seqs }
}

t.test('the only segment: every acknowledged message is in its WAL', async (t) => {
  const { root, dir, quarantined, pipeId, seqs } = await crashedBuffer(t, {
    messages: 300,
    segmentMaxBytes: 8 * MiB,
  })
  const file = segmentFile(dir, listSegments(dir)[0]!)
  rmSync(file)
  const { handle, reader } = await openAt(t, root)
  const found = await readAll(reader, pipeId)
  t.same(
    found.map(({ seq }) => seq),
    seqs,
  )
  const { missingAcknowledged, lostMessages } = await handle.status()
  t.same({ missingAcknowledged, lostMessages }, { missingAcknowledged: 0, lostMessages: 0 })
  t.same(readdirSync(quarantined), [`${path.basename(file)}-wal`])
  const { seq } = await handle.appender.append(message(pipeId, '{"after":1}'))
  t.ok(seq > seqs.at(-1)!, 'the log continues behind them')
})

t.test('the newest of several segments', async (t) => {
  const settings = { messages: 150, segmentMaxBytes: 64 * KiB }
  const { root, dir, pipeId, seqs } = await crashedBuffer(t, settings)
  const names = listSegments(dir)
  t.ok(names.length > 1)
  rmSync(segmentFile(dir, names.at(-1)!))
  const { handle, reader } = await openAt(t, root)
  t.same(
    (await readAll(reader, pipeId)).map(({ seq }) => seq),
    seqs,
  )
  t.equal((await handle.status()).lostMessages, 0)
})

t.test('a crash after the salvaged segment has its name: the WAL is a leftover', async (t) => {
  const { root, dir, quarantined, pipeId, seqs } = await crashedBuffer(t, {
    messages: 50,
    segmentMaxBytes: 8 * MiB,
  })
  const [name] = listSegments(dir)
  const wal = `${segmentFile(dir, name!)}-wal`
  const copy = path.join(root, 'copy')
  copyFileSync(wal, copy)
  rmSync(segmentFile(dir, name!))
  const first = await openAt(t, root)
  await first.close()
  copyFileSync(copy, wal)
  const { reader } = await openAt(t, root)
  t.same(
    (await readAll(reader, pipeId)).map(({ seq }) => seq),
    seqs,
  )
  t.notOk(existsSync(wal))
  t.equal(readdirSync(quarantined).length, 1, 'and is not kept a second time')
})

t.test('the WAL of an older segment goes to the quarantine', async (t) => {
  const settings = { messages: 150, segmentMaxBytes: 64 * KiB }
  const { root, dir, quarantined, pipeId } = await crashedBuffer(t, settings)
  const [oldest, ...rest] = listSegments(dir)
  const wal = `${segmentFile(dir, oldest!)}-wal`
  copyFileSync(`${segmentFile(dir, rest.at(-1)!)}-wal`, wal)
  rmSync(segmentFile(dir, oldest!))
  const { handle, reader } = await openAt(t, root)
  t.equal((await handle.status()).missingSegments, 1)
  t.ok((await readAll(reader, pipeId)).length > 0, 'the others are read')
  t.same(readdirSync(quarantined), [path.basename(wal)])
  t.notOk(existsSync(wal))
})

t.test('a WAL in which nothing was ever written is removed', async (t) => {
  const { root, dir, quarantined, pipeId, seqs } = await crashedBuffer(t, {
    messages: 10,
    segmentMaxBytes: 8 * MiB,
  })
  const wal = `${segmentFile(dir, { firstSeq: 1_000, generation: 0 })}-wal`
  writeFileSync(wal, '')
  const { reader } = await openAt(t, root)
  t.same(
    (await readAll(reader, pipeId)).map(({ seq }) => seq),
    seqs,
  )
  t.notOk(existsSync(wal))
  t.notOk(existsSync(quarantined))
})
