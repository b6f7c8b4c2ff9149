/**
 * Where records come from: a file, stdin, or an object of an S3 store. A source gives bytes from an offset, so that an
 * interrupted run continues there.
 *
 *   address ──openFile, openStdin, s3-source──▶ StoredSource: bytes as stored
 *           ──openSource──▶ Source: content, after gzip, with the beginning for detecting the format
 *
 * An offset is a position in the content. A gzip file has to be read from its start to reach one.
 */
import { createHash } from 'node:crypto'
import {
  accessSync,
  type BigIntStats,
  closeSync,
  constants,
  openSync,
  read as readFile,
  readSync,
  statSync,
} from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { pipeline, Readable } from 'node:stream'
import { promisify } from 'node:util'
import { createGunzip } from 'node:zlib'
import { errorCode } from '../../../platform/error-code.ts'
import { commandFailure, Failure, usageFailure } from '../../client/failure.ts'
import { io } from '../io.ts'
import { digest } from './digest.ts'

/** Bytes that are compared to find out whether a file was replaced. */
const fingerprintBytes = 64 * 1024
const headBytes = 64 * 1024
const chunkBytes = 256 * 1024
const readAsync = promisify(readFile)

/** The bytes of a source as they are stored. */
export interface StoredSource {
  /** For messages. */
  name: string
  /** The address of the source, without its content. Null: it cannot be read again (stdin). */
  identity: string | null
  /** Changes when the content changes: size and modification time, or ETag. */
  version: string
  /** Null: not known. */
  size: number | null
  /** It can grow while the part that was sent stays the same. */
  canGrow: boolean
  /** Covers the content before the offset, as far as that is cheap. */
  fingerprint(offset: number): string
  read(start: number): AsyncIterable<Buffer>
  /** Null: only `read(0)`, once. */
  slice: ((start: number, end: number) => Promise<Buffer>) | null
  close(): void
}

export interface Source extends StoredSource {
  isGzip: boolean
  /** The first 64 KiB of the content, or all of it. Null: it is not known yet (stdin). */
  head: Buffer | null
  /** The content from an offset. */
  open(offset: number): AsyncIterable<Buffer>
  /** How much of the stored bytes was read. */
  storedBytesRead(): number
}

/** Detects gzip and reads the beginning. Throws Failure. */
export async function openSource(stored: StoredSource): Promise<Source> {
  let storedBytes = 0
  const count = async function* (start: number) {
    storedBytes = start
    for await (const chunk of stored.read(start)) {
      storedBytes += chunk.length
      yield chunk
    }
  }
  const [start, read] =
    stored.slice === null
      ? await peeked(count(0))
      : [await stored.slice(0, Math.min(4, stored.size ?? 4)), count]
  const isGzip = start[0] === 0x1f && start[1] === 0x8b
  // Compressed content before an offset cannot be compared cheaply, and Parquet has its schema at the end: the complete
  // source has to be the same.
  const isWhole = isGzip || start.toString('latin1', 0, 4) === 'PAR1'
  const open = (offset: number) => (isGzip ? skipped(gunzipped(read(0), stored.name), offset) : read(offset))
  return {
    ...stored,
    isGzip,
    canGrow: stored.canGrow && !isWhole,
    fingerprint: (offset) => (isWhole ? stored.version : stored.fingerprint(offset)),
    head: stored.slice === null ? null : await headOf(open(0)),
    open,
    storedBytesRead: () => storedBytes,
  }
}

export function openStdin(): StoredSource {
  return {
    name: 'stdin',
    identity: null,
    version: '',
    size: null,
    canGrow: false,
    fingerprint: () => '',
    read: () => io().stdin as AsyncIterable<Buffer>,
    slice: null,
    // A read that is under way would keep the process after an interrupt.
    close: () => void io().stdin.destroy(),
  }
}

