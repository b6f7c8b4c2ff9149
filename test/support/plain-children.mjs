/**
 * Loaded into each test file by test/run-files.ts. tap hooks the spawning of processes so that each Node.js below a test
 * loads its instruments for coverage, which is off here: they took half of the CPU of a test that runs commands (30 s
 * against 18 s for `unit/cli/backup`). Daemons and commands then run as they do for users.
 */
import { existsSync, readFileSync, writeSync } from 'node:fs'
import { isMainThread } from 'node:worker_threads'
import processOnSpawn from 'process-on-spawn'

processOnSpawn.removeAllListeners()

/** For the report of test/run-files.ts: CPU seconds of this process and of those that it waited for. */
if (isMainThread && existsSync('/proc/self/stat'))
  process.once('exit', () => {
    // After the name, which can contain spaces: fields 14 to 17 are utime, stime, cutime and cstime in ticks of 10 ms.
    const fields = readFileSync('/proc/self/stat', 'utf8')
      .replace(/^.*\) /s, '')
      .split(' ')
    const ticks = fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0)
    writeSync(1, `# cpu: ${(ticks / 100).toFixed(2)} s\n`)
  })
