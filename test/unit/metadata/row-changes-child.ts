/**
 * One of two processes that are killed: `write|ship file spec-as-json sealing-key-hex slots-directory seed`. `write` runs
 * random operations of the stores. `ship` stores what it takes as files, as a replica stores slots, and releases it. Both
 * print a line after each step and continue until they are killed.
 */
import { readdirSync, renameSync, writeFileSync, writeSync } from 'node:fs'
import path from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { openRowChanges } from '../../../src/metadata/sqlite/row-changes.ts'
import { openMetadata } from '../../../src/stores/open-metadata.ts'
import { seeded } from '../../support/faults/random.ts'
import { MetadataOperations } from './metadata-operations.ts'

const [mode, file, spec, keyHex, slots, seed] = process.argv.slice(2)
if (file === undefined || spec === undefined || keyHex === undefined || slots === undefined) {
  throw new Error('six arguments expected')
}
if (mode === 'write') await write(JSON.parse(spec), Buffer.from(keyHex, 'hex'))
else await ship(file, slots)

async function write(opened: Parameters<typeof openMetadata>[0], sealingKey: Buffer): Promise<void> {
  const operations = new MetadataOperations(await openMetadata(opened, sealingKey), seeded(Number(seed)))
  for (;;) {
    await operations.step()
    writeSync(1, 'changed\n')
  }
}

async function ship(from: string, into: string): Promise<void> {
  const changes = openRowChanges(from)
  const random = seeded(Number(seed))
  let slot = readdirSync(into).filter((name) => !name.endsWith('.tmp')).length
  for (;;) {
    const taken = changes.take(random.pick([1_000, 100_000]))
    writeSync(1, 'taken\n')
    if (taken !== null) {
      const name = path.join(into, `slot-${String(slot).padStart(9, '0')}`)
      writeFileSync(`${name}.tmp`, taken.rows)
      renameSync(`${name}.tmp`, name)
      slot += 1
      writeSync(1, 'stored\n')
      changes.release(taken.through)
      writeSync(1, 'released\n')
    }
    await setImmediate()
  }
}
