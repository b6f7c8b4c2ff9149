/**
 * `pipectl replica verify`: restores the replica into a temporary directory, verifies that directory like any other, and compares
 * it with the data directory, which can be in use. The bucket is only read, and the data directory gets nothing but the
 * result (`verified-file.ts`).
 *
 *   bucket ──restore──▶ ….verifying-replica ──verify──▶ problems
 *                                   └──compare──▶ data directory: messages by pipe, rows of metadata
 *
 * The temporary directory is removed at the end. After a kill it stays, and the next verification removes it. Its lock keeps
 * a second verification out.
 */
import { existsSync, mkdirSync, rmSync, statfsSync } from 'node:fs'
import path from 'node:path'
import { type ComparedPipe, compareLogs } from '../log/segments/compare-logs.ts'
import { type ComparedTable, compareMetadata } from '../metadata/sqlite/compare-files.ts'
import { isSealedWith, readIdentity } from '../metadata/sqlite/offline.ts'
import { pipeNames } from '../metadata/sqlite/pipe-names.ts'
import { errorCode } from '../platform/error-code.ts'
import { bytes, counted } from '../platform/quantities.ts'
import { type Bucket, openBucket } from '../replica/bucket.ts'
import { targetName } from '../replica/replica-options.ts'
import { type Rebuilt, rebuild, restoreAttempts } from '../replica/restore.ts'
import { replicaKey } from '../replica/sealing.ts'
import { listSnapshots, type Manifest, readManifest, SnapshotError } from '../replica/snapshot.ts'
import { replicaTarget } from '../replica/target.ts'
import { type VerifiedReplica, writeVerified } from '../replica/verified-file.ts'
import type { Settings } from '../settings/settings.ts'
import { dataDirAt, sealingKeyOf } from './data-dir.ts'
import { DataDirError } from './errors.ts'
import { lockDataDir } from './lock.ts'
import { inReplicaWords } from './replica-errors.ts'
import { verifyDataDir } from './verify.ts'

export interface VerifyReplicaOptions {
  /** The temporary directory is created in it; null: next to the data directory. */
  directory: string | null
  /** Bytes of one step: the download, the check, the comparison. */
  onProgress(doneBytes: number, totalBytes: number): void
}

export interface ReplicaVerification {
  target: string
  data_dir: string
  result: 'ok' | 'failed'
  slot: number
  /** Everything that was acknowledged before was restored. */
  through_ts: string
  segments: number
  slots: number
  messages: number
  bytes: number
  /** False: the data directory has no log, so there was nothing to compare with. */
  is_compared: boolean
  pipes: VerifiedPipe[]
  tables: { table_name: string; rows: number; data_dir_rows: number; missing: number | null }[]
  /** Sentences. Empty: the replica is complete. */
  problems: string[]
}

export interface VerifiedPipe {
  pipe_id: string
  /** Null: the pipe was deleted. */
  pipe_name: string | null
  messages: number
  first_stream_seq: number | null
  last_stream_seq: number | null
  missing: number
  different: number
  dropped_since: number
  newer: number
}

const hints = {
  unreachable: 'run it again when the bucket answers',
  anotherKey: 'use the key with which its daemon runs',
  damaged: 'restart the daemon: it stores a new snapshot, and a new prefix begins a new replica',
}

/**
 * Records the result in the data directory, also that of a replica that cannot be restored. Throws DataDirError if it cannot be restored
 * or there is no replica, and ConfigError.
 */
export async function verifyReplica(
  settings: Settings,
  env: NodeJS.ProcessEnv,
  options: VerifyReplicaOptions,
): Promise<ReplicaVerification> {
  const target = requireReplica(settings)
  const sealingKey = await sealingKeyOf(settings, env)
  const bucket = openBucket(target)
  const temporary = openTemporary(settings, options.directory)
  try {
    const report = await restoreAndCompare(settings, { bucket, sealingKey, dir: temporary.dir, options })
    record(settings, verdictOf(report))
    return report
  } catch (error) {
    const worded = inReplicaWords(error, targetName(target), hints)
    if (worded.isDamage) record(settings, failedVerdict(targetName(target)))
    throw worded.error
  } finally {
    temporary.remove()
    bucket.close()
  }
}

