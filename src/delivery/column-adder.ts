/**
 * Adds columns for keys that no column takes (`auto_add_columns`). It runs beside the lane, after deliveries: its failures are not
 * the lane's, and are reported and repeated with growing pauses.
 *
 *   delivered ─▶ candidates ─▶ a key occurs repeatedly
 *     1  the table is read              which keys can get a column (`sql/infer/automatic.ts`)
 *     2  plan, durable                  within the limits of a day and of the destination (`metadata/added-columns.ts`)
 *     3  ALTER TABLE … ADD COLUMN       in a thread and a connection of its own, with a short wait for locks
 *     4  complete, durable              mapping, audit entry and "added", in one transaction
 *     5  the change is announced        the lane and its driver are opened again with the new column
 *
 *   | killed, or the pipe lost         | is left                      | afterwards
 *   | before 2                         | nothing                      | the key is counted again from zero
 *   | between 2 and 3                  | a planned column             | it is planned already: not counted twice, then added
 *   | between 3 and 4                  | planned, and in the table    | step 1 finds it: it is only mapped
 *   | between 4 and 5                  | mapped                       | a start reads it. In a cluster every node reads the change
 *   |                                  |                              | from the transaction of 4
 *
 * A previous owner writes nothing in 2 and 4, because both hold the lane's row. If it loses the pipe between 2 and 4, the table
 * can have a column without a mapping. It is nullable, so it changes nothing, and the next owner maps it.
 * If its ALTER TABLE reaches the server after that of the next owner, it fails, because the column is there.
 * Management can change the destination at any time: 4 stores nothing if the mapping, the table or the setting is another one
 * than in 1. The mapping that a user sends later replaces all of it, and a column that was added once is not added again.
 *
 * Records that were delivered before the column existed keep NULL.
 */
import type { ColumnFailure } from '../contract/drift.ts'
import { mappingHash } from '../contract/mapping-hash.ts'
import { resourceLimits } from '../contract/resource-limits.ts'
import type { TableProposal } from '../contract/table-proposal.ts'
import type { Batch, DestinationSpec, InferRequest, TableSpec } from '../destinations/driver.ts'
import { type AddedColumnStore, type ColumnTarget, tableKey } from '../metadata/added-columns.ts'
import { LaneOwnershipLostError, type LaneSpec } from '../metadata/lane-state.ts'
import { backoffMs } from '../platform/backoff.ts'
import type { Logger } from '../platform/log.ts'
import type { Clock } from './clock.ts'
import { addsColumns, ColumnCandidates } from './column-candidates.ts'

export interface ColumnAdderDeps {
  store: AddedColumnStore
  /** In a thread of its own: see `IsolatedDrivers.infer`. */
  infer(spec: DestinationSpec, signal: AbortSignal, request: InferRequest): Promise<TableProposal>
  /** The pinned key of the destination's server. */
  pinnedKey(spec: LaneSpec): Promise<string | null>
  /** The mapping of a destination of this pipe, or its table, has changed. */
  onAdded(pipeId: string): void
  clock: Clock
  log: Logger
}

const inferLimitMs = 30_000
const firstPauseMs = 10_000
const longestPauseMs = 3_600_000

interface Adding {
  readonly spec: LaneSpec & TableSpec
  readonly target: ColumnTarget
  readonly candidates: ColumnCandidates
  readonly end: AbortController
  isRunning: boolean
  failures: number
  failure: ColumnFailure | null
  /** After a failure. */
  isPaused: boolean
  cancelRetry: () => void
}

export class ColumnAdder {
  readonly #deps: ColumnAdderDeps
  readonly #adding = new Map<string, Adding>()
  #isClosing = false

  constructor(deps: ColumnAdderDeps) {
    this.#deps = deps
  }

  /** The destination has stored this batch. */
  delivered(spec: LaneSpec, epoch: number, batch: Batch): void {
    const adding = this.#current(spec, epoch)
    if (adding === null) return
    adding.candidates.look(batch, this.#deps.clock.now())
    this.#try(adding)
  }

  /** Why columns could not be added; null: nothing has failed. */
  failureOf(destinationId: string): ColumnFailure | null {
    return this.#adding.get(destinationId)?.failure ?? null
  }

  laneGone(destinationId: string): void {
    const adding = this.#adding.get(destinationId)
    if (adding === undefined) return
    this.#adding.delete(destinationId)
    adding.cancelRetry()
    adding.end.abort()
  }

  close(): void {
    this.#isClosing = true
    for (const destinationId of [...this.#adding.keys()]) this.laneGone(destinationId)
  }

  /** After any change of the destination the keys are counted again. */
  #current(spec: LaneSpec, epoch: number): Adding | null {
    const { destinationId } = spec
    const before = this.#adding.get(destinationId)
    if (before?.spec.revision === spec.revision && before.target.owner.epoch === epoch) return before
    this.laneGone(destinationId)
    if (this.#isClosing || !addsColumns(spec)) return null
    const adding: Adding = {
      spec,
      target: targetOf(spec, epoch),
      candidates: new ColumnCandidates(spec),
      end: new AbortController(),
      isRunning: false,
      failures: 0,
      failure: null,
      isPaused: false,
      cancelRetry: () => {},
    }
    this.#adding.set(destinationId, adding)
    return adding
  }

  #try(adding: Adding): void {
    if (adding.isRunning || adding.isPaused) return
    const keys = adding.candidates.ripe()
    if (keys.length === 0 || adding.end.signal.aborted) return
    adding.isRunning = true
    void this.#run(adding, keys).finally(() => {
      adding.isRunning = false
    })
  }

