/**
 * A backup of a data directory while the daemon runs. It works on the files and not through the API, so it knows more than
 * other commands: `data-dir.ts` and the layout of the buffer.
 *
 * The order makes the backup consistent. Lane cursors must never be ahead of the copied buffer, so:
 *
 *   1 open every sealed segment         retention can unlink a segment; an open one can still be read
 *   2 metadata                          lane cursors at this moment
 *   3 files of SQLite destinations      newer than the cursors, older than the buffer
 *   4 high-water mark, idempotency      never ahead of the segments, which are copied after them
 *   5 segments, oldest first            the newest last: it contains everything acknowledged before the start
 *
 * A buffer newer than its cursors repeats some deliveries (at least once). An older buffer would lose messages. The same holds for
 * a table file: one older than the cursors would lack records that no lane sends again. One newer than the buffer would have a
 * mark of `exactly_once` at a message that the restored buffer does not have, which blocks its lane (`lane_row_conflict`). Between
 * the two, each mark is at or after its cursor and its message is in the buffer, so a restored lane continues exactly once:
 * `continueMarks` in table-files.ts. SQLite files
 * that are being written are copied by SQLite's backup API in one step. The copy includes the content of the WAL, and
 * concurrent writes of the daemon cannot restart it.
 */
import { createHash } from 'node:crypto'
import {
  createReadStream,
  createWriteStream,
  existsSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
} from 'node:fs'
import { type FileHandle, open, rename } from 'node:fs/promises'
import path from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGzip } from 'node:zlib'
import Database from 'better-sqlite3'
import { current } from '../contract/epochs.ts'
import { listTableFiles, tablesDirOf } from '../destinations/sqlite/files.ts'
import { listSegments, type SegmentName, segmentFile } from '../log/segments/layout.ts'
import type { DataDirIdentity } from '../metadata/identity.ts'
import { readIdentity } from '../metadata/sqlite/offline.ts'
import { errorCode, messageOf } from '../platform/error-code.ts'
import { fsyncDirectory } from '../platform/fsync.ts'
import { version } from '../platform/version.ts'
import { archiveEnd, entryHeader, padding } from './archive.ts'
import { type DataDir, dataDirAt } from './data-dir.ts'
import { DataDirError } from './errors.ts'
import { nameOfTableFile } from './table-files.ts'

export interface BackupSettings {
  dataDir: string
  file: string
  /** The key that decrypts the stored secrets. A backup that contains it is itself a secret. */
  keyFile: string | null
}

/** The last entry of an archive. It lists the files that a complete archive contains. */
export interface Manifest {
  format: 1
  pipectl_version: string
  created_ts: string
  includes_key: boolean
  data_dir_id: string
  epoch: number
  files: { name: string; size: number; sha256: string }[]
}

export const manifestName = 'manifest.json'

/** Writes the archive and returns its manifest. Throws DataDirError. An incomplete file is removed. */
export async function backUp(settings: BackupSettings): Promise<Manifest> {
  const dir = requireDataDir(settings.dataDir)
  if (existsSync(settings.file)) {
    throw new DataDirError(
      'conflict',
      `${settings.file} already exists`,
      'choose another name: a backup never replaces a file',
    )
  }
  // In the directory of the file, so that it can be renamed. The name is unique, so that the leftover of a killed
  // backup does not block this one.
  const parent = path.dirname(path.resolve(settings.file))
  const { dataDirId, epochs } = requireIdentity(dir)
  const staging = mkdtempSync(path.join(parent, '.pipectl-backup-'))
  const partial = path.join(staging, 'archive.partial')
  try {
    const manifest: Manifest = {
      format: 1,
      pipectl_version: version(),
      created_ts: new Date().toISOString(),
      includes_key: settings.keyFile !== null,
      data_dir_id: dataDirId,
      epoch: current(epochs).epoch,
      files: [],
    }
    // The archive contains data of clients and possibly the sealing key. Only its owner can read it.
    const out = createWriteStream(partial, { mode: 0o600, flags: 'wx', flush: true })
    await pipeline(Readable.from(archive(dir, settings, staging, manifest)), createGzip({ level: 1 }), out)
    await rename(partial, settings.file)
    // Otherwise a power failure could undo the rename.
    fsyncDirectory(parent)
    return manifest
  } finally {
    rmSync(staging, { recursive: true, force: true })
  }
}

/** Throws DataDirError if the directory contains nothing to back up. */
export function requireDataDir(root: string): DataDir {
  const dir = dataDirAt(root)
  if (existsSync(dir.metadataFile)) return dir
  throw new DataDirError(
    'missing',
    `${dir.root} is not a data directory of pipectl: it has no metadata.db`,
    'name it with --data-dir, or PIPECTL_DATA_DIR',
  )
}

/**
 * Without its identity the archive would look complete, but restore would reject it. Throws DataDirError and SQLite
 * errors.
 */
export function requireIdentity({ root, metadataFile }: DataDir): DataDirIdentity {
  const stored = readIdentity(metadataFile)
  if (stored.kind === 'found') return stored.identity
  if (stored.kind === 'unreadable') throw stored.error
  throw new DataDirError(
    'missing',
    `${root} was never set up: its metadata.db is empty`,
    'run `pipectl init`',
  )
}

