/** An error that ends the buffer names the file, the failed action, and what to do. */
import { mkdirSync, rmSync } from 'node:fs'
import path from 'node:path'
import t from 'tap'
import { diskBytes, workDirectory } from '../../support/faults/every-step.ts'
import { faultyDisk, type Plan } from '../../support/faults/library.ts'
import type { Step } from '../../support/faults/store-program.ts'
import { runProgram } from '../../support/faults/store-run.ts'

const failures: Record<string, { steps: Step[]; plan: Plan; fatal: RegExp }> = {
  'a commit': {
    steps: [{ do: 'open' }, { do: 'append', count: 3, bytes: 100 }],
    plan: { at: 2, error: 'EIO', kinds: ['sync', 'datasync'], match: '1.db-wal' },
    fatal: /writing \/.*\/00000000000000000001\.db failed: disk I\/O error \(SQLITE_IOERR_FSYNC\)/,
  },
  'making a segment': {
    steps: [{ do: 'open' }],
    plan: { at: 1, error: 'EIO', kinds: ['rename'], match: 'next-segment.tmp' },
    fatal: /making \/.*\/00000000000000000001\.db failed: .*EIO/,
  },
}

for (const [name, { steps, plan, fatal }] of Object.entries(failures)) {
  t.test(name, async (t) => {
    const folder = workDirectory(`error-words-${name.replaceAll(' ', '-')}`)
    t.teardown(() => rmSync(folder, { recursive: true, force: true }))
    const root = path.join(folder, 'root')
    mkdirSync(root, { recursive: true })
    const disk = faultyDisk(root, path.join(folder, 'work'), { diskBytes })
    disk.plan(plan)
    const ran = await runProgram({ root, steps, env: disk.env })
    t.match(ran.fatal, fatal)
  })
}
