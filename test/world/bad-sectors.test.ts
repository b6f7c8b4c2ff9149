/**
 * One sector of one file of the data directory cannot be read (EIO): the daemon starts, serves, loses what is on the sector
 * and nothing else, and says so. Only the metadata and the sealing key stop it. `verify` finishes its report.
 */
import { readdirSync, rmSync, statSync } from 'node:fs'
import path from 'node:path'
import t, { type Test } from 'tap'
import { runCli } from '../support/cli.ts'
import { faultyDisk } from '../support/faults/library.ts'
import { type Copy, copyOf, type Expected, goesOn, makeBase, refusesToStart } from './damaged-directory.ts'
import { leafPage, pageBytes } from './damaging.ts'

const base = await makeBase(t)

interface Damaged extends Copy {
  env: Record<string, string>
}

/** `page`: counted from 1. */
function withBadSector(
  t: Test,
  from: 'stopped' | 'killed',
  of: (copy: Copy) => { file: string; page: number },
): Damaged {
  const copy = copyOf(t, base, from)
  const { file, page } = of(copy)
  const disk = faultyDisk(copy.dataDir, path.join(path.dirname(copy.dataDir), 'faults'))
  disk.setBadSectors([{ file, offset: (page - 1) * pageBytes, bytes: pageBytes }])
  return { ...copy, env: disk.env }
}

const segments: [string, number][] = [
  ['the oldest segment', 0],
  ['a segment in the middle', 5],
  ['the newest segment', -1],
]
const salvaged = ['buffer.segment_damaged', 'buffer.segment_salvaged']
for (const [which, at] of segments) {
  t.test(`page 1 of ${which}`, async (t) => {
    const { dataDir, env } = withBadSector(t, 'stopped', ({ segments }) => ({
      file: segments.at(at)!.file,
      page: 1,
    }))
    await goesOn(t, base, dataDir, { told: salvaged, env })
  })

  t.test(`page 1 of ${which}, and the look-up of keys is lost`, async (t) => {
    const { dataDir, buffer, env } = withBadSector(t, 'stopped', ({ segments }) => ({
      file: segments.at(at)!.file,
      page: 1,
    }))
    for (const suffix of ['', '-wal', '-shm'])
      rmSync(path.join(buffer, `idempotency.db${suffix}`), { force: true })
    await goesOn(t, base, dataDir, { told: salvaged, env })
  })

  t.test(`a page with messages of ${which}`, async (t) => {
    const copied = withBadSector(t, 'stopped', ({ segments }) => {
      const { file } = segments.at(at)!
      return { file, page: leafPage(file).page }
    })
    const { numbers } = leafPage(copied.segments.at(at)!.file)
    await goesOn(t, base, copied.dataDir, { told: salvaged, env: copied.env, mayLose: numbers })
  })
}

const end: Omit<Expected, 'told' | 'env'> = { mayRepeat: true, isEndLost: true }
for (const page of [1, 3]) {
  t.test(`sector ${page} of the WAL of the newest segment`, async (t) => {
    const { dataDir, segments, env } = withBadSector(t, 'killed', ({ segments }) => ({
      file: `${segments.at(-1)!.file}-wal`,
      page,
    }))
    await goesOn(t, base, dataDir, { told: [], env, mayLose: segments.at(-1)!.numbers, ...end })
  })
}

/** Every other file of the buffer: what is in it can be made again. */
const derived = readdirSync(path.join(base.killed, 'buffer')).filter(
  (file) =>
    !/^\d{20}\.db(-wal|-shm)?$/.test(file) && statSync(path.join(base.killed, 'buffer', file)).size > 0,
)
t.ok(derived.includes('high-water') && derived.includes('idempotency.db'))
for (const name of derived) {
  for (const page of [1, 2]) {
    if (statSync(path.join(base.killed, 'buffer', name)).size <= (page - 1) * pageBytes) continue
    t.test(`page ${page} of buffer/${name}`, async (t) => {
      const { dataDir, env } = withBadSector(t, 'killed', ({ buffer }) => ({
        file: path.join(buffer, name),
        page,
      }))
      const told = name === 'high-water' ? ['buffer.high_water_rebuilt'] : []
      await goesOn(t, base, dataDir, { told, env })
    })
  }
}

/** Every file beside the buffer, page 1 and one more: a file that is added gets a line here. */
const stops = new Map([
  ['metadata.db', [/metadata\.db/, /restore/]],
  ['metadata.db-wal', [/metadata\.db/, /restore/]],
  ['sealing.key', [/sealing\.key cannot be read \(EIO\)/]],
])
const goOn = new Set(['daemon.lock', 'metadata.db-shm', 'running'])
for (const name of readdirSync(base.killed)) {
  const { size } = statSync(path.join(base.killed, name))
  if (name === 'buffer' || size === 0) continue
  t.ok(stops.has(name) || goOn.has(name), `${name} is expected`)
  for (const page of [1, 2]) {
    if (size <= (page - 1) * pageBytes) continue
    const says = stops.get(name)
    const rest = says === undefined ? 'the daemon goes on' : 'the daemon does not start, and says why'
    t.test(`page ${page} of ${name}: ${rest}`, async (t) => {
      const { dataDir, env } = withBadSector(t, 'killed', ({ dataDir }) => ({
        file: path.join(dataDir, name),
        page,
      }))
      if (says === undefined) await goesOn(t, base, dataDir, { told: [], env })
      else await refusesToStart(t, dataDir, 78, says, env)
    })
  }
}

for (const [which, of] of [
  ['page 1 of a segment', ({ segments }: Copy) => ({ file: segments.at(5)!.file, page: 1 })],
  [
    'a page with messages',
    ({ segments }: Copy) => ({ file: segments.at(5)!.file, page: leafPage(segments.at(5)!.file).page }),
  ],
  ['the look-up of keys', ({ buffer }: Copy) => ({ file: path.join(buffer, 'idempotency.db'), page: 1 })],
  ['the mark', ({ buffer }: Copy) => ({ file: path.join(buffer, 'high-water'), page: 1 })],
] as const) {
  t.test(`verify and repair: ${which}`, async (t) => {
    const { dataDir, env, segments } = withBadSector(t, 'stopped', of)
    const verified = await runCli(['verify', '--data-dir', dataDir, '--json'], { env })
    t.equal(verified.code, 1, verified.stderr)
    const report = JSON.parse(verified.stdout) as { files: { file: string; result: string }[] }
    t.equal(report.files.filter(({ result }) => result === 'damaged').length, 1, 'one file is damaged')
    t.equal(report.files.length, 3 + segments.length, 'every file is in the report')
    const repaired = await runCli(['repair', '--data-dir', dataDir, '--yes', '--json'], { env })
    t.equal(repaired.code, 0, repaired.stderr)
    // The files that were made again are on other sectors.
    t.equal((await runCli(['verify', '--data-dir', dataDir])).code, 0)
  })
}
