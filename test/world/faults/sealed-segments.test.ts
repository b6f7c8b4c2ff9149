/** Sealed segments are read where nothing can be written: on a full disk, and on one that fails every change. */
import { execFileSync } from 'node:child_process'
import { mkdirSync, readdirSync, rmSync } from 'node:fs'
import path from 'node:path'
import t from 'tap'
import { listSegments } from '../../../src/log/segments/layout.ts'
import { compiled } from '../../support/faults/compiled.ts'
import { diskBytes, workDirectory } from '../../support/faults/every-step.ts'
import { faultyDisk } from '../../support/faults/library.ts'
import { pipes, runProgram } from '../../support/faults/store-run.ts'

const folder = workDirectory('sealed-segments')
t.teardown(() => rmSync(folder, { recursive: true, force: true }))
const root = path.join(folder, 'root')
mkdirSync(root, { recursive: true })
const disk = faultyDisk(root, path.join(folder, 'work'), { diskBytes })
const dir = path.join(root, 'buffer')
const { acknowledged } = await runProgram({
  root,
  steps: [{ do: 'open' }, { do: 'append', count: 40, bytes: 5_000 }, { do: 'close' }],
  env: disk.env,
})
const newest = listSegments(dir).at(-1)!.firstSeq
const expected = acknowledged.filter(({ pipeId, seq }) => pipeId === pipes[0] && seq < newest).length

function read(throughSeq: number): string {
  const args = [compiled('read-program'), root, pipes[0]!, String(throughSeq)]
  return execFileSync(process.execPath, args, { encoding: 'utf8', env: { ...process.env, ...disk.env } })
}

t.test('on a full disk', async (t) => {
  disk.setFull(true)
  t.teardown(() => disk.setFull(false))
  t.ok(expected > 10)
  t.equal(read(newest - 1), `${expected}`)
})

t.test(
  'where every change fails; the segment that is written still has a WAL, and shows that they do',
  async (t) => {
    disk.plan({ at: 1, error: 'EIO', until: 'always' })
    t.teardown(() => disk.plan(null))
    t.equal(read(newest - 1), `${expected}`)
    t.match(read(newest), /^SQLITE_/, 'control')
  },
)

t.test('reading leaves nothing beside them', async (t) => {
  read(newest - 1)
  const sideFiles = readdirSync(dir).filter((name) => /^\d.*-(wal|shm|journal)$/.test(name))
  t.same(sideFiles, [])
})
