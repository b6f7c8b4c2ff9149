/**
 * Jobs that find or delete personal data (docs/personal-data.md): requested, listed and cancelled by users, run by
 * the daemon one at a time, the oldest of all workspaces first.
 *
 * The values that a job looks for are personal data. They are sealed while the job waits or runs, and removed in the
 * statement that ends it. The audit entry has only the paths of the keys.
 *
 * Progress is saved by one process. A cancelled job keeps its state when its runner saves once more.
 */
import { v7 } from 'uuid'
import type { PrivacyCounts, PrivacyJob, PrivacyKey, PrivacyKind } from '../contract/privacy.ts'
import { resourceLimits } from '../contract/resource-limits.ts'
import { dayMs } from '../platform/quantities.ts'
import type { Audited, RecordChange } from './audit.ts'
import type { Sealer } from './secrets.ts'
import { isoTime, normaliseId, type PrivacyJobRow } from './tables.ts'
import { type Connection, inWriteTransaction } from './transactions.ts'

const { privacyJobsPerWorkspace, finishedPrivacyJobs, finishedPrivacyDays } = resourceLimits

export interface NewPrivacyJob {
  kind: PrivacyKind
  /** Empty in the last stage of a deletion. */
  keys: readonly PrivacyKey[]
  /** Null: all pipes of the workspace. */
  pipeIds: readonly string[] | null
  /** The newest message of the buffer at the time of the request. Later ones are not covered. */
  throughSeq: number
}

/** The part of a job that does not change. */
interface RequestedJob extends Omit<NewPrivacyJob, 'keys'> {
  keyPaths: string[]
  createdBy: PrivacyJob['created_by']
}

export interface PrivacyProgress
  extends Pick<PrivacyJob, 'stage' | 'pipes' | 'matches' | 'remaining' | 'error'> {
  startedMs: number | null
  filesLeft: number | null
  found: PrivacyCounts
  deleted: PrivacyCounts
  hasMoreMatches: boolean
  copiesRemoved: number
}

/** A job as its runner gets it. */
export interface RunnableJob extends NewPrivacyJob {
  jobId: string
  workspaceId: string
  createdMs: number
  progress: PrivacyProgress
}

export interface PrivacyJobs {
  create(
    workspaceId: string,
    job: NewPrivacyJob,
  ): Promise<{ kind: 'created'; job: PrivacyJob } | { kind: 'full' }>
  /** Newest first, without matches. */
  list(workspaceId: string): Promise<PrivacyJob[]>
  get(workspaceId: string, jobId: string): Promise<PrivacyJob | null>
  cancel(workspaceId: string, jobId: string): Promise<'cancelled' | 'finished' | 'not_found'>
  /** The job that runs, or else the oldest that waits, of all workspaces. Throws UnsealError if its keys are damaged. */
  next(): Promise<RunnableJob | null>
  /** False: the job was cancelled, or its workspace was deleted. */
  save(jobId: string, progress: PrivacyProgress): Promise<boolean>
  /** Removes the values, which the last stage does not need. False as `save`. */
  forgetKeys(jobId: string, progress: PrivacyProgress): Promise<boolean>
  /** Ends the job and removes its values. Does nothing if it was cancelled. */
  finish(jobId: string, state: 'done' | 'failed', progress: PrivacyProgress): Promise<void>
  /** Ends a job whose keys cannot be read. */
  giveUp(error: string): Promise<void>
}

