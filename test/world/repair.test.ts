/**
 * `pipectl repair`: everything that can be read is kept, nothing is deleted, what it said is what was lost, and verify
 * has nothing to say afterwards. A daemon that starts on it delivers the rest.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs'
import path from 'node:path'
import t, { type Test } from 'tap'
import type { RepairReport } from '../../src/maintenance/repair.ts'
import type { VerifyReport } from '../../src/maintenance/verify.ts'
import { homeEnv, makeHome, removeHome, runCli } from '../support/cli.ts'
import { TestDaemon } from '../support/daemon.ts'
import { type Copy, copyOf, goesOn, makeBase } from './damaged-directory.ts'
import {
  cut,
  flipBit,
  flipBitOfRecord,
  garbage,
  garbleAfterHeader,
  leafPage,
  overwrite,
  zeroPage,
} from './damaging.ts'

const home = makeHome()
t.teardown(() => removeHome(home))
const base = await makeBase(t)

const run = (command: string, dataDir: string, ...more: string[]) =>
  runCli([command, '--data-dir', dataDir, '-o', 'json', ...more], { env: homeEnv(home) })

async function repaired(t: Test, dataDir: string): Promise<RepairReport> {
  const { code, stdout, stderr } = await run('repair', dataDir, '--yes')
  t.equal(code, 0, stderr)
  const after = await run('verify', dataDir)
  const { files, missing } = JSON.parse(after.stdout) as VerifyReport
  const found = JSON.stringify([files.filter((one) => one.result !== 'ok'), missing])
  t.equal(after.code, 0, `verify has nothing to say: ${found}`)
  return JSON.parse(stdout)
}

const inQuarantine = (dataDir: string) => readdirSync(path.join(dataDir, 'quarantine', 'segments'))

interface Case {
  what: string
  /** Damages it; returns the numbers that may be lost. */
  damage(copy: Copy): number[]
  lost(numbers: number[]): number
  action: RepairReport['actions'][number]['action']
}

const cases: Case[] = [
  {
    what: 'a bit in a body of a sealed segment',
    damage({ segments: [, , one] }) {
      flipBitOfRecord(one!.file, one!.numbers[3]!)
      return [one!.numbers[3]!]
    },
    lost: () => 1,
    action: 'salvage',
  },
  {
    what: 'a bit in a body of the newest segment',
    damage({ segments }) {
      const { file, numbers } = segments.at(-1)!
      flipBitOfRecord(file, numbers[3]!)
      return [numbers[3]!]
    },
    lost: () => 1,
    action: 'salvage',
  },
  {
    what: 'a page of zeros',
    damage({ segments: [, , one] }) {
      const { page, numbers } = leafPage(one!.file)
      zeroPage(one!.file, page)
      return numbers
    },
    lost: (numbers) => numbers.length,
    action: 'salvage',
  },
  {
    what: 'a header of garbage',
    damage({ segments: [, , one] }) {
      overwrite(one!.file, 0, garbage(100))
      return []
    },
    lost: () => 0,
    action: 'salvage',
  },
  {
    what: 'a segment of which nothing is left',
    damage({ segments: [, , one] }) {
      cut(one!.file, 0)
      return one!.numbers
    },
    lost: (numbers) => numbers.length,
    action: 'set_aside',
  },
]

for (const { what, damage, lost, action } of cases) {
  t.test(what, async (t) => {
    const copy = copyOf(t, base, 'stopped')
    const { dataDir } = copy
    const numbers = damage(copy)
    const { actions, is_dry_run } = await repaired(t, dataDir)
    t.equal(is_dry_run, false)
    const of = actions.find((one) => one.action === action)
    t.ok(of, JSON.stringify(actions))
    if (action === 'salvage') t.ok((of?.kept_messages ?? 0) > 0)
    t.ok(inQuarantine(dataDir).length > 0, 'the damaged file is kept')
    await goesOn(t, base, dataDir, { told: [], mayLose: numbers, dropped: lost(numbers) })
  })
}

