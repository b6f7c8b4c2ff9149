/**
 * The container of a backup: a tar archive (POSIX ustar, regular files only), which any tar program can read. Written and
 * read as a stream, because a file can be larger than memory.
 *
 *   512-byte header │ content, padded to 512 │ … │ two empty blocks
 *
 * Sizes that do not fit into the header's eleven octal digits (8 GiB and more) are written in base 256, as GNU tar does.
 */
import type { Readable } from 'node:stream'

const blockBytes = 512

export interface ArchiveEntry {
  name: string
  size: number
  mode: number
}

/** A longer name is divided at a slash: the directory goes into the prefix field of ustar. */
const nameBytes = 100
const prefixBytes = 155
const prefixAt = 345

/** The header of an entry. Throws if the name does not fit. */
export function entryHeader({ name, size, mode }: ArchiveEntry, mtimeMs: number): Buffer {
  const header = Buffer.alloc(blockBytes)
  const [prefix, base] = dividedName(name)
  header.write(base, 0)
  header.write(prefix, prefixAt)
  header.write(octal(mode & 0o7777, 7), 100)
  header.write(octal(0, 7), 108)
  header.write(octal(0, 7), 116)
  writeSize(header, size)
  header.write(octal(Math.floor(mtimeMs / 1000), 11), 136)
  header.write('        ', 148)
  header.write('0', 156)
  header.write('ustar\u000000', 257, 'latin1')
  header.write(`${octal(checksum(header), 6)}\0 `, 148, 'latin1')
  return header
}

function dividedName(name: string): [prefix: string, base: string] {
  if (Buffer.byteLength(name) <= nameBytes) return ['', name]
  const at = name.lastIndexOf('/')
  const [prefix, base] = [name.slice(0, Math.max(0, at)), name.slice(at + 1)]
  if (Buffer.byteLength(base) > nameBytes || Buffer.byteLength(prefix) > prefixBytes)
    throw new RangeError(`archive entry name is too long: ${name}`)
  return [prefix, base]
}

/** The padding after the content of an entry. */
export function padding(size: number): Buffer {
  return Buffer.alloc((blockBytes - (size % blockBytes)) % blockBytes)
}

/** The two empty blocks at the end of an archive. */
export function archiveEnd(): Buffer {
  return Buffer.alloc(2 * blockBytes)
}

export class ArchiveError extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'ArchiveError'
  }
}

/**
 * The entries of an archive in order. The caller must read the content of an entry to its end before it requests the
 * next one. Throws ArchiveError if the archive is truncated or not an archive.
 */
export async function* readArchive(
  stream: Readable,
): AsyncGenerator<ArchiveEntry & { content: AsyncIterable<Buffer> }> {
  const source = blockSource(stream)
  for (;;) {
    const header = await source.exactly(blockBytes)
    if (header.every((byte) => byte === 0)) return
    const entry = parseHeader(header)
    yield { ...entry, content: source.content(entry.size) }
    await source.exactly(padding(entry.size).length)
  }
}

function parseHeader(header: Buffer): ArchiveEntry {
  const stated = Number.parseInt(header.toString('latin1', 148, 156), 8)
  const blanked = Buffer.from(header)
  blanked.fill(0x20, 148, 156)
  if (checksum(blanked) !== stated) throw new ArchiveError('a header of the archive is damaged')
  const type = String.fromCharCode(header[156] ?? 0)
  if (type !== '0' && type !== '\0')
    throw new ArchiveError('the archive contains an entry that is not a file')
  return {
    name: [textAt(header, prefixAt, prefixBytes), textAt(header, 0, nameBytes)]
      .filter((part) => part !== '')
      .join('/'),
    size: requireSize(readSize(header)),
    mode: Number.parseInt(header.toString('latin1', 100, 107), 8),
  }
}

function textAt(header: Buffer, at: number, length: number): string {
  return header.toString('utf8', at, at + length).replace(/\0.*$/s, '')
}

/** Rejects a size that is not a valid number: its content would be read without an end, or not at all. */
function requireSize(size: number): number {
  if (Number.isSafeInteger(size) && size >= 0) return size
  throw new ArchiveError('a header of the archive has an impossible size')
}

function octal(value: number, digits: number): string {
  return value.toString(8).padStart(digits, '0')
}

function writeSize(header: Buffer, size: number): void {
  if (size < 8 ** 11) {
    header.write(octal(size, 11), 124)
    return
  }
  header[124] = 0x80
  header.writeBigUInt64BE(BigInt(size), 128)
}

function readSize(header: Buffer): number {
  if (header[124] === 0x80) return Number(header.readBigUInt64BE(128))
  const digits = header.toString('latin1', 124, 136).replace(/[\0 ]+$/, '')
  return /^[0-7]+$/.test(digits) ? Number.parseInt(digits, 8) : Number.NaN
}

function checksum(header: Buffer): number {
  return header.reduce((sum, byte) => sum + byte, 0)
}

/** Reads a stream in blocks of the requested lengths. */
function blockSource(stream: Readable) {
  const chunks = stream[Symbol.asyncIterator]()
  let held: Buffer = Buffer.alloc(0)
  const more = async () => {
    const next: IteratorResult<Buffer> = await chunks.next()
    if (next.done) throw new ArchiveError('the archive is truncated')
    held = next.value
  }
  return {
    async exactly(length: number): Promise<Buffer> {
      const parts: Buffer[] = []
      let missing = length
      while (missing > 0) {
        if (held.length === 0) await more()
        const part = held.subarray(0, missing)
        held = held.subarray(part.length)
        missing -= part.length
        parts.push(part)
      }
      return Buffer.concat(parts)
    },
    async *content(size: number): AsyncGenerator<Buffer> {
      let missing = size
      while (missing > 0) {
        if (held.length === 0) await more()
        const part = held.subarray(0, missing)
        held = held.subarray(part.length)
        missing -= part.length
        yield part
      }
    },
  }
}
