/** `pipectl verify` finds every kind of damage, names the file, and has nothing to say about a sound directory. */
import { mkdirSync, renameSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import t, { type Test } from 'tap'
import { byteProgressLine } from '../../src/apps/cli/progress.ts'
import type { VerifyReport } from '../../src/maintenance/verify.ts'
import { homeEnv, makeHome, removeHome, runCli } from '../support/cli.ts'
import { startDaemon } from '../support/daemon.ts'
import { startProducer } from '../support/ledger.ts'
import { changeLanes, damageLanes } from '../support/stored-lanes.ts'
import { until } from '../support/until.ts'
import { type Copy, copyOf, makeBase } from './damaged-directory.ts'
import { flipBit, flipBitOfRecord, garbage, leafPage, overwrite, zeroPage } from './damaging.ts'

const home = makeHome()
t.teardown(() => removeHome(home))
const base = await makeBase(t)

async function verify(dataDir: string, ...more: string[]) {
  const format = more.length > 0 ? more : ['-o', 'json']
  const { code, stdout, stderr } = await runCli(['verify', '--data-dir', dataDir, ...format], {
    env: homeEnv(home),
  })
  return { code, stdout, stderr, report: more.length > 0 ? null : (JSON.parse(stdout) as VerifyReport) }
}

t.test('a sound directory', async (t) => {
  for (const from of ['stopped', 'killed'] as const) {
    const { dataDir, segments } = copyOf(t, base, from)
    const { code, report, stderr } = await verify(dataDir)
    t.equal(code, 0, `${from}: ${stderr} ${JSON.stringify(report)}`)
    t.match(report, { is_daemon_running: false, missing: [], totals: { problems: 0 } })
    t.equal(report?.totals.segments, segments.length)
    t.ok((report?.totals.messages ?? 0) > base.accepted, 'with those of the other pipe')
  }
  const { dataDir } = copyOf(t, base, 'stopped')
  const table = await verify(dataDir, '-o', 'table')
  t.match(table.stdout, /FILE +RESULT +DETAIL/)
  t.match(table.stdout, /(\d+) of \1 segments +ok/)
  t.match((await verify(dataDir, '--json')).stdout, /^\{"data_dir"/)
})

t.test('beside a daemon that is writing, sealing and dropping', async (t) => {
  const daemon = await startDaemon({
    env: {
      PIPECTL_BUFFER_SEGMENT_MAX_BYTES: '65536',
      PIPECTL_BUFFER_DELIVERED_HOURS: '0',
      PIPECTL_BUFFER_DELIVERED_MAX_BYTES: '0',
    },
  })
  t.teardown(() => daemon.close())
  const pipeId = await daemon.createPipe({ pipe_name: 'busy' })
  const producer = startProducer(daemon, pipeId)
  await until('some is there', () => producer.messages.size > 300)
  for (const round of [1, 2, 3]) {
    const { code, report, stderr } = await verify(daemon.dataDir)
    t.equal(code, 0, `round ${round}: ${stderr} ${JSON.stringify(report)}`)
    t.equal(report?.is_daemon_running, true)
  }
  await producer.stop()
})

interface Finding {
  what: string
  damage(copy: Copy): void
  /** The damaged file, and the message about it. */
  file(copy: Copy): string
  says: RegExp
}

const segment = (copy: Copy, at: number) => `buffer/${path.basename(copy.segments.at(at)!.file)}`
const inSegment = (at: number) => (copy: Copy) => segment(copy, at)
const beside = (file: string) => () => file

const findings: Finding[] = [
  {
    what: 'a bit in a body',
    damage({ segments: [, , one] }) {
      flipBitOfRecord(one!.file, one!.numbers[3]!)
    },
    file: inSegment(2),
    says: /1 message changed since they were written: stream_seq \d+/,
  },
  {
    what: 'a page of zeros',
    damage: ({ segments: [, , one] }) => zeroPage(one!.file, leafPage(one!.file).page),
    file: inSegment(2),
    says: /structure is damaged|cannot be read/,
  },
  {
    what: 'a header of garbage',
    damage: ({ segments: [, , one] }) => overwrite(one!.file, 0, garbage(100)),
    file: inSegment(2),
    says: /cannot be read: file is not a database/,
  },
  {
    what: 'a file of nothing',
    damage: ({ segments: [, , one] }) => truncateSync(one!.file),
    file: inSegment(2),
    says: /cannot be read/,
  },
  {
    what: 'segments that have changed places',
    damage({ buffer, segments: [, , one, other] }) {
      const between = path.join(buffer, 'between')
      renameSync(one!.file, between)
      renameSync(other!.file, one!.file)
      renameSync(between, other!.file)
    },
    file: inSegment(2),
    says: /under the name of another/,
  },
  {
    what: 'a damaged mark',
    damage: ({ buffer }) => flipBit(path.join(buffer, 'high-water'), 4),
    file: beside('buffer/high-water'),
    says: /damaged/,
  },
  {
    what: 'a damaged look-up of keys',
    damage: ({ buffer }) => overwrite(path.join(buffer, 'idempotency.db'), 4096, garbage(4096)),
    file: beside('buffer/idempotency.db'),
    says: /structure is damaged|cannot be read/,
  },
  {
    what: 'damaged metadata',
    damage: ({ dataDir }) => zeroPage(path.join(dataDir, 'metadata.db'), 3),
    file: beside('metadata.db'),
    says: /structure is damaged|cannot be read/,
  },
  {
    what: 'a cursor that somebody moved',
    damage: ({ dataDir }) =>
      damageLanes(path.join(dataDir, 'metadata.db'), ({ cursorSeq }) => ({ cursorSeq: cursorSeq + 1 })),
    file: beside('metadata.db'),
    says: /changed since it was written/,
  },
  {
    what: 'a lane ahead of the log',
    damage: ({ dataDir }) => changeLanes(path.join(dataDir, 'metadata.db'), { cursorSeq: 1_000_000 }),
    file: beside('metadata.db'),
    says: /is at stream_seq 1000000, the log ends at \d+/,
  },
]

for (const { what, damage, file, says } of findings) {
  t.test(what, async (t) => {
    const copy = copyOf(t, base, 'stopped')
    damage(copy)
    const { code, report, stderr } = await verify(copy.dataDir)
    t.equal(code, 1)
    t.match(stderr, /\d+ problems? in /)
    const found = report?.files.find((one) => one.file === file(copy))
    t.equal(found?.result, 'damaged')
    t.match(found?.problems.join('; '), says)
    t.ok(
      report?.files.some((one) => one.result === 'ok'),
      'the others are sound',
    )
  })
}

t.test('segments that are gone are missing, each with its range', async (t) => {
  const copy = copyOf(t, base, 'stopped')
  const range = (at: number) => [copy.segments[at]!.firstSeq, copy.segments[at + 1]!.firstSeq - 1] as const
  for (const at of [3, 6]) rmSync(copy.segments[at]!.file)
  const { code, report } = await verify(copy.dataDir)
  t.equal(code, 1)
  t.same(
    report?.missing,
    [range(3), range(6)].map(([first_stream_seq, last_stream_seq]) => ({
      first_stream_seq,
      last_stream_seq,
    })),
  )
  t.match((await verify(copy.dataDir, '-o', 'table')).stdout, /missing +stream_seq \d+ to \d+/)
})

t.test('the end of the log is gone', async (t) => {
  const { dataDir, segments } = copyOf(t, base, 'stopped')
  rmSync(segments.at(-1)!.file)
  const { code, report } = await verify(dataDir)
  t.equal(code, 1)
  t.equal(report?.missing.at(-1)?.first_stream_seq, segments.at(-1)!.firstSeq)
})

t.test('a directory that is none', async (t: Test) => {
  const { code, stderr } = await verify(home, '-o', 'json')
  t.equal(code, 3)
  t.match(stderr, /is not a data directory of pipectl/)
})

t.test('doctor sees at a glance what cannot be opened and what is missing', async (t) => {
  const doctor = async (dataDir: string) => {
    const { code, stdout } = await runCli(['doctor', '--data-dir', dataDir, '-o', 'json'], {
      env: { ...homeEnv(home), PIPECTL_LISTEN: '127.0.0.1:0', PIPECTL_METRICS_LISTEN: 'off' },
    })
    const { checks } = JSON.parse(stdout) as {
      checks: Record<'name' | 'result' | 'detail' | 'next', string>[]
    }
    return { code, check: (name: string) => checks.find((one) => one.name === name) }
  }
  const sound = await doctor(copyOf(t, base, 'killed').dataDir)
  for (const name of ['buffer', 'lanes', 'ballast', 'quarantine'])
    t.match(sound.check(name), { result: 'ok' })

  const { dataDir, segments } = copyOf(t, base, 'stopped')
  overwrite(segments[2]!.file, 0, garbage(100))
  rmSync(segments[5]!.file)
  mkdirSync(path.join(dataDir, 'quarantine'))
  writeFileSync(path.join(dataDir, 'quarantine', 'one.body'), 'x')
  const damaged = await doctor(dataDir)
  t.equal(damaged.code, 1)
  t.match(damaged.check('buffer'), {
    result: 'fail',
    detail: new RegExp(
      `${path.basename(segments[2]!.file)} cannot be read.*stream_seq ${segments[5]!.firstSeq} to`,
    ),
    next: /pipectl verify/,
  })
  t.match(damaged.check('quarantine'), { result: 'warn', detail: /^1 file, 1 B/ })
  changeLanes(path.join(dataDir, 'metadata.db'), { cursorSeq: 1_000_000 })
  t.match((await doctor(dataDir)).check('lanes'), { result: 'fail', detail: /ends at/ })
})

t.test('the progress line', async (t) => {
  t.equal(
    byteProgressLine(512 * 1024, 1024 * 1024, 1),
    '████████████░░░░░░░░░░░░ 50%  512.0 KiB of 1.0 MiB  512.0 KiB/s  1s left',
  )
})
