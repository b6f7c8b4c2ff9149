/**
 * The stages of a job. All are repeatable; a job that was interrupted begins its current stage again, with the same keys
 * and the same newest message.
 *
 *   search    counts and lists the records in the buffer and among parked ones. `find` ends here.
 *   buffer    records that are parked at their pipe, before any lane, are deleted first: a replay would add them to the
 *             log. The log rewrites its files without the records. No later read returns them.
 *   lanes     parked records are deleted, so that none of them is replayed. Each lane then ends its attempt, and drops
 *             the messages in its memory and the texts of its errors.
 *   parked    deletes what a lane had parked until then, from messages that it had read before
 *   metadata  deletes texts that can quote a record: errors, excerpts of responses, examples
 *   files     the values are gone from the job. Removes copies of metadata.db from before upgrades, rewrites the file.
 *
 *   | the process ends …                | what is left                          | the next start                      |
 *   |-----------------------------------|---------------------------------------|-------------------------------------|
 *   | before the job is saved           | nothing was accepted                  | nothing                             |
 *   | during search                     | everything                            | counts again from zero              |
 *   | during buffer                     | some files                            | the log finds the others            |
 *   | after a file, before its count is | the file without the records          | `deleted` lacks that file's records,|
 *   |   saved                           |                                       |   `found` has them                  |
 *   | during lanes or parked            | parked rows, some lanes' memory is    | lanes read the new files; the rows  |
 *   |                                   |   gone with the process               |   are found again                   |
 *   | during metadata                   | some texts                            | the same texts are found again      |
 *   | after the values are removed      | copies, free space                    | removes them without the values     |
 *   | after the rewrite, before `done`  | nothing                               | rewrites the file once more         |
 *
 * A lane can have sent a record to its destination before it was told to drop it. Such a record was being delivered when
 * it was deleted, and is listed with the destinations where copies remain.
 */
import type { PrivacyJob, PrivacyStage } from '../contract/privacy.ts'
import { resourceLimits } from '../contract/resource-limits.ts'
import { pathKeys } from '../contract/transform.ts'
import type { ErasureProgress, LogErasure } from '../log/erasure.ts'
import type { ErasablePipe, PrivacyErasure } from '../metadata/privacy-erasure.ts'
import type { PrivacyJobs, PrivacyProgress, RunnableJob } from '../metadata/privacy-jobs.ts'
import {
  eraseParked,
  erasePipeParked,
  findParked,
  findPipeParked,
  type ParkedSearch,
} from './parked-records.ts'
import { remainingCopies } from './remaining.ts'

export interface ErasureDeps {
  jobs: PrivacyJobs
  store: PrivacyErasure
  log: LogErasure
  lanes: {
    /** Each lane of the pipe drops what it has in memory. */
    reread(pipeId: string): Promise<void>
    /** Parked records of the destination were removed. */
    parkedChanged(destinationId: string): Promise<void>
  }
  /** See PipeReplays: records that are parked at their pipe, before any lane. */
  withoutReplays(work: (hasReplayed: boolean) => Promise<void>): Promise<void>
  /** The newest message of the buffer. */
  headSeq(): Promise<number>
  now(): number
  /** A copy of the log is in object storage. */
  hasReplica: boolean
  /** A stage begins; that is saved. */
  onStage(job: Pick<RunnableJob, 'jobId' | 'kind'>, stage: PrivacyStage): void
}

/** The job was cancelled, or the daemon stops. */
export class CancelledError extends Error {
  constructor() {
    super('the job was stopped')
    this.name = 'CancelledError'
  }
}

/** Updates the progress of the job. Returns the final counts. Rejects with the reason of the signal, or an error of a store. */
export async function runJob(
  job: RunnableJob,
  deps: ErasureDeps,
  signal: AbortSignal,
): Promise<Pick<PrivacyProgress, 'found' | 'deleted'>> {
  const run = new Run(job, deps, signal)
  await run.all()
  return run.progress
}

/** Progress is saved at most so often; a stage saves it at its end too. */
const saveEveryMs = 500

class Run {
  readonly #job: RunnableJob
  readonly #deps: ErasureDeps
  readonly #signal: AbortSignal
  readonly #conditions: { path: readonly string[]; value: string }[]
  /** An earlier process has begun it. */
  readonly #isResumed: boolean
  #savedAt = Number.NEGATIVE_INFINITY
  #saving: Promise<unknown> = Promise.resolve()

  constructor(job: RunnableJob, deps: ErasureDeps, signal: AbortSignal) {
    this.#job = job
    this.#isResumed = job.progress.stage !== null
    this.#deps = deps
    this.#signal = signal
    // Management has checked the paths.
    this.#conditions = job.keys.map(({ path, value }) => ({ path: pathKeys(path) as string[], value }))
  }

