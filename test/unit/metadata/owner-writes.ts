/**
 * Everything that the owner of a lane writes to metadata, and how the test calls it. The types demand that each method of the
 * stores is here or is named as one that only reads: a method that is added has to be put into one of the two lists.
 */

import type { ColumnMapping } from '../../../src/contract/destination.ts'
import { type AddedColumnStore, tableKey } from '../../../src/metadata/added-columns.ts'
import type { LaneOwner } from '../../../src/metadata/lane-ownership.ts'
import {
  type DriftStore,
  type LaneStore,
  newLaneState,
  type RangeStore,
} from '../../../src/metadata/lane-state.ts'
import type { NewParked, ParkedStore } from '../../../src/metadata/parked-store-port.ts'
import type { Metadata } from '../../../src/metadata/store.ts'

/** They change nothing, or are how an owner begins. */
export const notFenced = {
  laneStore: ['load', 'take'],
  parkedStore: ['counts', 'taken', 'parkedIn', 'nextReplay', 'nextRange'],
  driftStore: ['load'],
  addedColumns: ['known'],
} as const

type Writes =
  | Exclude<keyof LaneStore, (typeof notFenced.laneStore)[number]>
  | Exclude<keyof RangeStore, 'nextRange'>
  | Exclude<keyof ParkedStore, (typeof notFenced.parkedStore)[number]>
  | (Exclude<keyof DriftStore, (typeof notFenced.driftStore)[number]> extends 'save' ? 'saveDrift' : never)

export type OwnerWrite =
  | Writes
  | (Exclude<keyof AddedColumnStore, (typeof notFenced.addedColumns)[number]> extends 'plan' | 'complete'
      ? 'planColumns' | 'completeColumns'
      : never)
  | 'savePassed'
  | 'saveReplayed'
  | 'saveDeliveredAgain'
  | 'saveRange'
  | 'countUsage'

const cause = { code: 'stale', message: 'by an owner that was stopped', column: null, value: null } as const

export function parkedOf(seq: number, records: number): NewParked {
  const body = Buffer.from(Array.from({ length: records }, (_, index) => `{"n":${index}}`).join('\n'))
  const msgId = `0198b2a0-0000-7000-8000-${String(seq).padStart(12, '0')}`
  return {
    ...cause,
    ...{ reason: 'permanent_error', msgId, seq, receivedMs: 5, recordIndex: null, firstIndex: 0 },
    ...{ recordCount: records, body, attempts: 1, generation: 0 },
  }
}

/**
 * Writes that carry no epoch and need none, because they say what is to be true afterwards: a row that is intact is not repaired, and
 * usage is counted up to a total that only grows.
 */
export const absoluteWrites: readonly OwnerWrite[] = ['repair', 'countUsage']

/** The counts of the next owner, and those of the stopped one. */
export const countedTotals = { messages: 9, records: 90, bytes: 900 }
const staleTotals = { messages: 8, records: 80, bytes: 800 }

/** The replay of a range whose progress they save. */
export const staleReplayId = '0198b2a0-0000-7000-8000-0000000000ff'

/** The table of the lane. */
const table = { host: 'db.example', port: 5432, database: 'app', table: 'events' }
const staleColumn: ColumnMapping = {
  ...{ column_name: 'stale', source_field: null, semantic_role: null, nullable: true },
  column_type: 'string',
}

/** Each takes the id of a parked row of ten records that is being replayed. */
export function writesOf(
  {
    laneStore,
    parkedStore,
    driftStore,
    addedColumns,
    usage,
    workspaces,
  }: Pick<Metadata, 'laneStore' | 'parkedStore' | 'driftStore' | 'addedColumns' | 'usage' | 'workspaces'>,
  owner: LaneOwner,
  pipeId: string,
): Record<OwnerWrite, (parkedId: string) => Promise<unknown>> {
  const { destinationId, epoch } = owner
  const row = { ...newLaneState(destinationId, 99), ownerEpoch: epoch, deliveredRecords: 77 }
  const passed = [
    { kind: 'delivered', firstSeq: 50, lastSeq: 99, batchLastSeq: 99, atMs: 5, attempts: 1 } as const,
  ]
  const latency = [{ hourMs: 0, counts: { records: [1, 77], delivered: [1, 7], failed: [] } }]
  const counts = {
    ...{ deliveredRecords: 77, failedAttempts: 7, skippedRecords: 7, filteredRecords: 7 },
    ...{ passed, latency },
  }
  const saveWith = (change: Parameters<NonNullable<typeof laneStore.save>>[2]) =>
    laneStore.save([row], [], change)
  const drift = {
    mappingHash: 'stale',
    state: { since_ms: 1, records: 77, keys: [], other_keys: 7, unfilled: [] },
  }
  const columnTarget = async () => ({
    ...{ owner, pipeId, workspaceId: (await workspaces.list())[0]?.workspaceId ?? '' },
    ...{ tableKey: tableKey('destination_database', table), mappingHash: null, timestampField: 'ingest_ts' },
  })
  const staleProgress = {
    ...{ position: row, startedMs: 1, doneMessages: 7 },
    ...{ parkedRecords: 7, expiredRecords: 7, batchNo: null },
  }
  return {
    save: () => laneStore.save([row], [{ destinationId, pipeId, ...counts }]),
    savePassed: () => saveWith(new Map([[destinationId, [{ kind: 'message', parked: parkedOf(98, 2) }]]])),
    saveReplayed: (parkedId) => saveWith(new Map([[destinationId, [{ kind: 'replayed', parkedId }]]])),
    saveDeliveredAgain: () =>
      saveWith(
        new Map([[destinationId, [{ kind: 'delivered_again', afterSeq: 0, throughSeq: 99, generation: 9 }]]]),
      ),
    saveRange: () =>
      saveWith(
        new Map([
          [
            destinationId,
            [{ kind: 'range', replayId: staleReplayId, state: 'done', progress: staleProgress }],
          ],
        ]),
      ),
    numberRange: () => parkedStore.numberRange(owner),
    repair: () => laneStore.repair(row),
    pruneHistory: () => laneStore.pruneHistory(owner, 99),
    park: () => parkedStore.park(owner, [parkedOf(97, 1)]),
    beginReplay: (parkedId) => parkedStore.beginReplay(owner, parkedId),
    replayFailed: (parkedId) =>
      parkedStore.replayFailed(owner, parkedId, cause, { attempts: 5, firstIndex: 7 }),
    replayHalfStored: (parkedId) => parkedStore.replayHalfStored(owner, parkedId, 7),
    countUsage: () => usage.countUpTo([{ pipeId, ...staleTotals }], 0),
    saveDrift: () => driftStore.save(owner, drift),
    planColumns: async () => addedColumns.plan(await columnTarget(), ['stale']),
    completeColumns: async () =>
      addedColumns.complete(await columnTarget(), [staleColumn], ['ALTER TABLE stale']),
  }
}