  async #run(adding: Adding, keys: readonly string[]): Promise<void> {
    try {
      const failure = await this.#add(adding, keys)
      if (adding.end.signal.aborted) return
      if (failure !== null) this.#failed(adding, failure)
      else [adding.failure, adding.failures] = [null, 0]
    } catch (err) {
      // The lane ends, or has another owner, which adds the columns.
      if (adding.end.signal.aborted || err instanceof LaneOwnershipLostError) return
      this.#deps.log.warn({ err, ...namesOf(adding.spec) }, 'destination.columns_failed')
      const message = 'The columns could not be added: the log of pipectl has the cause.'
      this.#failed(adding, { code: 'internal', message, keys: [...keys] })
    }
  }

  #failed(adding: Adding, failure: ColumnFailure): void {
    const { clock, log } = this.#deps
    if (adding.failure?.code !== failure.code)
      log.warn({ ...namesOf(adding.spec), ...failure }, 'destination.columns_not_added')
    adding.failure = failure
    adding.failures += 1
    adding.isPaused = true
    // The end of the pause is one event, because a timer can fire a little before a time that is compared with the clock.
    adding.cancelRetry = clock.wake(backoffMs(adding.failures, firstPauseMs, longestPauseMs), () => {
      adding.isPaused = false
      this.#try(adding)
    })
  }

  /** Steps 1 to 5. Returns why not every key got its column, or null. */
  async #add(adding: Adding, ripe: readonly string[]): Promise<ColumnFailure | null> {
    const { store, log, onAdded } = this.#deps
    const { spec, target, candidates } = adding
    const { planned, added } = await store.known(target)
    const keys = ripe.filter((key) => !added.includes(key))
    candidates.settle(added)
    if (keys.length === 0) return null
    const found = await this.#infer(adding, { keys, planned, addColumns: false })
    if (found.failure !== null) return { ...failureIn(found), keys }
    this.#settleLeftOut(adding, found)
    const inTable = namesIn(found).filter((name) => !found.missing_columns.includes(name))
    const { names, limit } = await store.plan(target, found.missing_columns)
    const chosen = [...names, ...inTable]
    if (chosen.length > 0) {
      const request = { keys: chosen, planned: [...planned, ...names], addColumns: names.length > 0 }
      const done = await this.#infer(adding, request)
      if (done.failure !== null) return { ...failureIn(done), keys: chosen }
      const columns = done.columns.filter(({ column_name }) => chosen.includes(column_name))
      if (!(await store.complete(target, columns, done.executed))) return null
      log.info({ ...namesOf(spec), columns: namesIn(done), ddl: done.executed }, 'destination.columns_added')
      candidates.settle(chosen)
      onAdded(spec.pipeId)
    }
    if (limit === null) return null
    return limitFailure(
      limit,
      found.missing_columns.filter((name) => !names.includes(name)),
    )
  }

  async #infer(
    { spec, candidates, end }: Adding,
    {
      keys,
      planned,
      addColumns,
    }: { keys: readonly string[]; planned: readonly string[]; addColumns: boolean },
  ): Promise<TableProposal> {
    const { infer, pinnedKey, clock } = this.#deps
    const deadline = new AbortController()
    const cancel = clock.wake(inferLimitMs, () => deadline.abort())
    try {
      const pinned = { ...spec, pinnedKey: await pinnedKey(spec) }
      return await infer(pinned, AbortSignal.any([deadline.signal, end.signal]), {
        bodies: candidates.samples(keys),
        source: 'pipe',
        enriched: [],
        keys,
        createTable: false,
        addColumns,
        dedupe: { kind: 'none' },
        automatic: { planned, mapped: spec.columns.map(({ column_name }) => column_name) },
      })
    } finally {
      cancel()
    }
  }

  /** Keys that cannot get a column are not tried again. They stay visible as drift. */
  #settleLeftOut({ spec, candidates }: Adding, { observations }: TableProposal): void {
    const leftOut = observations.filter(({ column_name }) => column_name === null)
    if (leftOut.length === 0) return
    const reasons = leftOut.map(({ key, reason }) => ({ key, reason }))
    this.#deps.log.info({ ...namesOf(spec), keys: reasons }, 'destination.keys_left_out')
    candidates.settle(leftOut.map(({ key }) => key))
  }
}

function namesOf({ destinationId, pipeId, pipeName, name }: LaneSpec): Record<string, string> {
  return { destination_id: destinationId, pipe_id: pipeId, pipe: pipeName, destination: name }
}

function targetOf(spec: LaneSpec & TableSpec, epoch: number): ColumnTarget {
  const { destinationId, workspaceId, pipeId, columns, timestampField, type, config } = spec
  return {
    owner: { destinationId, epoch },
    workspaceId,
    pipeId,
    tableKey: tableKey(type, config),
    mappingHash: columns.length === 0 ? null : mappingHash(columns, timestampField),
    timestampField,
  }
}

function namesIn({ columns }: TableProposal): string[] {
  return columns.map(({ column_name }) => column_name)
}

function failureIn({ failure }: TableProposal): Omit<ColumnFailure, 'keys'> {
  const { code = 'unknown', message = '' } = failure ?? {}
  return { code, message }
}

function limitFailure(limit: 'day' | 'total', keys: string[]): ColumnFailure {
  const { autoAddedColumns, autoAddedColumnsPerDay } = resourceLimits
  const message =
    limit === 'day'
      ? `${autoAddedColumnsPerDay} columns were added in the last 24 hours, which is the limit.`
      : `${autoAddedColumns} columns were added to this table, which is the limit.`
  return { code: 'column_limit', message, keys }
}