/** It is opened when it is read, because there can be more files than open ones are allowed. Throws Failure (usage). */
export function openFile(file: string): StoredSource {
  const { size, mtimeNs } = factsOf(file)
  let opened: number | null = null
  const fd = () => {
    opened ??= openSync(file, 'r')
    return opened
  }
  return {
    name: file,
    // Does not use the inode, because an editor that corrects a line creates a file with a new one.
    identity: digest([os.hostname(), path.resolve(file)]),
    version: `${size} ${mtimeNs}`,
    size: Number(size),
    canGrow: true,
    fingerprint: (offset) =>
      createHash('sha256')
        .update(readRange(fd(), 0, Math.min(offset, fingerprintBytes)))
        .update(readRange(fd(), Math.max(0, offset - fingerprintBytes), offset))
        .digest('hex'),
    read: (start) => fileChunks(fd(), start),
    slice: async (start, end) => {
      const buffer = Buffer.allocUnsafeSlow(Math.max(0, end - start))
      let filled = 0
      while (filled < buffer.length) {
        const { bytesRead } = await readAsync(fd(), buffer, filled, buffer.length - filled, start + filled)
        if (bytesRead === 0) break
        filled += bytesRead
      }
      return buffer.subarray(0, filled)
    },
    close: () => {
      if (opened !== null) closeSync(opened)
      opened = null
    },
  }
}

function factsOf(file: string): BigIntStats {
  let facts: BigIntStats
  try {
    facts = statSync(file, { bigint: true })
    accessSync(file, constants.R_OK)
  } catch (error) {
    const why =
      errorCode(error) === 'ENOENT' ? 'there is no such file' : `it cannot be read (${errorCode(error)})`
    throw usageFailure(`${file}: ${why}`, 'name a file, or pipe the records in', error)
  }
  if (facts.isFile()) return facts
  throw usageFailure(
    `${file} is not a file`,
    'name files, for example DIRECTORY/*.csv, or pipe the records in',
  )
}

async function* fileChunks(fd: number, start: number): AsyncGenerator<Buffer> {
  for (let at = start; ; ) {
    const buffer = Buffer.allocUnsafeSlow(chunkBytes)
    const { bytesRead } = await readAsync(fd, buffer, 0, chunkBytes, at)
    if (bytesRead === 0) return
    at += bytesRead
    yield buffer.subarray(0, bytesRead)
  }
}

function readRange(fd: number, from: number, to: number): Buffer {
  const buffer = Buffer.alloc(to - from)
  return buffer.subarray(0, readSync(fd, buffer, 0, buffer.length, from))
}

/** The first bytes of an input that can be read only once, and a function that reads it with them. */
async function peeked(
  chunks: AsyncIterable<Buffer>,
): Promise<[Buffer, (start: number) => AsyncIterable<Buffer>]> {
  const iterator = chunks[Symbol.asyncIterator]()
  let start: Buffer = Buffer.alloc(0)
  let isDone = false
  while (start.length < 4 && !isDone) {
    const { value, done } = await iterator.next()
    if (done === true) isDone = true
    else start = Buffer.concat([start, value])
  }
  const read = async function* () {
    if (start.length > 0) yield start
    if (!isDone) yield* { [Symbol.asyncIterator]: () => iterator }
  }
  return [start, read]
}

/** Decompresses as fast as the reader takes it: a gzip bomb never fills the memory. */
async function* gunzipped(compressed: AsyncIterable<Buffer>, name: string): AsyncGenerator<Buffer> {
  const gunzip = createGunzip({ chunkSize: chunkBytes })
  const content = pipeline(Readable.from(compressed), gunzip, () => {})
  try {
    for await (const chunk of content) yield chunk as Buffer
  } catch (error) {
    if (error instanceof Failure) throw error
    const code = errorCode(error)
    if (code === null || !code.startsWith('Z_')) throw error
    const why = code === 'Z_BUF_ERROR' ? 'the gzip data ends too early' : 'the gzip data is damaged'
    throw commandFailure(
      `${name}: ${why}; the records before that are accepted`,
      'get a complete copy of the file, then run the same command again',
      error,
    )
  }
}

async function* skipped(chunks: AsyncIterable<Buffer>, bytes: number): AsyncGenerator<Buffer> {
  let left = bytes
  for await (const chunk of chunks) {
    if (left < chunk.length) yield left === 0 ? chunk : chunk.subarray(left)
    left = Math.max(0, left - chunk.length)
  }
}

async function headOf(content: AsyncIterable<Buffer>): Promise<Buffer> {
  const chunks: Buffer[] = []
  let length = 0
  for await (const chunk of content) {
    chunks.push(chunk)
    length += chunk.length
    if (length >= headBytes) break
  }
  return Buffer.concat(chunks).subarray(0, headBytes)
}
