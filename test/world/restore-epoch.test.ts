/**
 * A restored data directory goes on in an epoch of its own: receivers that have seen what came after the backup never get
 * other content under an identity they know, and consumers are told where to go on.
 */
import { createHash } from 'node:crypto'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import t from 'tap'
import { cliEnv, runCli } from '../support/cli.ts'
import { startDaemon, type TestDaemon } from '../support/daemon.ts'
import { startHttpSink } from '../support/http-sink.ts'
import { until } from '../support/until.ts'
import { httpDestination } from './sender.ts'

const folder = mkdtempSync(path.join(os.tmpdir(), 'pipectl-restore-'))
t.teardown(() => rmSync(folder, { recursive: true, force: true }))
const env = { HOME: folder, PATH: process.env.PATH ?? '' }

interface Pulled {
  status: number
  stream_seq: number
  records: { n: number }[]
  earliest_seq: number
  reason: string
  message: string
}

/**
 * The consumer's cursor file for the restored daemon, which listens elsewhere here, as if the consumer had been killed
 * before its last request: the daemon does not know how far it is.
 */
function moveCursorFile(home: string, url: string, destinationId: string): void {
  for (const name of readdirSync(home, { recursive: true, encoding: 'utf8' })) {
    if (!/\bpull\/[0-9a-f]{32}\.json$/.test(name)) continue
    const cursor = JSON.parse(readFileSync(path.join(home, name), 'utf8'))
    const moved = createHash('sha256').update(`${url} ${destinationId}`).digest('hex').slice(0, 32)
    const file = path.join(home, path.dirname(name), `${moved}.json`)
    writeFileSync(file, JSON.stringify({ ...cursor, toldSeq: 0 }))
  }
}

t.test('restored from a backup: nothing new wears an old identity', async (t) => {
  const sink = await startHttpSink()
  t.teardown(() => sink.stop())
  const first = await startDaemon()
  t.teardown(() => first.close())
  const pipeId = await first.createPipe({ pipe_name: 'events', pipe_add_ingest_ts: false })
  const laneId = await first.createDestination(pipeId, httpDestination(sink.url))
  const pullId = await first.createDestination(pipeId, {
    destination_type: 'destination_pull',
    destination_config: {},
  })
  const send = async (daemon: TestDaemon, from: number) => {
    for (let n = from; n < from + 10; n += 1) await daemon.ingest(pipeId, { n })
    await until('delivered', async () => (await daemon.lane(pipeId, laneId)).lane_state === 'idle')
  }
  const pull = async (daemon: TestDaemon, afterSeq: number): Promise<Pulled> => {
    const { status, body } = await daemon.api<Pulled>(
      'GET',
      `/v1/pull/${pullId}?wait_ms=0&after_seq=${afterSeq}`,
    )
    return { ...body, status }
  }

  await send(first, 0)
  const file = path.join(folder, 'backup.tar.gz')
  const made = await runCli(['backup', file, '--data-dir', first.dataDir, '--include-key'], { env })
  t.equal(made.code, 0, made.stderr)
  const headAtBackup = Number((await first.lane(pipeId, laneId)).head_seq)
  await send(first, 100)
  const headLost = Number((await first.lane(pipeId, laneId)).head_seq)
  const drain = (daemon: TestDaemon, ...flags: string[]) =>
    runCli(['pull', 'events/pull', ...flags], { env: cliEnv(daemon, folder) })
  t.equal((await drain(first)).code, 0, 'the consumer has all of it')
  t.equal(await first.stop(), 0)

  const dataDir = path.join(folder, 'restored')
  const restored = await runCli(['restore', file, '--data-dir', dataDir], { env })
  t.equal(restored.code, 0, restored.stderr)
  const second = await startDaemon({ dataDir })
  t.teardown(() => second.close())
  second.apiKey = first.apiKey
  t.notOk(
    second.log.some(({ msg }) => /missing|behind_lanes/.test(msg)),
    'the backup is whole',
  )
  await send(second, 200)

  const contents = new Map<string, Set<string>>()
  for (const { headers, text } of sink.deliveries) {
    const id = String(headers['webhook-id'])
    contents.set(id, (contents.get(id) ?? new Set()).add(text))
  }
  for (const [id, texts] of contents) t.equal(texts.size, 1, `${id} stands for one content`)
  const numbers = sink.deliveries.flatMap(({ text }) =>
    text
      .trim()
      .split('\n')
      .map((line) => (JSON.parse(line) as { n: number }).n),
  )
  for (let n = 200; n < 210; n += 1) t.ok(numbers.includes(n), `${n} is delivered`)

  moveCursorFile(folder, second.url, pullId)
  const refused = await drain(second)
  t.not(refused.code, 0)
  t.match(refused.stderr, /backup was restored.*--accept-gap/s)
  const accepted = await drain(second, '--accept-gap')
  t.equal(accepted.code, 0, accepted.stderr)
  t.match(accepted.stderr, /restored from a backup older than/)
  const pulled = accepted.stdout.trim().split('\n')
  t.same(
    pulled.map((line) => (JSON.parse(line) as { n: number }).n),
    Array.from({ length: 10 }, (_, index) => 200 + index),
  )

  t.ok(headLost > headAtBackup)
  const expired = await pull(second, headLost)
  t.match(expired, { status: 410, reason: 'restored' })
  t.match(expired.message, /backup was restored.*after_seq=/)
  t.match(
    await pull(second, expired.earliest_seq - 1),
    { status: 200, records: [{ n: 200 }] },
    'where to go on',
  )
  t.match(
    await pull(second, headAtBackup),
    { status: 200, records: [{ n: 200 }] },
    'a cursor of the backup holds',
  )
  t.equal((await pull(second, headAtBackup - 1)).stream_seq, headAtBackup, 'and reads what the backup holds')
  t.equal(await second.stop(), 0)

  await second.start()
  await send(second, 300)
  t.equal(await second.stop(), 0, 'it starts again in the same epoch')
})
