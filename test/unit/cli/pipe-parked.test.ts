/** `pipectl pipes parked …` on a real daemon, with a pipe whose schema parks. */
import t from 'tap'
import type { PipeParkedList } from '../../../src/contract/pipe-parked.ts'
import { cliEnv, makeHome, removeHome, runCli } from '../../support/cli.ts'
import { startDaemon } from '../../support/daemon.ts'

const daemon = await startDaemon()
const home = makeHome()
t.teardown(async () => {
  await daemon.close()
  removeHome(home)
})
const env = cliEnv(daemon, home)
const pipectl = (...args: string[]) => runCli(['pipes', 'parked', ...args], { env })
const withInput = (input: string, ...args: string[]) => runCli(['pipes', 'parked', ...args], { env, input })
const pipeId = await daemon.createPipe({
  ...{ pipe_name: 'orders', pipe_add_ingest_ts: false, pipe_schema_on_mismatch: 'park' },
  pipe_schema: { properties: { n: { type: 'integer' }, status: { enum: ['open', 'paid'] } } },
})
const parked = async () =>
  ((await daemon.api('GET', `/v1/pipes/${pipeId}/parked`)).body as unknown as PipeParkedList).parked
const big = '{"n":"x","big":12345678901234567890}'

t.test('list and show: what is parked, in every format', async (t) => {
  t.match((await pipectl('list', 'orders', '-o', 'table')).stdout, /^nothing is parked/)
  await daemon.ingest(pipeId, `[${big},{"n":1},{"status":"lost"}]`)
  const [one] = await parked()
  const id = one!.parked_id
  const [table, json, filtered, limited, shown, ndjson] = await Promise.all([
    pipectl('list', 'orders', '-o', 'table'),
    pipectl('list', 'orders', '-o', 'json'),
    pipectl('list', 'orders', '--error-path', '/status', '-o', 'name'),
    pipectl('list', 'orders', '--limit', '1', '-o', 'name'),
    pipectl('show', 'orders', id, '-o', 'table'),
    pipectl('show', 'orders', id, '-o', 'ndjson'),
  ])
  t.match(table.stdout, /^PARKED .*\n[0-9a-f-]{8,} +.*ago +parked +36 +.*\/n/)
  t.match(JSON.parse(json.stdout).parked, [{ errors: [{ path: '/n' }] }, { errors: [{ path: '/status' }] }])
  t.equal(filtered.stdout.trim(), (await parked())[1]!.parked_id)
  t.equal(limited.stdout.trim(), id)
  t.match(shown.stdout, /state +parked\n.*schema version 1\)\nerror \/n +must be .*\nrecord +\{"n":"x",/s)
  t.equal(ndjson.stdout, `${big}\n`)
  t.equal((await pipectl('show', 'orders', 'ffff')).code, 3)
})

t.test('edit from a file: the change is shown, and what is not changed keeps its digits', async (t) => {
  const id = (await parked())[0]!.parked_id
  t.match(await withInput(big, 'edit', 'orders', id, '-f', '-'), {
    code: 6,
    stderr: /nothing was changed.*pipes parked replay orders/s,
  })
  t.equal((await pipectl('edit', 'orders', id)).code, 2, 'an editor needs a terminal')
  t.equal((await withInput('[{},{}]', 'edit', 'orders', id, '-f', '-')).code, 2, 'one record is parked')
  const wrong = await withInput(big.replace('"x"', 'true'), 'edit', 'orders', id, '-f', '-')
  t.equal(wrong.code, 5, 'it still does not match')
  const edited = await withInput(big.replace('"x"', '7'), 'edit', 'orders', id, '-f', '-')
  t.equal(edited.code, 0, edited.stderr)
  t.match(edited.stderr, /- {3}"n": true,\n\+ {3}"n": 7,.*Stored: orders accepted it\./s)
  const stored = await daemon.api('GET', `/v1/pipes/${pipeId}/messages`)
  t.ok(stored.text.includes('12345678901234567890'), 'every digit is stored')
})

t.test('replay: what still does not match stays parked, unless it is forced', async (t) => {
  t.equal((await pipectl('replay', 'orders')).code, 2, 'nothing is named')
  t.match(await pipectl('replay', 'orders', '--all'), { code: 1, stderr: /1 record still do not match/ })
  t.match(await pipectl('replay', 'orders', '--error-path', '/status', '--force'), {
    code: 0,
    stderr: /Stored 1 record of orders/,
  })
  t.same(await parked(), [])
  t.equal((await pipectl('replay', 'orders', '--all')).code, 6)
})

t.test('discard asks; afterwards it is gone', async (t) => {
  await daemon.ingest(pipeId, [{ n: 'a' }, { n: 'b' }, { n: 'c' }])
  const id = (await parked())[0]!.parked_id
  t.match(await pipectl('discard', 'orders', id), { code: 2, stderr: /add --yes/ })
  t.match(await pipectl('discard', 'orders', id, '--yes'), { code: 0, stderr: /Discarded 1 of orders/ })
  t.equal((await parked()).length, 2)
  t.equal((await pipectl('discard', 'orders', '--all', '--yes')).code, 0)
  t.equal((await pipectl('discard', 'orders', '--all', '--yes')).code, 6)
})
