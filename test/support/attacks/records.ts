/** Records that are slow to look at, or of which there are too many kinds. */
import { gzipSync } from 'node:zlib'
import { honestMysql } from '../rogue/mysql.ts'
import { honestly } from '../rogue/rogue-server.ts'
import type { Arena } from './arena.ts'
import { databaseAt } from './destinations.ts'

/** C1: white space and zeros for columns of numbers and times: 344 bytes of gzip. */
export async function sendSlowValues(arena: Arena): Promise<void> {
  const columns = { i: 'int', b: 'bit(8)', d: 'decimal(10,2)', t: 'datetime(6)', e: "enum('a')" }
  const rogue = await arena.rogue(() => honestMysql(undefined, columns), 99, honestly)
  const texts = [
    `"${' '.repeat(300_000)}x"`,
    `"0.${'0'.repeat(300_000)}x"`,
    `1${'0'.repeat(300_000)}1`,
    `"2026-01-02T03:04:05.${'7'.repeat(300_000)}x"`,
    `"${'\\\\'.repeat(150_000)}"`,
  ]
  await Promise.all(
    Object.keys(columns).map(async (name) => {
      const pipe = await arena.pipe({ pipe_add_ingest_ts: false })
      await arena.destination(pipe, databaseAt(rogue.port, { dialect: 'mysql' }))
      await arena.repeat(1, async () => {
        const record = `{"${name}":${texts[arena.random(texts.length)]}}`
        await arena.ingest(pipe, gzipSync(record), { 'content-encoding': 'gzip' })
        await arena.until(() => rogue.heard() !== '')
        arena.underWay()
        await arena.pause(50)
      })
    }),
  )
}

/** M6: every record has another set of keys. */
export async function sendManyShapes(arena: Arena): Promise<void> {
  const names = Array.from({ length: 60 }, (_, index) => `c${index}`)
  const columns = Object.fromEntries(names.map((name) => [name, 'varchar(20)']))
  const rogue = await arena.rogue(() => honestMysql(undefined, columns), 99, honestly)
  const pipe = await arena.pipe({ pipe_add_ingest_ts: false })
  await arena.destination(pipe, databaseAt(rogue.port, { dialect: 'mysql' }))
  const record = () => Object.fromEntries(names.flatMap((name) => (arena.random(2) ? [[name, 'x']] : [])))
  await arena.repeat(2, async () => {
    await arena.ingest(
      pipe,
      Array.from({ length: 500 }, () => ({ c0: 'x', ...record() })),
    )
    await arena.until(() => rogue.heard() !== '')
    arena.underWay()
    await arena.pause(50)
  })
}
