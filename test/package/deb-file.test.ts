/** The file of the Debian package: made reproducibly, and as Debian wants it. */
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import t from 'tap'
import { buildDeb } from '../support/deb.ts'

const directory = t.testdir({ one: {}, other: {} })
const first = buildDeb(path.join(directory, 'one'))

function sha256(file: string): string {
  return createHash('sha256').update(readFileSync(file)).digest('hex')
}

/** The errors that lintian reports. */
function errorsIn(file: string): string[] {
  const { error, stdout, stderr, status } = spawnSync('lintian', ['--allow-root', file], { encoding: 'utf8' })
  if (error !== undefined || (status !== 0 && stdout === ''))
    throw new Error(`lintian failed: ${error ?? stderr}`)
  return stdout.split('\n').filter((line) => line.startsWith('E:'))
}

t.test('two builds are the same file, whatever the clock and the umask', async (t) => {
  const before = process.umask(0o077)
  t.teardown(() => process.umask(before))
  t.equal(sha256(buildDeb(path.join(directory, 'other'))), sha256(first))
})

t.test('lintian finds no error', async (t) => {
  t.same(errorsIn(first), [])
})