/** Throws DataDirError. */
export function requireReplica(settings: Settings) {
  const target = replicaTarget(settings)
  if (target !== null) return target
  throw new DataDirError('unfit', 'replica.url is not set: there is no replica', 'see docs/replica.md')
}

interface Verifying {
  bucket: Bucket
  sealingKey: Buffer
  dir: string
  options: VerifyReplicaOptions
}

async function restoreAndCompare(settings: Settings, parts: Verifying): Promise<ReplicaVerification> {
  const { bucket, dir, options } = parts
  const key = replicaKey(parts.sealingKey)
  await requireSpace(settings, bucket, key, dir)
  const built = await rebuild({
    bucket,
    key,
    into: dir,
    segmentMaxBytes: settings['buffer.segment_max_bytes'],
    atMs: null,
    attempts: restoreAttempts,
    onProgress: options.onProgress,
    follow: null,
  })
  const { report } = await verifyDataDir(dir, ({ doneBytes, totalBytes }) =>
    options.onProgress(doneBytes, totalBytes),
  )
  const compared = compare(settings.data_dir, dir, built, (done) =>
    options.onProgress(done, 2 * report.totals.bytes),
  )
  const problems = [
    ...report.files.flatMap(({ file, problems: found }) => found.map((one) => `restored ${file}: ${one}`)),
    ...report.missing.map(
      ({ first_stream_seq: first, last_stream_seq: last }) =>
        `the restored log lacks stream_seq ${first} to ${last}`,
    ),
    ...ownProblems(built, dataDirAt(dir).metadataFile, parts.sealingKey),
    ...compared.problems,
  ]
  return {
    target: targetName(requireReplica(settings)),
    data_dir: settings.data_dir,
    result: problems.length === 0 ? 'ok' : 'failed',
    slot: built.slot,
    through_ts: new Date(built.throughMs).toISOString(),
    segments: built.segments,
    slots: built.slots,
    messages: report.totals.messages,
    bytes: report.totals.bytes,
    is_compared: compared.isCompared,
    pipes: compared.pipes,
    tables: compared.tables,
    problems,
  }
}

function ownProblems({ lacksMetadata }: Rebuilt, metadataFile: string, sealingKey: Buffer): string[] {
  const problems: string[] = []
  if (lacksMetadata)
    problems.push(
      'changes of metadata after an upgrade are not in the replica yet: its next snapshot has them',
    )
  if (!isSealedWith(metadataFile, sealingKey))
    problems.push('the sealing key of this data directory does not open the restored secrets')
  return problems
}

type Compared = Pick<ReplicaVerification, 'pipes' | 'tables' | 'problems'> & { isCompared: boolean }

function compare(
  root: string,
  restored: string,
  { dataDirId, throughMs }: Rebuilt,
  onProgress: (doneBytes: number) => void,
): Compared {
  const [own, copy] = [dataDirAt(root), dataDirAt(restored)]
  const isCompared = existsSync(own.metadataFile) && existsSync(own.bufferDir)
  if (isCompared) {
    const stored = readIdentity(own.metadataFile)
    if (stored.kind === 'found' && stored.identity.dataDirId !== dataDirId)
      return { isCompared: false, pipes: [], tables: [], problems: [`${root} is another data directory`] }
  }
  let doneBytes = 0
  const pipes = compareLogs({
    copyDir: copy.bufferDir,
    logDir: isCompared ? own.bufferDir : copy.bufferDir,
    throughMs,
    onProgress: (read) => {
      doneBytes += read
      onProgress(doneBytes)
    },
  })
  const tables = compareMetadata(copy.metadataFile, (isCompared ? own : copy).metadataFile, throughMs)
  const names = pipeNames(copy.metadataFile)
  const shown = pipes.map((pipe) => shownPipe(pipe, names))
  return {
    isCompared,
    pipes: shown.sort((a, b) => ((a.pipe_name ?? a.pipe_id) < (b.pipe_name ?? b.pipe_id) ? -1 : 1)),
    tables: tables.map(shownTable),
    problems: [...shown.flatMap(pipeProblems), ...tables.flatMap(tableProblems)],
  }
}

