/**
 * Any changes of a metadata file, by the real stores and by statements on each table, reach a copy: whatever is taken in
 * parts, twice, or while the file is rewritten or copied, the copy is equal to the file after each take without more.
 */
import { rmSync } from 'node:fs'
import path from 'node:path'
import Database from 'better-sqlite3'
import t, { type Test } from 'tap'
import { applyRowChanges } from '../../../src/metadata/sqlite/apply-row-changes.ts'
import { rewriteFile } from '../../../src/metadata/sqlite/rewrite.ts'
import { recordRowChanges } from '../../../src/metadata/sqlite/row-change-triggers.ts'
import { openRowChanges, type RowChanges } from '../../../src/metadata/sqlite/row-changes.ts'
import { type Random, seeded } from '../../support/faults/random.ts'
import { scaled, seed } from '../../support/scale.ts'
import { contentOf, differing } from './compared-tables.ts'
import { open, testFile } from './fixture.ts'
import { MetadataOperations } from './metadata-operations.ts'
import { oddTable, RandomRows } from './random-rows.ts'

class World {
  readonly random: Random
  readonly file: string
  readonly db: Database.Database
  readonly #copyFile: string
  readonly #stores: MetadataOperations
  readonly #rows: RandomRows
  #changes: RowChanges
  copy!: Database.Database
  /** The number of complete takes that were compared, and of rows that were applied. */
  compared = 0
  applied = 0

  constructor(random: Random, file: string, db: Database.Database, stores: MetadataOperations) {
    this.random = random
    this.file = file
    this.db = db
    this.#copyFile = path.join(path.dirname(file), 'copy.db')
    this.#stores = stores
    this.#rows = new RandomRows(db, random)
    this.#changes = openRowChanges(file)
  }

  async change(): Promise<void> {
    if (this.random.below(3) === 0) this.#rows.step()
    else await this.#stores.step()
  }

  /** The stores write meanwhile. */
  async newCopy(): Promise<void> {
    this.close()
    this.#changes = openRowChanges(this.file)
    for (const end of ['', '-wal', '-shm']) rmSync(`${this.#copyFile}${end}`, { force: true })
    const copied = this.#changes.copyTo(this.#copyFile)
    for (let left = this.random.below(20); left > 0; left -= 1) await this.change()
    await copied
    this.copy = new Database(this.#copyFile)
    this.copy.pragma('synchronous = OFF')
  }

  /** Until nothing is left, or the process ends somewhere in between. Returns the tables that differ. */
  ship(): string[] {
    const maxBytes = this.random.pick([1, 4_096, 1 << 30])
    for (;;) {
      const taken = this.#changes.take(maxBytes)
      if (taken !== null) {
        applyRowChanges(this.copy, taken.rows)
        this.applied += taken.count
        if (this.random.below(20) === 0) {
          this.#changes.close()
          this.#changes = openRowChanges(this.file)
          if (taken.more) return []
        } else this.#changes.release(taken.through)
        if (taken.more && this.random.below(4) === 0) this.#rows.step()
      }
      if (taken?.more === true) continue
      this.compared += 1
      return differing(contentOf(this.copy), contentOf(this.db))
    }
  }

  /** Everything is released. */
  drain(): string[] {
    for (;;) {
      const taken = this.#changes.take(1 << 30)
      if (taken === null) return differing(contentOf(this.copy), contentOf(this.db))
      applyRowChanges(this.copy, taken.rows)
      this.#changes.release(taken.through)
    }
  }

  /** Copies the table, whose changes were not recorded. */
  makeEqual(table: string): void {
    this.copy.pragma('foreign_keys = OFF')
    this.copy.prepare('ATTACH ? AS original').run(this.file)
    this.copy.exec(`DELETE FROM main.${table}; INSERT INTO main.${table} SELECT * FROM original.${table}`)
    this.copy.exec('DETACH original')
  }

  close(): void {
    this.#changes.close()
    this.copy?.close()
  }
}

async function world(t: Test, ofSeed: number): Promise<World> {
  const random = seeded(ofSeed)
  const options = testFile(t)
  const metadata = await open(t, options)
  const db = new Database(options.file)
  t.teardown(() => db.close())
  // The test looks for rows, and not for what a power cut leaves.
  db.pragma('synchronous = OFF')
  db.pragma('foreign_keys = ON')
  db.exec(oddTable)
  const stores = new MetadataOperations(metadata, random)
  for (let left = 10; left > 0; left -= 1) await stores.step()
  // The handle of the stores has prepared its statements before.
  recordRowChanges(db)
  const made = new World(random, options.file, db, stores)
  t.teardown(() => made.close())
  await made.newCopy()
  return made
}

for (let round = 0; round < scaled(1); round += 1) {
  t.test(`random changes reach the copy (seed ${seed * 100 + round})`, async (t) => {
    const one = await world(t, seed * 100 + round)
    const { random } = one
    for (let step = 0; step < 500; step += 1) {
      await one.change()
      if (random.below(8) === 0) {
        const tables = one.ship()
        if (tables.length > 0) return void t.strictSame(tables, [], `after step ${step}`)
      }
      if (random.below(120) === 0) t.equal(await rewriteFile(one.file), null)
      if (random.below(120) === 0) await one.newCopy()
    }
    t.strictSame(one.drain(), [])
    t.ok(one.compared > 20, `${one.compared} comparisons`)
    t.ok(one.applied > 500, `${one.applied} rows`)
    const filled = [...contentOf(one.copy).values()].filter((rows) => rows.length > 0)
    t.ok(filled.length > 35, `${filled.length} tables have rows`)
    t.strictSame(one.copy.pragma('foreign_key_check'), [])
    t.strictSame(one.copy.pragma('integrity_check'), [{ integrity_check: 'ok' }])
  })
}

t.test('negative control: without one of the triggers of a table the copy differs', async (t) => {
  const one = await world(t, seed)
  for (let step = 0; step < 60; step += 1) await one.change()
  one.db.exec('INSERT INTO odd VALUES (1, 1, 1, 1)')
  t.strictSame(one.drain(), [])
  const statements = {
    lanes_updated: "UPDATE lanes SET state = state || ' '",
    workspaces_inserted: "INSERT INTO workspaces VALUES ('id', 'name', 1, 9)",
    audit_log_deleted: 'DELETE FROM audit_log WHERE audit_id = 1',
    odd_moved: 'UPDATE odd SET a = 2',
  }
  for (const [trigger, statement] of Object.entries(statements)) {
    one.db.exec(`DROP TRIGGER row_changes_${trigger}`)
    t.ok(one.db.prepare(statement).run().changes > 0)
    const table = trigger.replace(/_[a-z]+$/, '')
    t.strictSame(one.drain(), [table])
    one.makeEqual(table)
  }
})
