/**
 * Runs the jobs that find or delete personal data, one at a time, the oldest of all workspaces first
 * (docs/personal-data.md). A job is durable in metadata; this loop can be ended at any time.
 *
 *   sleeping ──a job is created, start of the daemon──▶ running its stages ──▶ done, failed
 *      ▲                                                   │      │
 *      ├──────────── cancelled: the stage is ended ◀───────┤      └─ storage unavailable: waits, then the same stage
 *      └──────────── no job ◀──────────────────────────────┘
 *
 * The stages and their order: `erasure.ts`.
 */
import type { PrivacyJobs } from '../metadata/privacy-jobs.ts'
import { UnsealError } from '../metadata/secrets.ts'
import { backoffMs } from '../platform/backoff.ts'
import { DeliveryUnavailableError, StorageUnavailableError } from '../platform/error-code.ts'
import type { Logger } from '../platform/log.ts'
import { Waits } from '../platform/waits.ts'
import { CancelledError, type ErasureDeps, runJob } from './erasure.ts'

const firstWaitMs = 1_000
const longestWaitMs = 30_000

export class PrivacyRunner {
  readonly #deps: ErasureDeps
  readonly #log: Logger
  readonly #waits = new Waits()
  #current: { jobId: string; cancel: AbortController } | null = null
  #isClosing = false
  /** A job was created while the loop looked for one. */
  #isChanged = false
  #loop: Promise<void> = Promise.resolve()
  /** Jobs that ended, and records that were deleted, since the process started. */
  readonly counts = { done: 0, failed: 0, deletedRecords: 0 }

  constructor(deps: Omit<ErasureDeps, 'onStage'>, log: Logger) {
    const onStage: ErasureDeps['onStage'] = ({ jobId, kind }, stage) =>
      log.info({ job_id: jobId, kind, stage }, 'privacy.stage_started')
    this.#deps = { ...deps, onStage }
    this.#log = log
  }

  start(): void {
    this.#loop = this.#run()
  }

  /** A job was created or cancelled. */
  changed(jobId: string): void {
    if (this.#current?.jobId === jobId) this.#current.cancel.abort(new CancelledError())
    this.#isChanged = true
    this.#waits.end()
  }

  /** The current stage ends where it is; the next start repeats it. */
  async close(): Promise<void> {
    this.#isClosing = true
    this.#current?.cancel.abort(new CancelledError())
    this.#waits.end()
    await this.#loop
  }

  async #run(): Promise<void> {
    for (let failures = 0; !this.#isClosing; ) {
      this.#isChanged = false
      try {
        const isMore = await this.#runNext()
        failures = 0
        if (!isMore && !this.#isChanged && !this.#isClosing) await this.#waits.wait(Number.POSITIVE_INFINITY)
      } catch (err) {
        if (this.#isClosing) return
        failures += 1
        this.#log.warn({ err }, 'privacy.job_waits')
        await this.#waits.wait(backoffMs(failures, firstWaitMs, longestWaitMs))
      }
    }
  }

  /** False: there is no job. Rejects when the storage is not available. */
  async #runNext(): Promise<boolean> {
    const { jobs } = this.#deps
    const job = await nextJob(jobs, this.#log)
    if (job === null) return false
    const cancel = new AbortController()
    this.#current = { jobId: job.jobId, cancel }
    const fields = { job_id: job.jobId, workspace_id: job.workspaceId, kind: job.kind }
    try {
      this.#log.info({ ...fields, stage: job.progress.stage }, 'privacy.job_started')
      const { found, deleted } = await runJob(job, this.#deps, cancel.signal)
      this.counts.done += 1
      this.counts.deletedRecords += deleted.records + deleted.parked
      this.#log.info({ ...fields, found, deleted }, 'privacy.job_done')
    } catch (err) {
      if (err instanceof CancelledError || cancel.signal.aborted) {
        this.#log.info(fields, 'privacy.job_stopped')
        return true
      }
      if (isUnavailable(err)) throw err
      this.counts.failed += 1
      // The text of the error stays in the log of the daemon: it could quote what was searched.
      this.#log.error({ ...fields, err }, 'privacy.job_failed')
      await jobs.finish(job.jobId, 'failed', { ...job.progress, error: failedText })
    } finally {
      this.#current = null
    }
    return true
  }
}

const failedText =
  'The job failed; the log of the daemon says why. Start it again: what was deleted stays deleted.'
const unreadableText =
  'The sealing key was changed, so the keys of this job cannot be read. Start the job again.'

async function nextJob(jobs: PrivacyJobs, log: Logger) {
  for (;;) {
    try {
      return await jobs.next()
    } catch (err) {
      if (!(err instanceof UnsealError)) throw err
      log.error({ err }, 'privacy.job_failed')
      await jobs.giveUp(unreadableText)
    }
  }
}

function isUnavailable(error: unknown): boolean {
  return error instanceof StorageUnavailableError || error instanceof DeliveryUnavailableError
}
