/**
 * Runs test files on Node.js 24, and the daemons and commands that they start on it too.
 *
 *   node dist-test/run-on-node24.js [options of run-files] [FILE or FOLDER …]     default: node24Files
 *
 * One run of a checkout at a time. The daemons are the bundled program, as in other complete runs.
 */
import { spawn } from 'node:child_process'
import { readdirSync } from 'node:fs'
import path from 'node:path'
import { node24Files, prepareNode24 } from './support/node24.ts'

const { execPath, root, env } = await prepareNode24()
const runner = path.join(root, 'dist-test/run-files.js')
const program = path.join(root, 'dist-test/program/bin/pipectl.js')
const args = process.argv.slice(2)
const child = spawn(execPath, [runner, ...(args.length > 0 ? args : chosenFiles())], {
  cwd: root,
  env: { TEST_PROGRAM: program, ...process.env, ...env },
  stdio: 'inherit',
})
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => child.kill(signal))
child.once('exit', (code) => {
  process.exitCode = code ?? 1
})

function chosenFiles(): string[] {
  return readdirSync(path.join(root, 'dist-test'), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.test.js') && node24Files.some((prefix) => file.startsWith(prefix)))
    .sort((a, b) => a.localeCompare(b, 'en'))
}
