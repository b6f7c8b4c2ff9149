/** Archives that no backup has made: each is rejected in words, and nothing of it is written. */
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { gzipSync } from 'node:zlib'
import t from 'tap'
import { archiveEnd, entryHeader, padding } from '../../../src/maintenance/archive.ts'
import { restoreBackup } from '../../../src/maintenance/restore.ts'

const home = mkdtempSync(path.join(tmpdir(), 'pipectl-archive-'))
t.teardown(() => rmSync(home, { recursive: true, force: true }))

interface Entry {
  name: string
  content?: Buffer
  /** Written over the size of the header. */
  size?: Buffer
}

function archive(entries: readonly Entry[]): string {
  const parts = entries.flatMap(({ name, content = Buffer.alloc(0), size }) => {
    const header = entryHeader({ name, size: content.length, mode: 0o600 }, 0)
    if (size !== undefined) withSize(header, size)
    return [header, content, padding(content.length)]
  })
  const file = path.join(home, 'hostile.tar.gz')
  writeFileSync(file, gzipSync(Buffer.concat([...parts, archiveEnd()])))
  return file
}

function withSize(header: Buffer, size: Buffer): void {
  header.fill(0, 124, 136)
  size.copy(header, 124)
  header.fill(0x20, 148, 156)
  const sum = header.reduce((total, byte) => total + byte, 0)
  header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1')
}

/** In base 256, as it is for sizes beyond 8 GiB. */
const binary = (size: bigint) => {
  const field = Buffer.alloc(12)
  field[0] = 0x80
  field.writeBigUInt64BE(size, 4)
  return field
}

const manifest = (text: string | Buffer): Entry => ({ name: 'manifest.json', content: Buffer.from(text) })
const hostile: [string, Entry[], RegExp][] = [
  ['a size of letters', [{ name: 'metadata.db', size: Buffer.from('what') }], /has an impossible size/],
  ['a size of nothing', [{ name: 'metadata.db', size: Buffer.from('') }], /has an impossible size/],
  ['a negative size', [{ name: 'metadata.db', size: Buffer.from('-7') }], /has an impossible size/],
  [
    'a size with letters behind',
    [{ name: 'metadata.db', size: Buffer.from('12x') }],
    /has an impossible size/,
  ],
  ['a size of 2^53', [{ name: 'metadata.db', size: binary(2n ** 53n) }], /has an impossible size/],
  ['a size of 2^64 - 1', [{ name: 'manifest.json', size: binary(2n ** 64n - 1n) }], /has an impossible size/],
  ['a size beyond the archive', [{ name: 'metadata.db', size: binary(2n ** 40n) }], /truncated/],
  [
    'a manifest of 300 MB',
    [manifest(Buffer.alloc(300_000_000, ' '))],
    /manifest has more than 16777216 bytes/,
  ],
  ['a manifest that is no JSON', [manifest('{"files": [')], /manifest is not JSON/],
  ['a manifest that is no object', [manifest('[]')], /a format that this version does not know/],
]

for (const [what, entries, why] of hostile) {
  t.test(`${what} is no whole backup`, async (t) => {
    const target = path.join(home, 'data')
    const failure = await restoreBackup(archive(entries), target).catch((error: unknown) => error)
    t.match(failure, { name: 'DataDirError', message: /is not a complete backup: / })
    t.match(failure, { message: why })
    t.same(readdirSync(home), ['hostile.tar.gz'], 'nothing is left behind')
  })
}
