/** `pipectl parked …` on a real daemon, with a lane that parks. */
import { chmodSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import t from 'tap'
import { editRecords } from '../../../src/apps/cli/parked/editor.ts'
import { cliEnv, makeHome, removeHome, runCli } from '../../support/cli.ts'
import { startDaemon } from '../../support/daemon.ts'
import { startParkingLane } from '../../support/parking.ts'
import { until } from '../../support/until.ts'

const daemon = await startDaemon()
const home = makeHome()
const lane = await startParkingLane(daemon, 'orders')
t.teardown(async () => {
  await lane.sink.stop()
  await daemon.close()
  removeHome(home)
})
const env = cliEnv(daemon, home)
const pipectl = (...args: string[]) => runCli(['parked', ...args], { env })
const withInput = (input: string, ...args: string[]) => runCli(['parked', ...args], { env, input })
const bad = (n: number) => `{"n":${n},"bad":true,"big":12345678901234567890,"price":1.10}`

t.test('list, show and export: what is parked, in every format', async (t) => {
  t.match((await pipectl('list', 'orders/shop', '-o', 'table')).stdout, /^nothing is parked/)
  await lane.send(bad(1), '{"n":2}', bad(3))
  const [list, table, names, ndjson] = await Promise.all([
    pipectl('list', 'orders/shop', '-o', 'json'),
    pipectl('list', 'orders', '-o', 'table'),
    pipectl('list', 'orders', '--reason', 'permanent_error', '--error-code', 'http_422', '-o', 'name'),
    pipectl('list', 'orders', '--limit', '1', '-o', 'ndjson'),
  ])
  const { parked } = JSON.parse(list.stdout)
  t.match(parked, [
    { record_index: 0, reason: 'permanent_error', state: 'parked', error: { code: 'http_422' } },
    { record_index: 2 },
  ])
  t.match(table.stdout, /^PARKED .*\n[0-9a-f-]{8,} +.*ago +rejected +\d+ #0 +1 +http_422: /)
  t.same(
    names.stdout.trim().split('\n'),
    parked.map((one: { parked_id: string }) => one.parked_id),
  )
  t.match(ndjson.stdout, /^\{"parked_id".*\}\n$/)
  t.match(ndjson.stderr, /There are more than these 1: --limit/)
  t.equal((await pipectl('list', 'orders', '--error-code', 'none', '-o', 'name')).stdout, '')
  t.equal((await pipectl('list', 'orders', '--limit', 'x')).code, 2)

  const id: string = parked[0].parked_id
  const shown = await pipectl('show', 'orders/shop', id.slice(0, 18), '-o', 'table')
  t.match(shown.stdout, /error +http_422: /)
  t.match(shown.stdout, /record 0 +\{"n":1,"bad":true,"big":12345678901234567890,"price":1\.10\}/)
  t.equal((await pipectl('export', 'orders/shop')).stdout, `${bad(1)}\n${bad(3)}\n`)
  t.equal((await pipectl('export', 'orders/shop', id)).stdout, `${bad(1)}\n`)
  t.equal((await pipectl('show', 'orders', 'ffff')).code, 3, 'no such beginning')
  t.equal((await pipectl('show', 'orders', '00000000-0000-4000-8000-000000000000')).code, 3)
  const completed = await runCli(['__complete', '--', 'parked', 'show', 'orders/shop', id.slice(0, 3)], {
    env,
  })
  t.match(completed.stdout, id)
})

t.test(
  'edit from a file: the change is shown, what is not changed keeps its digits, it is stored',
  async (t) => {
    const [one] = await lane.parked()
    const id = one?.parked_id ?? ''
    const text = (await pipectl('export', 'orders', id)).stdout
    t.equal((await withInput(text, 'edit', 'orders', id, '-f', '-')).code, 6, 'nothing was changed')
    const wrong = await withInput('{"n":1,\n "bad" false}', 'edit', 'orders', id, '-f', '-')
    t.equal(wrong.code, 2)
    t.match(wrong.stderr, /stdin, line 2, column 8: expected : after the key/)
    t.equal((await withInput('[{},{}]', 'edit', 'orders', id, '-f', '-')).code, 2, 'more than are parked')
    t.equal((await pipectl('edit', 'orders', id)).code, 2, 'an editor needs a terminal')

    const edited = await withInput(text.replace('"bad"', '"good"'), 'edit', 'orders', id, '-f', '-', '--wait')
    t.equal(edited.code, 0, edited.stderr)
    t.match(edited.stderr, /- {3}"bad": true,\n\+ {3}"good": true,/)
    t.match(edited.stderr, /Stored: orders\/shop accepted it\./)
    t.ok(lane.taken().includes(bad(1).replace('"bad"', '"good"')), 'every digit arrived')
  },
)

t.test('replay: one, those with an error, all; what fails again says so', async (t) => {
  await lane.send(bad(4))
  const [one] = await lane.parked()
  const again = await pipectl('replay', 'orders', one?.parked_id ?? '', '--wait')
  t.equal(again.code, 1)
  t.match(again.stderr, /failed again: http_422: /)
  t.match((await lane.parked())[0], { replays: 1, state: 'parked' })
  const all = await pipectl('replay', 'orders', '--all', '--wait')
  t.equal(all.code, 1)
  t.match(all.stderr, /Replaying 2 parked records of orders\/shop\.\nStored 0, failed again 2\.\n/)
  t.match(all.stderr, /2 records failed again: http_422 \(2\)/)
  const file = path.join(home, 'records.json')
  writeFileSync(file, '{"n":3}')
  t.match(await pipectl('replay', 'orders', one?.parked_id ?? '', '-f', file, '--wait'), { code: 0 })
  t.equal((await pipectl('replay', 'orders')).code, 2, 'nothing is named')
  t.equal((await pipectl('replay', 'orders', 'aaaa', '--all')).code, 2, 'both are')
  t.equal((await pipectl('replay', 'orders', '--error-code', 'none')).code, 6)
  lane.sink.respondWith(() => ({ status: 200 }))
  const stored = await pipectl('replay', 'orders', '--error-code', 'http_422')
  t.match(stored, { code: 0, stderr: /Replaying 1 parked record of orders\/shop\.\n$/ })
  await until('it is stored', async () => (await lane.parked()).length === 0)
  lane.sink.respondWith(({ text }) => ({ status: text.includes('"bad"') ? 422 : 200 }))
})

t.test('discard asks; afterwards it is gone', async (t) => {
  await lane.send(bad(5), bad(6), bad(7))
  const [one] = await lane.parked()
  const unasked = await pipectl('discard', 'orders', one?.parked_id ?? '')
  t.match(unasked, { code: 2, stderr: /add --yes/ })
  t.match(await pipectl('discard', 'orders', one?.parked_id ?? '', '--yes'), {
    code: 0,
    stderr: /Discarded 1 of 1 parked record of orders\/shop/,
  })
  t.equal((await lane.parked()).length, 2)
  t.equal((await pipectl('discard', 'orders', '--all', '--yes')).code, 0)
  t.equal((await pipectl('discard', 'orders', '--all', '--yes')).code, 6)
  t.equal((await lane.parked()).length, 0)
})

/** An editor that does as its lines say, one at each start: `sed` expressions. */
function editor(...scripts: string[]): { env: NodeJS.ProcessEnv; seen: () => string[] } {
  const program = path.join(home, 'editor.sh')
  const log = path.join(home, 'seen')
  writeFileSync(log, '')
  writeFileSync(
    program,
    `#!/bin/sh
n=$(grep -c '^=' '${log}'); stat -c '= %a' "$1" >> '${log}'; stat -c '%a' "$(dirname "$1")" >> '${log}'; cat "$1" >> '${log}'
case $n in ${scripts.map((script, at) => `${at}) sed -i '${script}' "$1";;`).join(' ')} esac`,
  )
  chmodSync(program, 0o700)
  return {
    env: { ...process.env, VISUAL: '', EDITOR: program },
    seen: () => readFileSync(log, 'utf8').split(/^=/m).slice(1),
  }
}
const leftOver = () => readdirSync(os.tmpdir()).filter((name) => name.startsWith('pipectl-edit-'))

t.test(
  'the editor: a private file; it opens again with what is wrong, and removes what it made',
  async (t) => {
    const before = leftOver()
    const { env: own, seen } = editor('s/1,/1/', 's/1$/2,/')
    const text = '{\n  "n": 1,\n  "m": 12345678901234567890\n}'
    t.same(await editRecords(text, ['why it was refused'], 1, own), [
      '{\n  "n": 2,\n  "m": 12345678901234567890\n}',
    ])
    const [first = '', second = ''] = seen()
    t.match(first, /^ 600\n700\n\/\/ why it was refused\n\{\n {2}"n": 1,/)
    t.match(second, /^ 600\n700\n\/\/ Line 6, column 3: expected , or }.*\n\/\/ Correct it.*\n\/\/ why/)
    t.equal(second.split('\n')[7]?.trim().slice(0, 3), '"m"', 'the line that is named is that of the file')
    t.same(leftOver(), before)
  },
)

t.test('the editor: closed as it was, nothing is changed; one that fails says so', async (t) => {
  t.equal(await editRecords('{}', [], 1, editor('').env), null)
  t.equal(await editRecords('{"a":1}', [], 1, editor('s/1/1,/', '').env), null, 'given up after a mistake')
  const failing = { ...process.env, VISUAL: 'false', EDITOR: '' }
  await t.rejects(editRecords('{}', [], 1, failing), { message: /the editor "false" ended with 1/ })
})
