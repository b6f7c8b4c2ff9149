/**
 * Opening a buffer that fails leaves no file open. A SQLite connection that is collected later deletes its -wal and -shm by
 * name, also where they belong to another file by then.
 */
import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, rmSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { childFlags } from '../../support/child-flags.ts'
import { cleanEnv } from '../../support/daemon.ts'
import { workDirectory } from '../../support/faults/every-step.ts'
import { faultyDisk, type Plan } from '../../support/faults/library.ts'
import { idempotent, KiB, message, newPipeId, openAt, temporaryDirectory } from './open.ts'
import type { OpenAttempt } from './open-leaks.ts'

const program = fileURLToPath(new URL('./open-leaks.ts', import.meta.url))
/** Its keys are derived and its segments sealed when it is opened: it was copied while it was open. */
const base = temporaryDirectory(t)
t.before(async () => {
  const root = temporaryDirectory(t)
  const { handle, close } = await openAt(t, root, { segmentMaxBytes: 64 * KiB })
  const pipeId = newPipeId()
  for (let n = 0; n < 90; n += 1) {
    const keyed = n % 2 === 0 ? idempotent(`key ${n}`) : {}
    await handle.appender.append(message(pipeId, `${n} `.padEnd(1_000, 'x'), keyed))
  }
  cpSync(root, base, { recursive: true })
  await close()
})

const faults: [string, Omit<Plan, 'at'>][] = [
  ['a call fails (EIO)', { error: 'EIO' }],
  ['there is no space from a call on', { error: 'ENOSPC', until: 'always' }],
]
for (const [what, fault] of faults) {
  t.test(what, async (t) => {
    const directory = workDirectory('open-leaks')
    t.teardown(() => rmSync(directory, { recursive: true, force: true }))
    const root = path.join(directory, 'root')
    mkdirSync(root)
    const disk = faultyDisk(root, path.join(directory, 'work'), { diskBytes: 16 * 1024 * KiB })
    const args = [...childFlags, program, base, root, disk.controlFile, JSON.stringify(fault)]
    const output = execFileSync(process.execPath, args, {
      env: { ...cleanEnv(), ...disk.env },
      maxBuffer: 64 * 1024 * KiB,
    })
    const attempts = JSON.parse(output.toString()) as OpenAttempt[]
    const failed = attempts.filter(({ error }) => error !== null)
    t.ok(failed.length > 0, `${failed.length} of ${attempts.length} attempts fail`)
    t.same(
      attempts.filter(({ openFiles }) => openFiles.length > 0),
      [],
    )
  })
}
