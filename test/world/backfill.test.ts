/** `pipectl ingest` of large inputs while the daemon, the command or the store fails: each record of the input once. */
import { spawn } from 'node:child_process'
import { closeSync, openSync, readFileSync, rmSync, writeFileSync, writeSync } from 'node:fs'
import path from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { gzipSync } from 'node:zlib'
import { PutObjectCommand, S3Client } from '@aws-sdk/client-s3'
import { parquetWriteBuffer } from 'hyparquet-writer'
import t from 'tap'
import { cliEnv, finished, makeHome, removeHome, runCli, spawnCli, startCli } from '../support/cli.ts'
import { binary, cleanEnv, startDaemon } from '../support/daemon.ts'
import { freePort } from '../support/free-port.ts'
import { startS3 } from '../support/s3.ts'
import { until } from '../support/until.ts'

const daemon = await startDaemon({ args: ['--listen', `127.0.0.1:${await freePort()}`] })
const home = makeHome()
const s3 = await startS3('archive')
t.teardown(async () => {
  await daemon.close()
  await s3.stop()
  removeHome(home)
})
const env = {
  ...cliEnv(daemon, home),
  AWS_ACCESS_KEY_ID: 'S3RVER',
  AWS_SECRET_ACCESS_KEY: 'S3RVER',
}
const store = new S3Client({
  endpoint: s3.endpoint,
  region: 'us-east-1',
  forcePathStyle: true,
  credentials: { accessKeyId: 'S3RVER', secretAccessKey: 'S3RVER' },
})
const put = (key: string, body: Buffer | string) =>
  store.send(new PutObjectCommand({ Bucket: 'archive', Key: key, Body: Buffer.from(body) }))

async function pipeWithPull(name: string): Promise<string> {
  const pipeId = await daemon.createPipe({ pipe_name: name, pipe_add_ingest_ts: false })
  await daemon.createDestination(pipeId, { destination_type: 'destination_pull', destination_config: {} })
  return pipeId
}

async function pulled(name: string): Promise<string[]> {
  const ran = await runCli(['pull', `${name}/pull`, '-o', 'ndjson'], { env, timeoutMs: 60_000 })
  if (ran.code !== 0) throw new Error(ran.stderr)
  return ran.stdout.split('\n').filter((line) => line !== '')
}

async function acceptedRecords(pipeId: string): Promise<number> {
  const { body } = await daemon.api<{ usage_by_pipe: Record<string, { ingest_records: number }> }>(
    'GET',
    '/v1/pipes',
  )
  return body.usage_by_pipe[pipeId]?.ingest_records ?? 0
}

function csvRows(first: number, count: number): string {
  let text = ''
  for (let id = first; id < first + count; id += 1) text += `${id},"record, number ${id}",1.10\n`
  return text
}

function isEachOnce(lines: readonly string[], total: number): boolean {
  return lines.length === total && lines.every((line, id) => line.startsWith(`{"id":${id},`))
}

for (const compressed of [false, true]) {
  const name = compressed ? 'killed-gz' : 'killed'
  t.test(
    `CSV${compressed ? ' with gzip' : ''}: daemon and command are killed, and each row is there once, in order`,
    async (t) => {
      const pipeId = await pipeWithPull(name)
      const total = 60_000
      const file = path.join(home, `${name}.csv${compressed ? '.gz' : ''}`)
      const text = `id,text,amount\n${csvRows(0, total)}`
      writeFileSync(file, compressed ? gzipSync(text) : text)
      const args = [
        'ingest',
        name,
        file,
        '--types',
        'id:number,amount:number',
        '--batch-records',
        '100',
        '-o',
        'json',
      ]

      const first = startCli(args, { env })
      const firstEnd = finished(first)
      await until('some is accepted', async () => (await acceptedRecords(pipeId)) > 3_000, { everyMs: 5 })
      first.kill('SIGKILL')
      t.equal((await firstEnd).code, 'SIGKILL')
      const before = await acceptedRecords(pipeId)
      t.ok(before < total, 'it was killed in the middle')

      const second = startCli(args, { env })
      const secondEnd = finished(second, 60_000)
      await until('more is accepted', async () => (await acceptedRecords(pipeId)) > before + 3_000, {
        everyMs: 5,
      })
      await daemon.kill()
      await daemon.start()
      const ended = await secondEnd
      t.equal(ended.code, 0, ended.stderr)
      t.ok(isEachOnce(await pulled(name), total), 'each once, in the order of the file')
    },
  )
}

