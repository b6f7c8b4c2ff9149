/** Recorded changes of a metadata file with kill -9 of the writer and of the replica, and copies while a lane saves. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { createInterface } from 'node:readline'
import Database from 'better-sqlite3'
import t, { type Test } from 'tap'
import { applyRowChanges } from '../../../src/metadata/sqlite/apply-row-changes.ts'
import { recordRowChanges } from '../../../src/metadata/sqlite/row-change-triggers.ts'
import { openRowChanges } from '../../../src/metadata/sqlite/row-changes.ts'
import { childFlags } from '../../support/child-flags.ts'
import { seeded } from '../../support/faults/random.ts'
import { scaled, seed } from '../../support/scale.ts'
import { contentOfFile, differing, sameTables } from './compared-tables.ts'
import { newPipe, newWorkspace, openFile, pullDestination, type TestFile, testFile } from './fixture.ts'

/** A recorded file that no process has open. */
async function recordedFile(t: Test) {
  const options = testFile(t)
  const metadata = await openFile(options)
  const workspaceId = await newWorkspace(metadata, 'default')
  const { pipe_id: pipeId } = await newPipe(metadata, workspaceId, 'events')
  const given = pullDestination()
  const { destination_id: destinationId } = await metadata.destinations.create({ workspaceId, pipeId }, given)
  await metadata.close()
  withDatabase(options.file, (db) => recordRowChanges(db))
  return { options, pipeId, destinationId }
}

function withDatabase<T>(file: string, run: (db: Database.Database) => T): T {
  const db = new Database(file)
  try {
    return run(db)
  } finally {
    db.close()
  }
}

const laneChild = new URL('./lane-child.ts', import.meta.url).pathname
const changesChild = new URL('./row-changes-child.ts', import.meta.url).pathname

function start(script: string, ...args: string[]): ChildProcess {
  return spawn(process.execPath, [...childFlags, script, ...args], { stdio: ['ignore', 'pipe', 'inherit'] })
}

/** Resolves when the child has printed this many lines. The lines after them are read and ignored. */
function printed(child: ChildProcess, count: number): Promise<string> {
  return new Promise((resolve, reject) => {
    let left = count
    createInterface(child.stdout!)
      .on('line', (line) => {
        left -= 1
        if (left === 0) resolve(line)
      })
      .on('close', () => reject(new Error('the child ended by itself')))
  })
}

async function kill(child: ChildProcess): Promise<void> {
  const exited = once(child, 'exit')
  child.kill('SIGKILL')
  await exited
}

function applySlots(copyFile: string, slots: string): number {
  const names = readdirSync(slots).filter((name) => !name.endsWith('.tmp'))
  withDatabase(copyFile, (copy) => {
    copy.pragma('synchronous = OFF')
    for (const name of names.sort()) applyRowChanges(copy, readFileSync(path.join(slots, name)))
  })
  return names.length
}

/** Applies everything that is left. */
function drain(file: string, copyFile: string): void {
  const changes = openRowChanges(file)
  try {
    for (let taken = changes.take(100_000); taken !== null; taken = changes.take(100_000)) {
      withDatabase(copyFile, (copy) => applyRowChanges(copy, taken!.rows))
      changes.release(taken.through)
    }
  } finally {
    changes.close()
  }
}

