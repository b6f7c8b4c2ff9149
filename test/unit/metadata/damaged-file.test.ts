/** A wrong bit in an index of metadata.db: SQLite believes it, and a pipe or a destination would be gone without a word. */
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import t from 'tap'
import { requireIntactMetadata } from '../../../src/metadata/sqlite/check.ts'
import { ConfigError } from '../../../src/platform/config-error.ts'
import { databaseDestination, newPipe, newWorkspace, openFile, testFile } from './fixture.ts'

const leafIndex = 0x0a
const pageBytes = 4096

t.test('each index page with a wrong bit in its first entry is noticed', async (t) => {
  const options = testFile(t)
  const metadata = await openFile(options)
  const workspaceId = await newWorkspace(metadata, 'damaged')
  for (let n = 0; n < 20; n += 1) {
    const { pipe_id: pipeId } = await newPipe(metadata, workspaceId, `pipe-${n}`)
    await metadata.destinations.create({ workspaceId, pipeId }, databaseDestination())
  }
  await metadata.close()
  requireIntactMetadata(options.file)
  const sound = readFileSync(options.file)
  const damaged = path.join(options.dir, 'damaged.db')
  const believed: number[] = []
  let flipped = 0
  for (let at = pageBytes; at < sound.length; at += pageBytes) {
    if (sound[at] !== leafIndex || sound.readUInt16BE(at + 3) === 0) continue
    const bytes = Buffer.from(sound)
    // The last byte of the entry's text: its payload begins with its length and the types of its columns.
    const cell = at + sound.readUInt16BE(at + 8)
    const inText = cell + 1 + (sound[cell + 1] ?? 0) + 2
    bytes[inText] = (bytes[inText] ?? 0) ^ 1
    flipped += 1
    writeFileSync(damaged, bytes)
    try {
      requireIntactMetadata(damaged)
      believed.push(at / pageBytes + 1)
    } catch (error) {
      t.ok(error instanceof ConfigError)
      t.match(String(error), /damaged\.db is damaged \(.+\).*restore/)
    }
  }
  t.ok(flipped > 10, `${flipped} pages`)
  t.same(believed, [], 'no page is believed')
})