t.test(
  'a run that is killed and has lost its state repeats no record; with other keys it does',
  async (t) => {
    const pipeId = await pipeWithPull('stateless')
    const total = 20_000
    const file = path.join(home, 'stateless.csv')
    writeFileSync(file, `id,text,amount\n${csvRows(0, total)}`)
    const args = [
      'ingest',
      'stateless',
      file,
      '--types',
      'id:number',
      '--batch-records',
      '100',
      '--in-flight',
      '4',
    ]
    const first = startCli(args, { env })
    const firstEnd = finished(first)
    await until('some is accepted', async () => (await acceptedRecords(pipeId)) > 2_000, { everyMs: 5 })
    first.kill('SIGKILL')
    await firstEnd
    const lost = { ...env, XDG_STATE_HOME: path.join(home, 'lost') }
    t.equal((await spawnCli(args, { env: lost })).code, 0)
    const ids = (lines: readonly string[]) =>
      lines.map((line) => Number(JSON.parse(line).id)).sort((a, b) => a - b)
    t.same(
      ids(await pulled('stateless')),
      Array.from({ length: total }, (_, id) => id),
      'each once',
    )
    t.equal((await spawnCli([...args, '--again'], { env: lost })).code, 0)
    t.equal(
      (await pulled('stateless')).length,
      total,
      'the control: --again has other keys and sends all once more',
    )
  },
)

t.test('objects below a prefix, in the order of their keys: CSV, NDJSON with gzip, Parquet', async (t) => {
  await pipeWithPull('objects')
  await put('events/a.csv', 'id,text\n0,x\n1,y\n')
  await put('events/b.ndjson.gz', gzipSync('{"id":2,"n":12345678901234567890}\n{"id":3}\n'))
  const parquet = parquetWriteBuffer({
    columnData: [
      { name: 'id', data: [4n, 5n], type: 'INT64' },
      { name: 'big', data: [9007199254740993n, null], type: 'INT64' },
    ],
  })
  await put('events/c.parquet', Buffer.from(parquet))
  await put('events/d.json', '[{"id":6},{"id":7}]')
  await put('other.csv', 'id\n9\n')
  const args = ['ingest', 'objects', 's3://archive/events/', '--endpoint', s3.endpoint, '-o', 'json']
  const ran = await spawnCli(args, { env })
  t.equal(ran.code, 0, ran.stderr)
  t.match(JSON.parse(ran.stdout), { records_count: 8, sources_count: 4 })
  t.same(await pulled('objects'), [
    '{"id":"0","text":"x"}',
    '{"id":"1","text":"y"}',
    '{"id":2,"n":12345678901234567890}',
    '{"id":3}',
    '{"id":4,"big":9007199254740993}',
    '{"id":5,"big":null}',
    '{"id":6}',
    '{"id":7}',
  ])
  t.match(await spawnCli(args, { env }), { code: 6, stderr: /all 4 files were sent/ })
  await put('events/e.csv', 'id\n8\n')
  const more = await spawnCli(args, { env })
  t.match(JSON.parse(more.stdout), { records_count: 1, sources_sent_before: 4 })
  t.match(
    await spawnCli(['ingest', 'objects', 's3://archive/none.csv', '--endpoint', s3.endpoint], { env }),
    { code: 3 },
  )
  const keyless = await spawnCli(args, { env: { ...cliEnv(daemon, home), AWS_PROFILE: 'none' } })
  t.match(keyless, { code: 4, stderr: /there are no credentials/ })
})

t.test('rejected and malformed rows are named by file and line, counted, and set aside as CSV', async (t) => {
  await pipeWithPull('aside')
  const file = path.join(home, 'aside.csv')
  const aside = path.join(home, 'rejected.csv')
  const long = 'x'.repeat(10 * 1024 * 1024)
  writeFileSync(file, `id,text\n0,a\n1,b,c\n2,${long}\n3,d\n`)
  const stopped = await runCli(['ingest', 'aside', file], { env })
  t.match(stopped, { code: 1, stderr: /aside\.csv, line 3: it has 3 values, and the header 2/ })
  const skipped = await runCli(
    ['ingest', 'aside', file, '--on-error', 'skip', '--skip-invalid', aside, '-o', 'json'],
    { env },
  )
  t.equal(skipped.code, 0, skipped.stderr)
  t.match(JSON.parse(skipped.stdout), { records_count: 1, skipped_count: 2, resumed_after_records: 1 })
  t.match(skipped.stderr, /aside\.csv, line 4: /)
  t.equal(readFileSync(aside, 'utf8'), `id,text\n1,b,c\n2,${long}\n`)
  t.same(await pulled('aside'), ['{"id":"0","text":"a"}', '{"id":"3","text":"d"}'])
})

