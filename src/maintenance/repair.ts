/**
 * `pipectl repair`: makes the repairs that the daemon would make itself, on a stopped data directory, and reports them. Damaged
 * segments are rewritten with all readable messages, and derived files are created again. Ranges without any readable message
 * are recorded as lost. Nothing is deleted: damaged files are moved to the quarantine. The metadata is never changed.
 *
 *   step                                           state after a crash right after it
 *   1 damaged mark and look-up → quarantine        they are missing: the next repair, or the daemon, creates them
 *   2 misnamed segments → quarantine, damaged      the remaining ones are still damaged
 *     ones salvaged one by one (salvage.ts)
 *   3 mark and look-up created again               same as after 2
 *   4 known losses recorded                        before this, verify reports them again
 */
import { existsSync, mkdirSync, renameSync } from 'node:fs'
import path from 'node:path'
import { current } from '../contract/epochs.ts'
import { type SegmentName, segmentFile } from '../log/segments/layout.ts'
import { repairSegments } from '../log/segments/repair-segments.ts'
import type { SeqRange } from '../log/segments/segment-file.ts'
import { fsyncDirectory } from '../platform/fsync.ts'
import { openLog } from '../platform/log.ts'
import { dataDirAt } from './data-dir.ts'
import { DataDirError } from './errors.ts'
import { addKnownLosses } from './known-losses.ts'
import { lockDataDir } from './lock.ts'
import { requireKnownFormat } from './matching-stores.ts'
import { glanceAtDataDir, type Verified } from './verify.ts'

export interface RepairAction {
  action: 'salvage' | 'set_aside' | 'rebuild' | 'note_loss'
  /** Relative to the data directory. */
  file: string
  detail: string
  /** The counts of a segment, after its repair. */
  kept_messages: number | null
  lost_messages: number | null
}

export interface RepairReport {
  data_dir: string
  is_dry_run: boolean
  actions: RepairAction[]
}

const markName = 'buffer/high-water'
const keysName = 'buffer/idempotency.db'

/**
 * Returns a function that releases the directory. Throws DataDirInUseError if a daemon is running, and ConfigError if
 * another version wrote the buffer, because all of it would look damaged.
 */
export function holdDataDir(root: string): () => void {
  requireKnownFormat(dataDirAt(root).bufferDir)
  return lockDataDir(dataDirAt(root))
}

/**
 * Plans the repair. Throws DataDirError if the metadata is damaged, because only metadata identifies the owner of the
 * buffer.
 */
export function planRepair({ metadata, segments, missing, mark, keysProblem }: Verified): RepairAction[] {
  if (metadata.problems.length > 0) {
    throw new DataDirError(
      'damaged',
      `metadata.db ${metadata.problems.join('; ')}`,
      'it cannot be repaired: restore a backup into a new directory; see docs/damaged-disk.md',
    )
  }
  return [
    ...segments
      .filter(({ problems }) => problems.length > 0)
      .map(({ name, problems, isForeign }) =>
        planned(isForeign ? 'set_aside' : 'salvage', fileOf(name), problems.join('; ')),
      ),
    ...(mark.problem === null ? [] : [planned('rebuild', markName, mark.problem)]),
    ...(keysProblem === null ? [] : [planned('rebuild', keysName, keysProblem)]),
    ...missing.map((range) => planned('note_loss', 'buffer', `nothing is left of stream_seq ${seqs(range)}`)),
  ]
}

/**
 * Executes the repair. The caller must hold the directory. Throws errors of SQLite and the file system; it can be
 * repeated then.
 */
export function repairDataDir(root: string, verified: Verified): RepairAction[] {
  const { dir, identity, knownSeq, nextSeqAtLeast } = specOf(root, verified)
  const plan = planRepair(verified)
  for (const { action, file } of plan) if (action === 'rebuild') setAside(dir.root, file, dir.quarantineDir)
  const spec = {
    dir: dir.bufferDir,
    quarantineDir: dir.quarantineDir,
    identity,
    knownSeq,
    nextSeqAtLeast,
    keysFile: path.join(dir.root, keysName),
  }
  const damaged = verified.segments.filter(({ problems }) => problems.length > 0).map(({ name }) => name)
  const repaired = repairSegments(spec, damaged, openLog({ level: 'silent', format: 'json' }, 'repair'))
  const { missing } = glanceAtDataDir(root)
  if (missing.length > 0) addKnownLosses(dir.quarantineDir, missing, Date.now())
  return [
    ...repaired.map(({ name, outcome, keptMessages, lostMessages }) => ({
      action: outcome === 'salvaged' ? ('salvage' as const) : ('set_aside' as const),
      file: fileOf(name),
      detail: outcomeText[outcome],
      kept_messages: keptMessages,
      lost_messages: outcome === 'foreign' ? null : lostMessages,
    })),
    ...plan.filter(({ action }) => action === 'rebuild'),
    ...missing.map((range) => planned('note_loss', 'buffer', `nothing is left of stream_seq ${seqs(range)}`)),
  ]
}

const outcomeText = {
  salvaged: 'rewritten with every readable message; the damaged file is in quarantine/segments',
  foreign: 'not a segment of this log; it is in quarantine/segments',
  nothing: 'nothing in it can be read; it is in quarantine/segments',
} as const

const fileOf = (name: SegmentName) => `buffer/${path.basename(segmentFile('', name))}`

function planned(action: RepairAction['action'], file: string, detail: string): RepairAction {
  return { action, file, detail, kept_messages: null, lost_messages: null }
}

const seqs = ({ firstSeq, lastSeq }: SeqRange) =>
  firstSeq === lastSeq ? `${firstSeq}` : `${firstSeq} to ${lastSeq}`

function specOf(root: string, { metadata }: Verified) {
  const { epoch, first_seq: nextSeqAtLeast } = current(metadata.epochs)
  const identity = metadata.dataDirId === null ? undefined : { dataDirId: metadata.dataDirId, epoch }
  return { dir: dataDirAt(root), identity, knownSeq: metadata.knownSeq, nextSeqAtLeast }
}

/**
 * Moves the file into the quarantine under a unique name. Files that do not exist are skipped and created again
 * later.
 */
function setAside(root: string, file: string, quarantineDir: string): void {
  mkdirSync(quarantineDir, { recursive: true, mode: 0o700 })
  const stamp = new Date().toISOString().replaceAll(':', '-')
  for (const suffix of ['', '-wal', '-shm']) {
    const from = path.join(root, file + suffix)
    if (existsSync(from)) renameSync(from, path.join(quarantineDir, `${path.basename(from)}.${stamp}`))
  }
  fsyncDirectory(quarantineDir)
  fsyncDirectory(path.dirname(path.join(root, file)))
}