  get progress(): PrivacyProgress {
    return this.#job.progress
  }

  async all(): Promise<void> {
    const { store, jobs } = this.#deps
    const { workspaceId, pipeIds, kind, jobId } = this.#job
    const pipes = await store.erasablePipes(workspaceId, pipeIds)
    const first = this.progress.stage ?? 'search'
    if (first === 'search') await this.#stage('search', () => this.#search(pipes))
    if (kind === 'delete' && first !== 'files') await this.#delete(pipes)
    if (kind === 'delete') await this.#stage('files', () => this.#files(), { forgetsKeys: true })
    this.#change({ remaining: [...this.progress.remaining, ...remainingCopies(pipes, this.#deps)] })
    await jobs.finish(jobId, 'done', this.progress)
  }

  /** All of these stages are repeated after an interruption: each takes little time when nothing is left. */
  async #delete(pipes: readonly ErasablePipe[]): Promise<void> {
    await this.#stage('buffer', () => this.#buffer(pipes))
    const affected = new Set(this.progress.pipes.map(({ pipe_id }) => pipe_id))
    await this.#stage('lanes', async () => {
      await this.#parked(pipes, affected)
      await this.#lanes(pipes, affected)
    })
    await this.#stage('parked', () => this.#parked(pipes, affected))
    await this.#stage('metadata', () => this.#texts(pipes, affected))
  }

  async #search(pipes: readonly ErasablePipe[]): Promise<void> {
    const found = new Found()
    const { log, store } = this.#deps
    let lastMsgId: string | null = null
    for await (const one of log.find(this.#request(pipes), this.#signal)) {
      const { pipeId, msgId, streamSeq, recordIndex } = one
      const match = { pipe_id: pipeId, msg_id: msgId, stream_seq: streamSeq, record_index: recordIndex }
      found.add({ ...match, is_parked: false }, msgId !== lastMsgId)
      lastMsgId = msgId
      this.#change(found.result)
      await this.#saveSometimes()
    }
    const search = this.#parkedSearch(pipes)
    await findParked({ ...search, store }, (match) => found.add(match, false))
    await findPipeParked(search, ({ pipeId }) => found.addAtPipe(pipeId))
    this.#change(found.result)
  }

  async #buffer(pipes: readonly ErasablePipe[]): Promise<void> {
    const request = this.#request(pipes)
    if (await this.#atPipes(pipes)) request.throughSeq = await this.#deps.headSeq()
    const before = this.progress.deleted
    const onProgress = ({ messages, records, filesLeft }: ErasureProgress) => {
      const deleted = { ...before, messages: before.messages + messages, records: before.records + records }
      this.#change({ deleted, filesLeft })
      // A cancelled job is noticed by the signal and at the end of the stage.
      this.#saveSometimes().catch(() => {})
    }
    onProgress(await this.#deps.log.erase(request, onProgress, this.#signal))
    this.#change({ filesLeft: null })
  }

  /**
   * Deletes what is parked at pipes, before any lane. True: records that were parked at the request can have been replayed
   * since, so that they are behind its newest message.
   */
  async #atPipes(pipes: readonly ErasablePipe[]): Promise<boolean> {
    let mayBeReplayed = this.#isResumed
    await this.#deps.withoutReplays(async (hasReplayed) => {
      mayBeReplayed ||= hasReplayed
      await erasePipeParked(this.#parkedSearch(pipes), async ({ isReplaying }) => {
        mayBeReplayed ||= isReplaying
        const { deleted } = this.progress
        this.#change({ deleted: { ...deleted, parked: deleted.parked + 1 } })
        await this.#saveSometimes()
      })
    })
    return mayBeReplayed
  }

  /** Adds the pipes of deleted records to `affected`. */
  async #parked(pipes: readonly ErasablePipe[], affected: Set<string>): Promise<void> {
    await eraseParked(this.#parkedSearch(pipes), async ({ pipeId, destinationId }, records) => {
      affected.add(pipeId)
      const { deleted } = this.progress
      this.#change({ deleted: { ...deleted, parked: deleted.parked + records } })
      await this.#deps.lanes.parkedChanged(destinationId)
      await this.#saveSometimes()
    })
  }

  /** The lanes that can have read such records, and those whose error quotes a value. */
  async #lanes(pipes: readonly ErasablePipe[], affected: ReadonlySet<string>): Promise<void> {
    const others = pipes.filter(({ pipeId }) => !affected.has(pipeId))
    const ids = others.flatMap(({ destinations }) => destinations.map(({ destinationId }) => destinationId))
    const quoting = new Set(await this.#deps.store.quotingLanes(ids, this.#values))
    const isMeant = ({ pipeId, destinations }: ErasablePipe) =>
      affected.has(pipeId) || destinations.some(({ destinationId }) => quoting.has(destinationId))
    for (const { pipeId } of pipes.filter(isMeant)) {
      this.#signal.throwIfAborted()
      await this.#deps.lanes.reread(pipeId)
    }
  }

  async #texts(pipes: readonly ErasablePipe[], affectedPipes: ReadonlySet<string>): Promise<void> {
    const affected: string[] = []
    const others: string[] = []
    for (const { pipeId, destinations } of pipes)
      for (const { destinationId } of destinations)
        (affectedPipes.has(pipeId) ? affected : others).push(destinationId)
    await this.#deps.store.eraseTexts(this.#job.workspaceId, { affected, others }, this.#values)
  }

  async #files(): Promise<void> {
    const { file } = this.#deps.store
    if (file === null) return
    const copiesRemoved = this.progress.copiesRemoved + file.removeCopies()
    this.#change({ copiesRemoved, remaining: [] })
    const problem = await file.rewrite()
    if (problem === null) return
    const note = `${problem} Deleted content can still be in free space of the file: start the deletion again, or stop the daemon and run: sqlite3 metadata.db VACUUM`
    this.#change({ remaining: [{ kind: 'metadata', name: 'metadata.db', note }] })
  }

  get #values(): string[] {
    return this.#conditions.map(({ value }) => value)
  }

  #request(pipes: readonly ErasablePipe[]) {
    const { throughSeq } = this.#job
    return { pipeIds: pipes.map(({ pipeId }) => pipeId), conditions: this.#conditions, throughSeq }
  }

  #parkedSearch(pipes: readonly ErasablePipe[]): ParkedSearch {
    return { store: this.#deps.store, pipes, conditions: this.#conditions, signal: this.#signal }
  }

  async #stage(stage: PrivacyStage, work: () => Promise<void>, { forgetsKeys = false } = {}): Promise<void> {
    this.#signal.throwIfAborted()
    this.#change({ stage, startedMs: this.progress.startedMs ?? this.#deps.now() })
    await this.#save(forgetsKeys)
    this.#deps.onStage(this.#job, stage)
    await work()
    await this.#save()
  }

  #change(change: Partial<PrivacyProgress>): void {
    this.#job.progress = { ...this.progress, ...change }
  }

  async #saveSometimes(): Promise<void> {
    if (performance.now() - this.#savedAt < saveEveryMs) return
    await this.#save()
  }

  async #save(forgetsKeys = false): Promise<void> {
    this.#savedAt = performance.now()
    const { jobs } = this.#deps
    const { jobId } = this.#job
    const save = () => (forgetsKeys ? jobs.forgetKeys(jobId, this.progress) : jobs.save(jobId, this.progress))
    const saved = this.#saving.then(save)
    this.#saving = saved.catch(() => {})
    // False: a user has cancelled it.
    if (!(await saved)) throw new CancelledError()
  }
}