t.test('kill -9 at random moments: slots and what is left make the copy equal', async (t) => {
  const random = seeded(seed)
  const { options } = await recordedFile(t)
  const { file } = options
  const slots = path.join(options.dir, 'slots')
  mkdirSync(slots)
  const copyFile = path.join(options.dir, 'copy.db')
  const changes = openRowChanges(file)
  await changes.copyTo(copyFile)
  changes.close()
  const steps = new Set<string>()
  for (let round = 0; round < scaled(4); round += 1) {
    const argsOf = (mode: string) => [mode, file, ...specOf(options), slots, String(random.below(1e9))]
    const writer = start(changesChild, ...argsOf('write'))
    const shipper = start(changesChild, ...argsOf('ship'))
    // Either dies first.
    const [first, second] = random.below(2) === 0 ? [writer, shipper] : [shipper, writer]
    const lines = { writer: 20 + random.below(60), shipper: 10 + random.below(60) }
    const seen = await Promise.all([printed(writer, lines.writer), printed(shipper, lines.shipper)])
    steps.add(seen[1])
    await kill(first)
    await kill(second)
  }
  const before = contentOfFile(file)
  const count = applySlots(copyFile, slots)
  t.ok(count > 10, `${count} slots, killed after ${[...steps].join(', ')}`)
  drain(file, copyFile)
  sameTables(t, copyFile, file, 'the copy is equal')
  t.strictSame(differing(before, contentOfFile(file)), [], 'taking changed no table')

  // Negative control: a change that is forgotten without a slot.
  withDatabase(file, (db) => {
    db.exec("INSERT INTO deleted_pipes VALUES ('id', 'workspace', 1)")
    db.exec('DELETE FROM row_changes')
  })
  drain(file, copyFile)
  t.strictSame(differing(contentOfFile(copyFile), contentOfFile(file)), ['deleted_pipes'])
})

function specOf({ spec, sealingKey }: TestFile): string[] {
  return [JSON.stringify(spec), sealingKey.toString('hex')]
}

t.test('a copy that is made while a lane saves is a state between two saves', async (t) => {
  const { options, pipeId, destinationId } = await recordedFile(t)
  const { file } = options
  // Large enough that a lane saves many times meanwhile.
  withDatabase(file, (db) => {
    db.exec('CREATE TABLE filler (id INTEGER PRIMARY KEY, body BLOB)')
    for (let id = 0; id < 300; id += 1) db.prepare('INSERT INTO filler VALUES (?, zeroblob(100000))').run(id)
    recordRowChanges(db)
  })
  const lane = start(laneChild, 'together', ...specOf(options), pipeId, destinationId)
  const changes = openRowChanges(file)
  t.teardown(() => changes.close())
  let reported = 0
  createInterface(lane.stdout!).on('line', (line) => {
    reported = Number(line)
  })
  let duringCopies = 0
  for (let n = 0; n < 3; n += 1) {
    while (reported < 5 * n + 1) await once(lane.stdout!, 'data')
    const atStart = reported
    const copyFile = path.join(options.dir, `copy-${n}.db`)
    await changes.copyTo(copyFile)
    const atEnd = withDatabase(file, savedIn).cursorSeq
    const { cursorSeq, ofLane, ofPipe } = withDatabase(copyFile, savedIn)
    t.ok(cursorSeq >= atStart, `saves that were reported before are in it: ${cursorSeq} and ${atStart}`)
    t.strictSame([ofLane, ofPipe], [cursorSeq, cursorSeq], 'the counts are of the same save')
    duringCopies += atEnd - cursorSeq
    withDatabase(copyFile, (copy) =>
      t.strictSame(copy.pragma('integrity_check'), [{ integrity_check: 'ok' }]),
    )
  }
  t.ok(duringCopies > 0, `${duringCopies} saves while the copies were made`)
  await kill(lane)
})

/** The cursor of the only lane, and the records that the hours of the lane and of its pipe count. */
function savedIn(db: Database.Database): { cursorSeq: number; ofLane: number; ofPipe: number } {
  return db
    .prepare<[], { cursorSeq: number; ofLane: number; ofPipe: number }>(
      `SELECT coalesce(state ->> 'cursorSeq', 0) AS cursorSeq,
       (SELECT coalesce(sum(delivered_records), 0) FROM lane_hours) AS ofLane,
       (SELECT coalesce(sum(delivered_records), 0) FROM usage_hours) AS ofPipe FROM lanes`,
    )
    .get()!
}