function shownPipe(pipe: ComparedPipe, names: ReadonlyMap<string, string>): VerifiedPipe {
  const { pipeId, messages, firstSeq, lastSeq, missing, different, changedSince, newer } = pipe
  return {
    pipe_id: pipeId,
    pipe_name: names.get(pipeId) ?? null,
    messages,
    first_stream_seq: firstSeq,
    last_stream_seq: lastSeq,
    missing,
    different,
    dropped_since: changedSince,
    newer,
  }
}

function shownTable({ table, rows, ownRows, missing }: ComparedTable) {
  return { table_name: table, rows, data_dir_rows: ownRows, missing }
}

function pipeProblems({ pipe_name, pipe_id, missing, different }: VerifiedPipe): string[] {
  const pipe = pipe_name ?? pipe_id
  return [
    ...(missing > 0 ? [`pipe ${pipe}: the replica lacks ${counted(missing, 'message')}`] : []),
    ...(different > 0 ? [`pipe ${pipe}: ${counted(different, 'message')} with another content`] : []),
  ]
}

function tableProblems({ table, missing }: ComparedTable): string[] {
  return missing === null || missing === 0 ? [] : [`${table}: the replica lacks ${counted(missing, 'row')}`]
}

/** Throws DataDirError before anything is downloaded. */
async function requireSpace(settings: Settings, bucket: Bucket, key: Buffer, dir: string): Promise<void> {
  const newest = (await listSnapshots(bucket)).at(-1)
  if (newest === undefined)
    throw new SnapshotError('there is no snapshot: nothing was replicated to this address')
  const manifest = await readManifest(bucket, key, newest, restoreAttempts)
  if (manifest === null) return
  const { bavail, bsize } = statfsSync(dir)
  const needed = sizeOf(manifest) + settings['buffer.min_free_bytes']
  if (bavail * bsize >= needed) return
  throw new DataDirError(
    'conflict',
    `the replica needs ${bytes(needed)} next to the data directory, ${bytes(bavail * bsize)} are free`,
    'give a directory on another disk with --directory',
  )
}

function sizeOf({ segments, metadataBytes }: Manifest): number {
  return segments.reduce((sum, segment) => sum + segment.bytes, metadataBytes)
}

function openTemporary(
  { data_dir: dataDir }: Settings,
  directory: string | null,
): { dir: string; remove(): void } {
  const name = `${path.basename(path.resolve(dataDir))}.verifying-replica`
  const dir = path.join(directory ?? path.dirname(path.resolve(dataDir)), name)
  try {
    mkdirSync(dir, { recursive: true, mode: 0o700 })
  } catch (error) {
    throw new DataDirError(
      'conflict',
      `${dir} cannot be created (${errorCode(error) ?? 'unknown error'})`,
      'give a directory in which this user can write with --directory',
      error,
    )
  }
  const unlock = lockDataDir(dataDirAt(dir))
  // A verification that was killed left them.
  for (const leftover of ['metadata.db', 'buffer', 'restore.json'])
    rmSync(path.join(dir, leftover), { recursive: true, force: true })
  return {
    dir,
    remove() {
      unlock()
      rmSync(dir, { recursive: true, force: true })
    },
  }
}

function verdictOf(report: ReplicaVerification): VerifiedReplica {
  const { target, result, slot, through_ts, messages, problems } = report
  const throughMs = Date.parse(through_ts)
  return { target, checkedMs: Date.now(), result, slot, throughMs, messages, problems: problems.length }
}

function failedVerdict(target: string): VerifiedReplica {
  const none = { slot: null, throughMs: null, messages: 0 }
  return { target, checkedMs: Date.now(), result: 'failed', ...none, problems: 1 }
}

/** On another machine there is no data directory to record it in. */
function record({ data_dir: root }: Settings, verified: VerifiedReplica): void {
  if (existsSync(dataDirAt(root).metadataFile)) writeVerified(root, verified)
}
