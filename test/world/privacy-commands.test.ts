/** `pipectl privacy` against a daemon: find, delete, jobs, show, cancel, and their counters. */
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import t from 'tap'
import { makeHome, removeHome, runCli } from '../support/cli.ts'
import { startDaemon } from '../support/daemon.ts'

const daemon = await startDaemon()
const home = makeHome()
t.teardown(async () => {
  await daemon.close()
  removeHome(home)
})
const env = { HOME: home, PIPECTL_URL: daemon.url, PIPECTL_API_KEY: daemon.apiKey }
const privacy = (...args: string[]) => runCli(['privacy', ...args], { env })
const ada = 'ada@example.com'
const pipeId = await daemon.createPipe({ pipe_name: 'orders' })
for (const email of [ada, 'bob@example.com']) await daemon.ingest(pipeId, { email })

t.test('find lists the records', async (t) => {
  const found = await privacy('find', '--key', `email=${ada}`, '--pipe', 'orders')
  t.match(found, { code: 0, stdout: /orders .* 0 +buffer/, stderr: /Found 1 record\./ })
  const nothing = await privacy('find', '--key', 'email=eve@example.com')
  t.match(nothing, { code: 0, stdout: /no such record/ })
})

t.test('a key that is not valid is not repeated', async (t) => {
  const failed = await privacy('find', '--key', ada)
  t.match(failed, { code: 2, stderr: /KEY=VALUE/ })
  t.notMatch(failed.stderr, ada)
  t.match(await privacy('find'), { code: 2, stderr: /--key/ })
})

t.test('delete asks first, and names where copies remain', async (t) => {
  const keys = path.join(home, 'keys')
  writeFileSync(keys, `email=${ada}\n`)
  t.match(await privacy('delete', '--keys-file', keys), { code: 2, stderr: /Delete 1 record permanently\?/ })
  const done = await privacy('delete', '--keys-file', keys, '--yes', '-o', 'name')
  t.match(done, { code: 0, stderr: /Deleted 1 record\.[\s\S]*Copies can remain: backups/ })
  t.match(await privacy('delete', '--keys-file', keys), { code: 6, stderr: /nothing to delete/ })
  const id = done.stdout.trim()
  t.match(await privacy('show', id), { code: 0, stdout: /deleted +1 record/ })
  t.match(await privacy('cancel', id), { code: 5, stderr: /ended already/ })
  t.match(await privacy('show', '0000'), { code: 3 })
  t.match(await privacy('jobs'), { code: 0, stdout: /delete +done +email +1 +1/ })
  const metrics = await (await fetch(daemon.metricsUrl)).text()
  t.match(metrics, 'pipectl_privacy_deleted_records_total 1')
  t.match(metrics, /pipectl_privacy_jobs_total\{result="done"\} [4-9]/)
})