/** The counts of a search, in total and by pipe, and the first matches. */
class Found {
  readonly #pipes = new Map<string, PrivacyJob['pipes'][number]>()
  readonly #matches: PrivacyJob['matches'] = []
  readonly #total = { messages: 0, records: 0, parked: 0 }
  #hasMore = false

  add(match: PrivacyJob['matches'][number], isNewMessage: boolean): void {
    const pipe = this.#pipes.get(match.pipe_id) ?? {
      pipe_id: match.pipe_id,
      messages: 0,
      records: 0,
      parked: 0,
    }
    this.#pipes.set(match.pipe_id, pipe)
    for (const counts of [pipe, this.#total]) {
      counts[match.is_parked ? 'parked' : 'records'] += 1
      if (isNewMessage) counts.messages += 1
    }
    if (this.#matches.length < resourceLimits.privacyMatches) this.#matches.push(match)
    else this.#hasMore = true
  }

  /** It is parked at its pipe, so it has no position in the buffer and is not listed. */
  addAtPipe(pipeId: string): void {
    const pipe = this.#pipes.get(pipeId) ?? { pipe_id: pipeId, messages: 0, records: 0, parked: 0 }
    this.#pipes.set(pipeId, pipe)
    for (const counts of [pipe, this.#total]) counts.parked += 1
  }

  get result(): Pick<PrivacyProgress, 'found' | 'pipes' | 'matches' | 'hasMoreMatches'> {
    return {
      found: { ...this.#total },
      pipes: [...this.#pipes.values()],
      matches: this.#matches,
      hasMoreMatches: this.#hasMore,
    }
  }
}
