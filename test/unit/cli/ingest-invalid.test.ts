import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import t from 'tap'
import { cliEnv, makeHome, removeHome, runCli } from '../../support/cli.ts'
import { startDaemon } from '../../support/daemon.ts'

const daemon = await startDaemon()
const home = makeHome()
t.teardown(async () => {
  await daemon.close()
  removeHome(home)
})
const env = cliEnv(daemon, home)
const ingest = (...args: string[]) => runCli(['ingest', '-o', 'json', ...args], { env })

async function pipeWithPull(name: string): Promise<string> {
  const pipeId = await daemon.createPipe({ pipe_name: name, pipe_add_ingest_ts: false })
  await daemon.createDestination(pipeId, { destination_type: 'destination_pull', destination_config: {} })
  return pipeId
}
async function pulledIds(name: string): Promise<number[]> {
  const ran = await runCli(['pull', `${name}/pull`], { env })
  return ran.stdout
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line).id)
}

t.test('an invalid line is named with file, line and reason; corrected, the run goes on there', async (t) => {
  await pipeWithPull('orders')
  const file = path.join(home, 'orders.ndjson')
  const lines = Array.from({ length: 7 }, (_, id) => `{"id":${id}}`)
  const write = (third: string) => writeFileSync(`${file}.new`, `${lines.with(3, third).join('\n')}\n`)
  write('{"id":}')
  renameSync(`${file}.new`, file)
  const args = ['orders', '-f', file, '--batch-records', '2']
  const wrong = await ingest(...args)
  t.equal(wrong.code, 1)
  t.match(
    wrong.stderr,
    /orders\.ndjson, line 4: it is not valid JSON: Unexpected token '}'; everything before it/,
  )
  t.match(wrong.stderr, /next: correct that line and run the same command again.*--skip-invalid FILE/)

  write('{"id":3}')
  // As an editor does it: a new file under the old name.
  renameSync(`${file}.new`, file)
  const again = await ingest(...args)
  t.equal(again.code, 0, again.stderr)
  t.match(JSON.parse(again.stdout), { records_count: 4, resumed_after_records: 3 })
  t.same(await pulledIds('orders'), [0, 1, 2, 3, 4, 5, 6])
})

t.test('CSV without its extension is named as what it is', async (t) => {
  await pipeWithPull('tables')
  const file = path.join(home, 'table')
  for (const text of ['id,name\n1,a\n', '"id";"name"\n1;"a"\n', 'id\tname\n1\ta\n']) {
    writeFileSync(file, text)
    const ran = await ingest('tables', '-f', file)
    t.match(ran, { code: 1, stderr: /line 1: .*It looks like CSV; nothing was sent/ }, text)
    t.match(ran.stderr, /next: if it is CSV, add --format csv/)
  }
  writeFileSync(file, '{"id":1,}\n')
  t.notMatch((await ingest('tables', '-f', file)).stderr, /CSV/)
})

t.test('--skip-invalid puts bad lines aside and goes on, also past the one that stopped a run', async (t) => {
  await pipeWithPull('clicks')
  const file = path.join(home, 'clicks.ndjson')
  const aside = path.join(home, 'rejected.ndjson')
  writeFileSync(file, '{"id":0}\nnonsense\n{"id":1}\n{"id":2\n\n{"id":3}\n')
  t.equal((await ingest('clicks', '-f', file)).code, 1)
  const ran = await ingest('clicks', '-f', file, '--skip-invalid', aside)
  t.equal(ran.code, 0, ran.stderr)
  t.match(JSON.parse(ran.stdout), { records_count: 2, skipped_count: 2, resumed_after_records: 1 })
  t.match(ran.stderr, /clicks\.ndjson, line 2: .*\n.*clicks\.ndjson, line 4: /)
  t.match(ran.stderr, /2 lines appended to .*rejected\.ndjson/)
  t.equal(readFileSync(aside, 'utf8'), 'nonsense\n{"id":2\n')
  t.same(await pulledIds('clicks'), [0, 1, 3])
  t.equal((await ingest('clicks', '-f', file, '--skip-invalid', file)).code, 2)
})

t.test('what the pipe rejects is found in its batch, and put aside too', async (t) => {
  const pipeId = await pipeWithPull('strict')
  const column = { column_name: 'id', column_type: 'number', source_field: 'id', nullable: false }
  const database = await daemon.createDestination(pipeId, {
    destination_type: 'destination_database',
    destination_config: {
      host: '127.0.0.1',
      port: 1,
      database: 'd',
      username: 'u',
      password: 'p',
      table: 't',
    },
    columns: [column],
  })
  t.ok(database)
  const deep = `{"id":3,"x":${'['.repeat(200)}${']'.repeat(200)}}`
  const file = path.join(home, 'strict.ndjson')
  const aside = path.join(home, 'strict-rejected.ndjson')
  writeFileSync(file, `{"id":0}\n{"id":1}\n{"none":2}\n${deep}\n{"id":4}\n`)
  const named = await ingest('strict', '-f', file)
  t.equal(named.code, 1)
  t.match(named.stderr, /strict\.ndjson, line [34]/)
  const ran = await ingest('strict', '-f', file, '--skip-invalid', aside)
  t.equal(ran.code, 0, ran.stderr)
  t.equal(readFileSync(aside, 'utf8'), `{"none":2}\n${deep}\n`)
  t.same(await pulledIds('strict'), [0, 1, 4])
})