async function* archive(
  dir: DataDir,
  settings: BackupSettings,
  staging: string,
  manifest: Manifest,
): AsyncGenerator<Buffer> {
  const held = await holdSegments(dir.bufferDir)
  try {
    const metadata = await copyDatabase(dir.metadataFile, staging, 'metadata.db')
    yield* entry('metadata.db', createReadStream(metadata), sizeOf(metadata), manifest)
    if (settings.keyFile !== null) {
      const file = settings.keyFile
      yield* entry('sealing.key', createReadStream(file), sizeOf(file), manifest)
    }
    yield* tableFileEntries(dir.root, staging, manifest)
    yield* bufferEntries(dir.bufferDir, held, staging, manifest)
    yield* quarantineEntries(dir.quarantineDir, manifest)
    const text = Buffer.from(`${JSON.stringify(manifest, null, 2)}\n`)
    yield entryHeader({ name: manifestName, size: text.length, mode: 0o600 }, Date.now())
    yield text
    yield padding(text.length)
    yield archiveEnd()
  } finally {
    for (const { handle } of held.values()) await handle.close()
  }
}

async function* tableFileEntries(root: string, staging: string, manifest: Manifest): AsyncGenerator<Buffer> {
  for (const file of listTableFiles(tablesDirOf(root))) {
    const name = nameOfTableFile(file)
    const copy = await copyDatabase(file.path, staging, 'table-file.db').catch((error: unknown) => {
      throw new DataDirError(
        'damaged',
        `${name} cannot be copied: ${messageOf(error)}`,
        'repair it, or move it out of the directory',
        error,
      )
    })
    yield* entry(name, createReadStream(copy), sizeOf(copy), manifest)
    rmSync(copy)
  }
}

interface HeldSegment {
  name: SegmentName
  handle: FileHandle
}

/**
 * Open handles of all segments that exist now, by first seq. A segment that is compacted meanwhile is copied in its
 * old form.
 */
async function holdSegments(bufferDir: string): Promise<Map<number, HeldSegment>> {
  const held = new Map<number, HeldSegment>()
  for (const name of existsSync(bufferDir) ? listSegments(bufferDir) : []) {
    const handle = await open(segmentFile(bufferDir, name)).catch(ignoreMissing)
    if (handle !== null) held.set(name.firstSeq, { name, handle })
  }
  return held
}

async function* bufferEntries(
  bufferDir: string,
  held: Map<number, HeldSegment>,
  staging: string,
  manifest: Manifest,
): AsyncGenerator<Buffer> {
  if (!existsSync(bufferDir)) return
  const mark = path.join(bufferDir, 'high-water')
  if (existsSync(mark)) yield* entry('buffer/high-water', createReadStream(mark), sizeOf(mark), manifest)
  const keys = path.join(bufferDir, 'idempotency.db')
  if (existsSync(keys)) {
    const copy = await copyDatabase(keys, staging, 'idempotency.db')
    yield* entry('buffer/idempotency.db', createReadStream(copy), sizeOf(copy), manifest)
  }
  const found = new Map(listSegments(bufferDir).map((name) => [name.firstSeq, name]))
  for (const { name } of held.values()) found.set(name.firstSeq, name)
  const names = [...found.values()].sort((a, b) => a.firstSeq - b.firstSeq)
  for (const segment of names) {
    const { firstSeq } = segment
    const file = segmentFile(bufferDir, segment)
    const name = `buffer/${path.basename(file)}`
    const isNewest = segment === names.at(-1)
    // A sealed segment without a WAL never changes again, so its bytes are copied directly.
    if (!isNewest && !existsSync(`${file}-wal`)) {
      const handle = held.get(firstSeq)?.handle ?? (await open(file).catch(ignoreMissing))
      if (handle === null) continue
      held.set(firstSeq, { name: segment, handle })
      const { size } = await handle.stat()
      yield* entry(name, handle.createReadStream({ autoClose: false, start: 0 }), size, manifest)
      continue
    }
    const copy = await copyDatabase(file, staging, 'segment.db')
    yield* entry(name, createReadStream(copy), sizeOf(copy), manifest)
    rmSync(copy)
  }
}

async function* quarantineEntries(quarantineDir: string, manifest: Manifest): AsyncGenerator<Buffer> {
  for (const name of existsSync(quarantineDir) ? readdirSync(quarantineDir).sort() : []) {
    const file = path.join(quarantineDir, name)
    if (!statSync(file).isFile()) continue
    yield* entry(`quarantine/${name}`, createReadStream(file), sizeOf(file), manifest)
  }
}

/** One file of the archive. Its hash is added to the manifest. A file that changes its size meanwhile is an error. */
async function* entry(
  name: string,
  content: Readable,
  size: number,
  manifest: Manifest,
): AsyncGenerator<Buffer> {
  yield entryHeader({ name, size, mode: 0o600 }, Date.now())
  const hash = createHash('sha256')
  let seen = 0
  for await (const chunk of content) {
    const bytes = Buffer.from(chunk)
    hash.update(bytes)
    seen += bytes.length
    yield bytes
  }
  if (seen !== size) throw new Error(`${name} changed its size while it was copied`)
  yield padding(size)
  manifest.files.push({ name, size, sha256: hash.digest('hex') })
}

/** Creates a consistent copy of a SQLite file that other processes can write meanwhile. */
async function copyDatabase(file: string, staging: string, name: string): Promise<string> {
  const copy = path.join(staging, name)
  const source = new Database(file, { readonly: true, fileMustExist: true, timeout: 10_000 })
  try {
    // Copies all pages in one step. With several steps, every commit of the daemon would restart the copy.
    await source.backup(copy, { progress: () => 0x7fffffff })
  } finally {
    source.close()
  }
  return copy
}

function sizeOf(file: string): number {
  return statSync(file).size
}

function ignoreMissing(error: unknown): null {
  if (errorCode(error) === 'ENOENT') return null
  throw error
}