export function privacyJobs(
  db: Connection,
  { sealer, now }: { sealer: Sealer; now: () => number },
  inAudited: Audited,
): PrivacyJobs {
  const oldest = (trx: Connection) =>
    trx.selectFrom('privacy_jobs').selectAll().where('is_over', '=', 0).orderBy('job_id').limit(1)
  return {
    create: (workspaceId, job) =>
      inAudited((trx, record) =>
        create(trx, { workspaceId: normaliseId(workspaceId), job, sealer, nowMs: now() }, record),
      ),

    async list(workspaceId) {
      const rows = await ofWorkspace(db, workspaceId)
        .where((eb) =>
          eb.or([eb('is_over', '=', 0), eb('finished_ms', '>=', now() - finishedPrivacyDays * dayMs)]),
        )
        .orderBy('job_id', 'desc')
        .limit(privacyJobsPerWorkspace + finishedPrivacyJobs)
        .execute()
      return rows.map((row) => ({ ...shown(row), matches: [] }))
    },

    async get(workspaceId, jobId) {
      const row = await one(db, workspaceId, jobId)
      return row === undefined ? null : shown(row)
    },

    cancel: (workspaceId, jobId) =>
      inAudited(async (trx, record) => {
        const row = await one(trx, workspaceId, jobId)
        if (row === undefined) return 'not_found'
        if (row.is_over === 1) return 'finished'
        await end(trx, row.job_id, 'cancelled', now())
        await record({
          workspaceId: row.workspace_id,
          operation: 'cancelPrivacyJob',
          resourceId: row.job_id,
          pipeId: null,
          before: { state: row.state },
          after: { state: 'cancelled' },
        })
        return 'cancelled'
      }),

    async next() {
      const row = await oldest(db).executeTakeFirst()
      return row === undefined ? null : runnable(row, sealer)
    },

    save: (jobId, progress) => saved(db, jobId, { progress_json: JSON.stringify(progress) }),

    forgetKeys: (jobId, progress) =>
      saved(db, jobId, { progress_json: JSON.stringify(progress), sealed_keys: null }),

    finish: (jobId, state, progress) =>
      inWriteTransaction(db, async (trx) => {
        const progress_json = JSON.stringify({ ...progress, stage: null, filesLeft: null })
        await trx.updateTable('privacy_jobs').set({ progress_json }).where('job_id', '=', jobId).execute()
        await end(trx, jobId, state, now())
      }),

    giveUp: (error) =>
      inWriteTransaction(db, async (trx) => {
        const row = await oldest(trx).executeTakeFirst()
        if (row === undefined) return
        const progress_json = JSON.stringify({ ...progressOf(row), stage: null, error })
        await trx
          .updateTable('privacy_jobs')
          .set({ progress_json })
          .where('job_id', '=', row.job_id)
          .execute()
        await end(trx, row.job_id, 'failed', now())
      }),
  }
}

async function saved(
  db: Connection,
  jobId: string,
  change: Pick<PrivacyJobRow, 'progress_json'> & Partial<Pick<PrivacyJobRow, 'sealed_keys'>>,
): Promise<boolean> {
  return await inWriteTransaction(db, async (trx) => {
    const { numUpdatedRows } = await trx
      .updateTable('privacy_jobs')
      .set({ state: 'running', ...change })
      .where('job_id', '=', jobId)
      .where('is_over', '=', 0)
      .executeTakeFirst()
    return numUpdatedRows > 0n
  })
}

interface Creation {
  workspaceId: string
  job: NewPrivacyJob
  sealer: Sealer
  nowMs: number
}

async function create(
  trx: Connection,
  { workspaceId, job, sealer, nowMs }: Creation,
  record: RecordChange,
): ReturnType<PrivacyJobs['create']> {
  const waiting = await ofWorkspace(trx, workspaceId).where('is_over', '=', 0).execute()
  if (waiting.length >= privacyJobsPerWorkspace) return { kind: 'full' }
  const { keys, ...fixed } = job
  const job_id = v7()
  const keyPaths = keys.map(({ path }) => path)
  const entry = await record({
    workspaceId,
    operation: 'createPrivacyJob',
    resourceId: job_id,
    pipeId: null,
    before: null,
    after: { kind: job.kind, key_paths: keyPaths, pipe_ids: job.pipeIds },
  })
  const createdBy = entry?.actor ?? { kind: 'local', id: null, name: null }
  const request: RequestedJob = { ...fixed, keyPaths, createdBy }
  const row: PrivacyJobRow = {
    job_id,
    workspace_id: workspaceId,
    state: 'waiting',
    is_over: 0,
    created_ms: nowMs,
    finished_ms: null,
    request_json: JSON.stringify(request),
    sealed_keys: sealer.seal(JSON.stringify(keys), owner(job_id)),
    progress_json: JSON.stringify(noProgress),
  }
  await trx.insertInto('privacy_jobs').values(row).execute()
  await prune(trx, workspaceId, nowMs)
  return { kind: 'created', job: shown(row) }
}