t.test(
  'segments under the name of another are set aside, and their messages are written down as lost',
  async (t) => {
    const { dataDir, buffer, segments } = copyOf(t, base, 'stopped')
    const [one, newest] = [segments[3]!, segments.at(-1)!]
    const between = path.join(buffer, 'between')
    renameSync(one.file, between)
    renameSync(newest.file, one.file)
    renameSync(between, newest.file)
    const name = (file: string) => `buffer/${path.basename(file)}`
    const dry = JSON.parse((await run('repair', dataDir, '--dry-run')).stdout) as RepairReport
    const { actions } = await repaired(t, dataDir)
    const shown = (all: RepairReport['actions']) =>
      all.flatMap(({ action, file }) => (action === 'set_aside' ? [file] : []))
    t.same(shown(dry.actions), [name(one.file), name(newest.file)])
    t.same(shown(actions).sort(), [name(one.file), name(newest.file)])
    t.ok(actions.some(({ action }) => action === 'note_loss'))
    t.same(inQuarantine(dataDir).sort(), [one.file, newest.file].map((file) => path.basename(file)).sort())
    const numbers = [...one.numbers, ...newest.numbers]
    await goesOn(t, base, dataDir, { told: [], mayLose: numbers, dropped: numbers.length, isEndLost: true })
  },
)

t.test('a segment that is gone is written down; verify speaks of the next one only', async (t) => {
  const { dataDir, segments } = copyOf(t, base, 'stopped')
  rmSync(segments[4]!.file)
  const { actions } = await repaired(t, dataDir)
  t.match(actions, [{ action: 'note_loss', detail: new RegExp(`stream_seq ${segments[4]!.firstSeq} to `) }])
  rmSync(segments[7]!.file)
  const { missing, known_losses: known } = JSON.parse((await run('verify', dataDir)).stdout) as VerifyReport
  t.match(missing, [{ first_stream_seq: segments[7]!.firstSeq }])
  t.match(known.ranges, [{ first_stream_seq: segments[4]!.firstSeq }])
  t.equal(missing.length, 1)
})

t.test('the mark and the look-up of keys are made again', async (t) => {
  const { dataDir, buffer } = copyOf(t, base, 'stopped')
  const [mark, keys] = [path.join(buffer, 'high-water'), path.join(buffer, 'idempotency.db')]
  flipBit(mark, 10)
  garbleAfterHeader(keys)
  const damaged = readFileSync(keys)
  const { actions } = await repaired(t, dataDir)
  t.same(
    actions.map(({ action, file }) => [action, file]),
    [
      ['rebuild', 'buffer/high-water'],
      ['rebuild', 'buffer/idempotency.db'],
    ],
  )
  const kept = readdirSync(path.join(dataDir, 'quarantine')).find((one) => one.startsWith('idempotency.db.'))
  t.same(readFileSync(path.join(dataDir, 'quarantine', kept ?? '')), damaged)
  await goesOn(t, base, dataDir, { told: [] })
})

t.test('without damage there is nothing to do, and a dry run changes nothing', async (t) => {
  const sound = copyOf(t, base, 'stopped')
  const nothing = await run('repair', sound.dataDir, '--yes', '-o', 'table')
  t.match(nothing, { code: 0, stdout: 'Nothing to repair.\n' })

  const { dataDir, segments } = copyOf(t, base, 'stopped')
  overwrite(segments[2]!.file, 0, garbage(100))
  const before = readFileSync(segments[2]!.file)
  const { code, stdout } = await run('repair', dataDir, '--dry-run')
  t.equal(code, 0)
  t.match(JSON.parse(stdout), { is_dry_run: true, actions: [{ action: 'salvage', kept_messages: null }] })
  t.same(readFileSync(segments[2]!.file), before)
  t.notOk(existsSync(path.join(dataDir, 'quarantine')))
  const unasked = await run('repair', dataDir)
  t.equal(unasked.code, 2, 'nobody can be asked')
  t.match(unasked.stderr, /--yes/)
})

t.test('it refuses beside a running daemon, without metadata, and what is no data directory', async (t) => {
  const { dataDir } = copyOf(t, base, 'stopped')
  const daemon = new TestDaemon({ dataDir })
  t.teardown(() => daemon.close())
  await daemon.start()
  const beside = await run('repair', dataDir, '--dry-run')
  t.equal(beside.code, 75)
  t.match(beside.stderr, /in use by another pipectl daemon/)

  const other = copyOf(t, base, 'stopped')
  zeroPage(path.join(other.dataDir, 'metadata.db'), 2)
  const damaged = await run('repair', other.dataDir, '--yes')
  t.equal(damaged.code, 1)
  t.match(damaged.stderr, /metadata\.db .*\n.*restore a backup/)

  const none = path.join(home, 'none')
  mkdirSync(none)
  t.equal((await run('repair', none, '--yes')).code, 3)
  t.same(readdirSync(none), [])
})
