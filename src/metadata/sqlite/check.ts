/**
 * Reads a metadata file for `verify`: its data directory id, the positions of its lanes, and its damage. Changes
 * nothing.
 */
import type Database from 'better-sqlite3'
import { type Epoch, firstEpochs } from '../../contract/epochs.ts'
import { ConfigError } from '../../platform/config-error.ts'
import { messageOf } from '../../platform/error-code.ts'
import { isCorrupt, isReadFailure } from '../../platform/storage-error.ts'
import { identityOf, knownSeqOf } from '../identity.ts'
import { isLaneRowIntact, shownLane } from '../lane-store.ts'
import type { LaneRow, PipeRow } from '../tables.ts'
import { readSqliteFile } from './file.ts'

export interface CheckedLane {
  destinationId: string
  pipeId: string
  pipeName: string
  cursorSeq: number
  /** False: the row fails its checksum. */
  isIntact: boolean
}

export interface MetadataCheck {
  /** Null: it cannot be read. */
  dataDirId: string | null
  epochs: readonly Epoch[]
  /** The greatest seq that metadata refers to. */
  knownSeq: number
  lanes: CheckedLane[]
  /** Descriptions for the operator; empty: no problem. */
  problems: string[]
}

/**
 * Checks the file before a daemon opens it. A single wrong bit in an index makes a pipe or a destination disappear
 * without an error. It reads the whole file, which takes some milliseconds for thousands of pipes, and changes nothing.
 * If the file cannot be opened for another reason, opening it later reports why. Throws ConfigError if the file is
 * damaged.
 */
export function requireIntactMetadata(file: string): void {
  const problem = structureProblem(file)
  if (problem === null) return
  throw new ConfigError(
    `metadata: ${file} is damaged (${problem}). Nothing was changed. Keep the file, and restore the newest backup into ` +
      'another directory (pipectl restore)',
  )
}

function structureProblem(file: string): string | null {
  try {
    return readSqliteFile(file, structureOf)
  } catch (error) {
    return isReadFailure(error) || isCorrupt(error) ? messageOf(error) : null
  }
}

/** Null: no damage found. */
function structureOf(database: Database.Database): string | null {
  const result = database.prepare<[], string>('PRAGMA integrity_check(1)').pluck().get()
  return result === 'ok' ? null : (result?.replaceAll(/\s+/g, ' ') ?? 'no answer')
}

export function checkMetadata(file: string): MetadataCheck {
  const check: MetadataCheck = { dataDirId: null, epochs: firstEpochs, knownSeq: 0, lanes: [], problems: [] }
  try {
    readSqliteFile(file, (database) => readInto(check, database))
  } catch (error) {
    check.problems.push(`cannot be read: ${messageOf(error)}`)
  }
  return check
}

function readInto(check: MetadataCheck, database: Database.Database): void {
  // One snapshot of all tables, even if a daemon writes at the same time.
  database.exec('BEGIN')
  const problem = structureOf(database)
  if (problem !== null) check.problems.push(`its structure is damaged: ${problem}`)
  const settings = database.prepare<[], [string, string]>('SELECT name, value FROM metadata_settings').raw()
  const identity = identityOf(new Map(settings.all()))
  check.dataDirId = identity?.dataDirId ?? null
  check.epochs = identity?.epochs ?? firstEpochs
  const rows = readRows(database)
  check.lanes = rows.map(laneOf)
  check.knownSeq = knownSeqOf(rows, check.epochs)
}

type LaneOfPipe = LaneRow & Pick<PipeRow, 'pipe_id' | 'pipe_name'>

function readRows(database: Database.Database): LaneOfPipe[] {
  return database
    .prepare<[], LaneOfPipe>(
      `SELECT lanes.*, pipe_id, pipe_name FROM lanes JOIN destinations USING (destination_id) JOIN pipes USING (pipe_id)
       ORDER BY pipe_name, destinations.creation_order`,
    )
    .all()
}

function laneOf(lane: LaneOfPipe): CheckedLane {
  return {
    destinationId: lane.destination_id,
    pipeId: lane.pipe_id,
    pipeName: lane.pipe_name,
    cursorSeq: shownLane(lane).cursorSeq,
    isIntact: isLaneRowIntact(lane),
  }
}