const noCounts: PrivacyCounts = { messages: 0, records: 0, parked: 0 }
const noProgress: PrivacyProgress = {
  stage: null,
  startedMs: null,
  filesLeft: null,
  found: noCounts,
  deleted: noCounts,
  pipes: [],
  matches: [],
  hasMoreMatches: false,
  copiesRemoved: 0,
  remaining: [],
  error: null,
}

/** The position of the sealed value, which is authenticated with it. */
function owner(jobId: string): string {
  return `privacy_jobs/${jobId}`
}

async function end(
  trx: Connection,
  jobId: string,
  state: 'done' | 'failed' | 'cancelled',
  nowMs: number,
): Promise<void> {
  await trx
    .updateTable('privacy_jobs')
    .set({ state, is_over: 1, finished_ms: nowMs, sealed_keys: null })
    .where('job_id', '=', jobId)
    .where('is_over', '=', 0)
    .execute()
}

/** Removes jobs that ended too long ago, or before `finishedPrivacyJobs` others. */
async function prune(trx: Connection, workspaceId: string, nowMs: number): Promise<void> {
  const finished = await trx
    .selectFrom('privacy_jobs')
    .select(['job_id', 'finished_ms'])
    .where('workspace_id', '=', workspaceId)
    .where('is_over', '=', 1)
    .orderBy('job_id', 'desc')
    .execute()
  const oldestMs = nowMs - finishedPrivacyDays * dayMs
  const gone = finished.filter(
    ({ finished_ms }, index) => index >= finishedPrivacyJobs || (finished_ms ?? 0) < oldestMs,
  )
  for (const { job_id } of gone) await trx.deleteFrom('privacy_jobs').where('job_id', '=', job_id).execute()
}

function ofWorkspace(db: Connection, workspaceId: string) {
  return db.selectFrom('privacy_jobs').selectAll().where('workspace_id', '=', normaliseId(workspaceId))
}

async function one(db: Connection, workspaceId: string, jobId: string): Promise<PrivacyJobRow | undefined> {
  return await ofWorkspace(db, workspaceId).where('job_id', '=', normaliseId(jobId)).executeTakeFirst()
}

function runnable(row: PrivacyJobRow, sealer: Sealer): RunnableJob {
  const { kind, pipeIds, throughSeq } = requestOf(row)
  return {
    jobId: row.job_id,
    workspaceId: row.workspace_id,
    createdMs: row.created_ms,
    kind,
    pipeIds,
    throughSeq,
    keys:
      row.sealed_keys === null
        ? []
        : (JSON.parse(sealer.open(row.sealed_keys, owner(row.job_id))) as PrivacyKey[]),
    progress: progressOf(row),
  }
}

function requestOf({ request_json }: PrivacyJobRow): RequestedJob {
  return JSON.parse(request_json) as RequestedJob
}

function progressOf({ progress_json }: PrivacyJobRow): PrivacyProgress {
  return { ...noProgress, ...(JSON.parse(progress_json) as Partial<PrivacyProgress>) }
}

function shown(row: PrivacyJobRow): PrivacyJob {
  const { kind, keyPaths, pipeIds, createdBy } = requestOf(row)
  const { startedMs, filesLeft, hasMoreMatches, copiesRemoved, ...progress } = progressOf(row)
  return {
    job_id: row.job_id,
    kind,
    state: row.state,
    key_paths: keyPaths,
    pipe_ids: pipeIds === null ? null : [...pipeIds],
    stage: row.state === 'running' ? progress.stage : null,
    files_left: row.state === 'running' ? filesLeft : null,
    found: progress.found,
    deleted: progress.deleted,
    pipes: progress.pipes,
    matches: progress.matches,
    has_more_matches: hasMoreMatches,
    upgrade_copies_removed: copiesRemoved,
    remaining: progress.remaining,
    error: progress.error,
    created_ts: isoTime(row.created_ms),
    created_by: createdBy,
    started_ts: startedMs === null ? null : isoTime(startedMs),
    finished_ts: row.finished_ms === null ? null : isoTime(row.finished_ms),
  }
}
