import { spawnSync } from 'node:child_process'
import { closeSync, openSync } from 'node:fs'
import t from 'tap'
import { childFlags } from '../support/child-flags.ts'

t.test('a log on a full disk does not end the process, nor fill its memory', async (t) => {
  const full = openSync('/dev/full', 'w')
  t.teardown(() => closeSync(full))
  const log = new URL('../../src/platform/log.ts', import.meta.url).href
  const program = `
    const { openLog } = await import('${log}')
    const log = openLog({ level: 'info', format: 'json' }, 'main')
    const before = process.memoryUsage().rss
    for (let n = 0; n < 30_000; n += 1) log.info({ n, fill: 'x'.repeat(4_000) }, 'event')
    setTimeout(() => console.log((process.memoryUsage().rss - before) / 1048576), 10)`
  const { status, stdout } = spawnSync(
    process.execPath,
    [...childFlags, '--input-type=module', '--eval', program],
    { stdio: ['ignore', 'pipe', full], encoding: 'utf8' },
  )
  t.equal(status, 0)
  t.ok(Number(stdout) < 80, `${stdout.trim()} MiB more`)
})