/** Runs `pipectl` with a small heap. Resolves with its end and its largest resident size in MiB. */
async function inLittleMemory(args: readonly string[], input: Iterable<Buffer> = []) {
  const child = spawn(process.execPath, ['--max-old-space-size=128', binary, ...args], { env: cleanEnv(env) })
  let peakMiB = 0
  const measuring = setInterval(() => {
    if (child.exitCode !== null) return
    const status = readFileSync(`/proc/${child.pid}/status`, 'utf8')
    peakMiB = Math.max(peakMiB, Number(/VmHWM:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1024)
  }, 20)
  const end = finished(child)
  // It stops reading when it ends.
  await pipeline(Readable.from(input), child.stdin).catch(() => {})
  const ended = await end
  clearInterval(measuring)
  return { ...ended, peakMiB }
}

t.test('input without an end is a clear error in little memory', async (t) => {
  await pipeWithPull('hostile')
  const chunk = Buffer.alloc(1024 * 1024, 'y')
  const endless = async (start: string, format: string, message: RegExp) => {
    const input = (function* () {
      yield Buffer.from(start)
      for (let sent = 0; sent < 10_000; sent += 1) yield chunk
    })()
    const ran = await inLittleMemory(['ingest', 'hostile', '--format', format], input)
    t.equal(ran.code, 1, ran.stderr)
    t.match(ran.stderr, message)
    t.ok(ran.peakMiB < 400, `${ran.peakMiB} MiB`)
  }
  await endless('a,b\n1,', 'csv', /stdin, line 2: the row does not end within 16 MiB/)
  await endless('a,b\n1,"', 'csv', /stdin, line 2: the row does not end within 16 MiB/)
  await endless('{"a":"', 'ndjson', /line 1.*(longer than 16 MiB|does not end within 16 MiB)/)
})

t.test('a gzip bomb, a JSON array that is nested 100,000 deep', async (t) => {
  await pipeWithPull('bombs')
  const bomb = path.join(home, 'bomb.csv.gz')
  const zeros = gzipSync(Buffer.alloc(64 * 1024 * 1024, '0'))
  const fd = openSync(bomb, 'w')
  writeSync(fd, gzipSync('a,b\n1,2\n3,'))
  for (let part = 0; part < 160; part += 1) writeSync(fd, zeros)
  closeSync(fd)
  const ran = await inLittleMemory(['ingest', 'bombs', bomb])
  t.match(ran, { code: 1, stderr: /bomb\.csv\.gz, line 3: the row does not end within 16 MiB/ })
  t.ok(ran.peakMiB < 400, `${ran.peakMiB} MiB`)
  rmSync(bomb)
  const deep = `${'['.repeat(100_000)}${']'.repeat(100_000)}`
  t.match(await spawnCli(['ingest', 'bombs'], { env, input: deep }), {
    code: 1,
    stderr: /an element that is not an object/,
  })
  const inside = await spawnCli(['ingest', 'bombs', '--on-error', 'skip'], {
    env,
    input: `[{"a":1},{"x":${deep}}]`,
  })
  t.match(inside, { code: 0, stderr: /1 record accepted[\s\S]*1 line skipped/ })
  const cut = path.join(home, 'cut.csv.gz')
  writeFileSync(cut, gzipSync(`a,b\n${'1,2\n'.repeat(50_000)}`).subarray(0, 100))
  t.match(await spawnCli(['ingest', 'bombs', cut], { env }), {
    code: 1,
    stderr: /the gzip data ends too early/,
  })
})

t.test('an interrupt ends a run that waits for live input', async (t) => {
  const pipeId = await pipeWithPull('live')
  const child = spawn(process.execPath, [binary, 'ingest', 'live'], { env: cleanEnv(env) })
  const end = finished(child, 30_000)
  child.stdin.write('{"id":1}\n')
  await until('it is accepted', async () => (await acceptedRecords(pipeId)) === 1, { everyMs: 20 })
  child.kill('SIGINT')
  t.match(await end, { code: 130, stderr: /interrupted after 1 records/ })
})
