/** A copy of the log that is killed at any point is continued by the next one, and has everything in the end. */
import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { childFlags } from '../../support/child-flags.ts'
import { programFile } from '../../support/programs.ts'
import { filledSource, sameAnswers } from './copied-log.ts'
import { temporaryDirectory } from './open.ts'

/** The calls with which the copy changes the disk. */
const calls = 'fsync,fdatasync,rename,unlink,pwrite64'
/** Not multiples of each other, so that the kills come at different steps. */
const kills = [3, 17, 29, 41, 53, 67, 79, 97, 113, 131]

/** Runs the copy until it is done or killed at the given call. Null: it is not killed. */
function copy(from: string, to: string, killAtCall: number | null): Promise<NodeJS.Signals | number | null> {
  const program = fileURLToPath(new URL('./copy-log.ts', import.meta.url))
  const node = [process.execPath, ...childFlags, program, from, to]
  const inject = ['-e', `trace=${calls}`, '-e', `inject=${calls}:signal=KILL:when=${killAtCall}`]
  const [file = '', ...args] =
    killAtCall === null ? node : [programFile('strace'), '-f', '-qq', '-o', '/dev/null', ...inject, ...node]
  const child = spawn(file, args, { stdio: ['ignore', 'ignore', 'inherit'] })
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', (code, signal) => resolve(signal ?? code))
  })
}

t.test('killed between any two writes, again and again', async (t) => {
  const root = temporaryDirectory(t)
  const source = await filledSource(t, root)
  const to = temporaryDirectory(t)
  for (const call of kills) t.equal(await copy(root, to, call), 'SIGKILL', `killed at call ${call}`)
  t.equal(await copy(root, to, null), 0)
  await sameAnswers(t, source, to)
})
