/** The fault library misses nothing that the daemon does to its data directory: strace counts the same calls. */
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import t from 'tap'
import { copyFreshDataDir, startDaemon } from '../../support/daemon.ts'
import { faultyDisk, kinds, unnumbered } from '../../support/faults/library.ts'
import { seenByStrace, underStrace } from '../../support/faults/strace.ts'
import { readTrace } from '../../support/faults/trace.ts'
import { until } from '../../support/until.ts'

const MiB = 1024 * 1024

t.test('start, ingest with rolls, a pull, stop: library and strace count the same', async (t) => {
  const root = mkdtempSync(path.join(os.tmpdir(), 'pipectl-seen-'))
  t.teardown(() => rmSync(root, { recursive: true, force: true }))
  const dataDir = path.join(root, 'data')
  const { api_key: apiKey } = await copyFreshDataDir(dataDir)
  const disk = faultyDisk(dataDir, path.join(root, 'work'), { trace: true })
  const output = path.join(root, 'strace')
  const [strace = '', ...options] = underStrace(output, disk.env)
  // -D: the daemon is our child and gets our signals.
  const daemon = await startDaemon({
    dataDir,
    under: [strace, '-D', ...options],
    env: { PIPECTL_BUFFER_SEGMENT_MAX_BYTES: String(MiB) },
  })
  daemon.apiKey = apiKey
  t.teardown(() => daemon.close())
  const pipeId = await daemon.createPipe({ pipe_name: 'seen' })
  await daemon.createDestination(pipeId, { destination_type: 'destination_pull', destination_config: {} })
  for (let n = 0; n < 40; n += 1) await daemon.ingest(pipeId, { n, fill: 'x'.repeat(100_000) })
  t.equal(await daemon.stop(), 0)
  await until('strace has written all', () => existsSync(output) && hasEnded(output))
  const { byKind } = disk.counts()
  const numbered = kinds.filter((kind) => !unnumbered.includes(kind) && byKind[kind] > 0)
  const counted = Object.fromEntries(numbered.map((kind) => [kind, byKind[kind]]))
  t.same(Object.fromEntries(seenByStrace(output, dataDir)), { ...counted, read: byKind.read })
  t.ok(
    byKind.write > 500 && byKind.sync + byKind.datasync > 50 && byKind.rename >= 3,
    JSON.stringify(counted),
  )
  const recorded = readTrace(disk.traceFile).filter(({ kind }) => numbered.includes(kind))
  t.equal(
    recorded.length,
    Object.values(counted).reduce((sum, count) => sum + count, 0),
    'all are recorded',
  )
})

function hasEnded(output: string): boolean {
  return /\+\+\+ exited with 0 \+\+\+\n$/.test(readFileSync(output, 'utf8'))
}
