/**
 * Changes a metadata file while no daemon uses it: seals its secrets with another key, removes secrets whose key is
 * lost, blocks every destination.
 *
 * Each change is one transaction. A crash leaves every secret sealed with the old key, or every one with the new.
 */
import { statSync } from 'node:fs'
import Database from 'better-sqlite3'
import { type DestinationType, secretKind } from '../../contract/destination-words.ts'
import { nextEpoch } from '../../contract/epochs.ts'
import { maskSaltPlace } from '../../contract/transform.ts'
import { ConfigError } from '../../platform/config-error.ts'
import { openConfig, openTransform, sealConfig, sealTransform, withoutSalt } from '../destination-config.ts'
import { type DataDirIdentity, identityOf, identityRows, knownSeqOf } from '../identity.ts'
import { formatProblem } from '../migrations.ts'
import { createSealer, type Sealer, UnsealError } from '../secrets.ts'
import type { DestinationRow, LaneRow } from '../tables.ts'
import { readSqliteFile } from './file.ts'
import { dropPendingAlerts, lostAlerts, removeAlerts, resealAlerts } from './offline-alerts.ts'
import { type LocalCommand, recordForAll, recordLocally } from './offline-audit.ts'
import { forgetSource, type LostSource, lostSources, resealSources } from './offline-sources.ts'
import { recordRowChanges, stopRecordingRowChanges } from './row-change-triggers.ts'
import { formatOf } from './upgrade-copy.ts'

/** A destination with lost secrets. It is blocked until they are set again. */
export interface LostSecrets {
  workspace_name: string
  /** Null, like the id, for the workspace's alert settings, which are removed. */
  pipe_name: string | null
  /** Null for the source of the pipe, whose webhooks are rejected until its secrets are set again. */
  destination_id: string | null
  destination_type: string
  /** Keys of the destination's config. */
  secrets: string[]
}

type StoredDestination = Pick<
  DestinationRow,
  'destination_id' | 'destination_type' | 'destination_config' | 'transform'
> & {
  workspace_name: string
  pipe_name: string
  pipe_id: string
  workspace_id: string
}

/** A known text, sealed when the file is created. `open.ts` opens it at every start to check the key. */
const checkName = 'sealing_check'
const checkText = 'pipectl'

/** True if the file's secrets were sealed with this key. Changes nothing. */
export function isSealedWith(file: string, sealingKey: Buffer): boolean {
  return readSqliteFile(file, (database) => checkOpens(database, createSealer(sealingKey)))
}

/** Returns the secrets that `forgetSecrets` would remove with this key. Changes nothing. */
export function findLostSecrets(file: string, sealingKey: Buffer): LostSecrets[] {
  const sealer = createSealer(sealingKey)
  return readSqliteFile(file, (database) => {
    requireKnownFormat(database)
    const ofDestinations = readDestinations(database).flatMap((one) => lostOf(sealer, one) ?? [])
    const ofSources = lostSources(database, sealer).map(asLostSource)
    return [...ofDestinations, ...ofSources, ...lostAlerts(database, sealer).map(asLost)]
  })
}

/**
 * Makes this the key of the file. Secrets that it cannot unseal are removed and their destinations blocked; alert
 * settings that it cannot unseal are removed. Returns what was removed.
 */
export function forgetSecrets(file: string, sealingKey: Buffer, command: LocalCommand): LostSecrets[] {
  const sealer = createSealer(sealingKey)
  return changeFile(file, (database) => {
    const block = database.prepare(
      `UPDATE destinations SET destination_config = ?, destination_status = 'blocked',
       destination_updated_ms = max(?, destination_updated_ms + 1) WHERE destination_id = ?`,
    )
    const lost: LostSecrets[] = []
    for (const row of readDestinations(database)) {
      const found = lostOf(sealer, row)
      if (found === null) continue
      const config: Record<string, unknown> = JSON.parse(row.destination_config)
      for (const key of found.secrets) {
        if (key === maskSaltPlace) setTransform(database, row.destination_id, withoutSalt(row))
        else config[key] = forgotten(row.destination_type, key)
      }
      block.run(JSON.stringify(config), command.nowMs, row.destination_id)
      lost.push(found)
      recordLocally(database, command, {
        operation: 'forgetSecrets',
        workspaceId: row.workspace_id,
        resourceId: row.destination_id,
        pipeId: row.pipe_id,
        after: { destination_status: 'blocked', forgotten: found.secrets },
      })
    }
    lost.push(...forgetSources(database, sealer, command))
    for (const row of lostAlerts(database, sealer)) {
      removeAlerts(database, row)
      lost.push(asLost(row))
      const after = { alerts: null }
      recordLocally(database, command, { operation: 'forgetSecrets', workspaceId: row.workspace_id, after })
    }
    if (!checkOpens(database, sealer)) writeCheck(database, sealer)
    return lost
  })
}

/**
 * Seals every secret with the new key. Returns the number of destinations with secrets. Throws UnsealError for a wrong
 * old key.
 */
export function resealSecrets(file: string, oldKey: Buffer, newKey: Buffer, command: LocalCommand): number {
  const [from, to] = [createSealer(oldKey), createSealer(newKey)]
  return changeFile(file, (database) => {
    if (!checkOpens(database, from)) throw new UnsealError('the stored secrets were sealed with another key')
    const update = database.prepare('UPDATE destinations SET destination_config = ? WHERE destination_id = ?')
    let resealed = 0
    for (const row of readDestinations(database)) {
      const config = openConfig(from, row)
      const sealed = sealConfig(to, row.destination_id, row.destination_type, config)
      const transform = isSaltForgotten(row)
        ? row.transform
        : sealTransform(to, row.destination_id, openTransform(from, row))
      if (sealed === JSON.stringify(config) && transform === row.transform) continue
      update.run(sealed, row.destination_id)
      if (transform !== row.transform) setTransform(database, row.destination_id, transform)
      resealed += 1
    }
    resealSources(database, from, to)
    resealAlerts(database, from, to)
    writeCheck(database, to)
    recordForAll(database, command, { operation: 'rotateSealingKey', after: {} })
    return resealed
  })
}

/** The identity in a metadata file. `empty`: the file was never written. */
export type StoredIdentity =
  | { kind: 'found'; identity: DataDirIdentity }
  | { kind: 'empty' }
  | { kind: 'unreadable'; error: unknown }

/** Changes nothing. If the file cannot be read, opening it later reports why. */
export function readIdentity(file: string): StoredIdentity {
  if (statSync(file, { throwIfNoEntry: false })?.size === 0) return { kind: 'empty' }
  try {
    return readSqliteFile(file, (database) => {
      const tables = database.prepare("SELECT count(*) FROM sqlite_schema WHERE type = 'table'").pluck().get()
      return tables === 0 ? { kind: 'empty' } : { kind: 'found', identity: storedIdentity(database) }
    })
  } catch (error) {
    return { kind: 'unreadable', error }
  }
}

interface EpochOptions {
  /** Nothing is delivered until each destination is unblocked. */
  isPaused?: boolean
  /** The file was made from that recording of a replica, which has what changes here next. */
  recordingId?: string | null
  /** See `Epoch.continues`. */
  continues?: string | undefined
}

/** Begins the next epoch of a restored data directory. Durable when it returns. `headSeq`: the buffer's newest seq. */
export function beginEpoch(
  file: string,
  headSeq: number,
  command: LocalCommand,
  { isPaused = false, recordingId = null, continues }: EpochOptions = {},
): DataDirIdentity {
  const { nowMs } = command
  return changeFile(file, (database) => {
    const before = storedIdentity(database)
    const lanes = database.prepare<[], LaneRow>('SELECT * FROM lanes').all()
    const epochs = [
      ...before.epochs,
      {
        ...nextEpoch(before.epochs, Math.max(headSeq, knownSeqOf(lanes, [])), nowMs),
        ...(continues && { continues }),
      },
    ]
    const identity = { ...before, epochs }
    // After a backup, the replica of the old timeline has other rows, and a daemon that has a replica begins a new recording.
    if (recordingId === null) stopRecordingRowChanges(database)
    else recordRowChanges(database, recordingId)
    for (const { name, value } of identityRows(identity)) putSetting(database, name, value)
    // Sessions and links that ended after the backup must not become valid again, so all users have to sign in again.
    for (const table of ['sessions', 'setup_tokens']) database.exec(`DELETE FROM ${table}`)
    dropPendingAlerts(database)
    if (isPaused) blockAllDestinations(database, nowMs)
    const after = { epoch: epochs.at(-1)?.epoch, destinations_blocked: isPaused }
    recordForAll(database, command, { operation: 'restoreBackup', after })
    return identity
  })
}

/** The workspace and the config of each destination of a type. Only for types whose config has no secrets. */
export function destinationConfigs(
  file: string,
  type: DestinationType,
): { workspaceId: string; config: Record<string, unknown> }[] {
  return readSqliteFile(file, (database) =>
    database
      .prepare<[string], { workspaceId: string; config: string }>(
        `SELECT workspace_id AS workspaceId, destination_config AS config FROM destinations JOIN pipes USING (pipe_id)
         WHERE destination_type = ?`,
      )
      .all(type)
      .map(({ workspaceId, config }) => ({ workspaceId, config: JSON.parse(config) })),
  )
}

function storedIdentity(database: Database.Database): DataDirIdentity {
  const rows = database
    .prepare<[], { name: string; value: string }>('SELECT name, value FROM metadata_settings')
    .all()
  const identity = identityOf(new Map(rows.map(({ name, value }) => [name, value])))
  if (identity === null) throw new Error(`${database.name} has no data directory id`)
  return identity
}

function blockAllDestinations(database: Database.Database, nowMs: number): void {
  const block = database.prepare(
    `UPDATE destinations SET destination_status = 'blocked',
     destination_updated_ms = max(?, destination_updated_ms + 1) WHERE destination_status <> 'blocked'`,
  )
  block.run(nowMs)
}

/** Durable when it returns. The file is unchanged if it throws. */
function changeFile<T>(file: string, change: (database: Database.Database) => T): T {
  const database = new Database(file, { fileMustExist: true, timeout: 10_000 })
  try {
    database.pragma('synchronous = FULL')
    requireKnownFormat(database)
    const result = database.transaction(change).immediate(database)
    // Replaced values must not stay readable in the WAL.
    database.pragma('wal_checkpoint(TRUNCATE)')
    return result
  } finally {
    database.close()
  }
}

/** Throws ConfigError if the file has the tables of another version. */
function requireKnownFormat(database: Database.Database): void {
  const problem = formatProblem(formatOf(database))
  if (problem !== null) throw new ConfigError(`metadata: ${database.name} ${problem}`)
}

function readDestinations(database: Database.Database): StoredDestination[] {
  return database
    .prepare<[], StoredDestination>(
      `SELECT destination_id, destination_type, destination_config, transform, pipe_id, pipe_name, workspace_id, workspace_name
       FROM destinations JOIN pipes USING (pipe_id) JOIN workspaces USING (workspace_id)
       ORDER BY workspace_name, pipe_name, destinations.creation_order`,
    )
    .all()
}

/** The replacement of a lost secret. A URL is sealed as a whole and required, so a placeholder replaces it. */
function forgotten(type: DestinationType, key: string): string | null {
  return secretKind(type, key) === 'url' ? 'https://forgotten.invalid/' : null
}

function forgetSources(database: Database.Database, sealer: Sealer, command: LocalCommand): LostSecrets[] {
  return lostSources(database, sealer).map((row) => {
    forgetSource(database, row, command.nowMs)
    recordLocally(database, command, {
      operation: 'forgetSecrets',
      workspaceId: row.workspace_id,
      resourceId: row.pipe_id,
      pipeId: row.pipe_id,
      after: { forgotten: ['pipe_source'] },
    })
    return asLostSource(row)
  })
}

function asLostSource({ workspace_name, pipe_name }: LostSource): LostSecrets {
  const secrets = ['pipe_source']
  return { workspace_name, pipe_name, destination_id: null, destination_type: 'source', secrets }
}

function asLost({ workspace_name }: { workspace_name: string }): LostSecrets {
  return {
    workspace_name,
    pipe_name: null,
    destination_id: null,
    destination_type: 'alerts',
    secrets: ['url', 'secret'],
  }
}

/** Returns the destination with the secrets that this key cannot unseal; null: it unseals them all. */
function lostOf(sealer: Sealer, row: StoredDestination): LostSecrets | null {
  const { destination_config: text, workspace_name, pipe_name, destination_id, destination_type } = row
  const config: Record<string, unknown> = JSON.parse(text)
  const secrets = Object.entries(config).flatMap(([key, value]) => {
    try {
      openConfig(sealer, { ...row, destination_config: JSON.stringify({ [key]: value }) })
      return []
    } catch (error) {
      if (!(error instanceof UnsealError)) throw error
      return [key]
    }
  })
  if (!opensSalt(sealer, row)) secrets.push(maskSaltPlace)
  return secrets.length === 0
    ? null
    : { workspace_name, pipe_name, destination_id, destination_type, secrets }
}

/** The salt is empty and not sealed: it was removed earlier and is not lost again. */
function isSaltForgotten(row: StoredDestination): boolean {
  return row.transform === withoutSalt(row)
}

function opensSalt(sealer: Sealer, row: StoredDestination): boolean {
  if (isSaltForgotten(row)) return true
  try {
    openTransform(sealer, row)
    return true
  } catch (error) {
    if (error instanceof UnsealError) return false
    throw error
  }
}

function setTransform(database: Database.Database, destinationId: string, transform: string | null): void {
  database
    .prepare('UPDATE destinations SET transform = ? WHERE destination_id = ?')
    .run(transform, destinationId)
}

function checkOpens(database: Database.Database, sealer: Sealer): boolean {
  const check = database
    .prepare<[string], { value: string }>('SELECT value FROM metadata_settings WHERE name = ?')
    .get(checkName)
  // A file that was never opened with a key accepts the first one.
  if (check === undefined) return true
  try {
    return sealer.open(check.value, checkName) === checkText
  } catch (error) {
    if (!(error instanceof UnsealError)) throw error
    return false
  }
}

function writeCheck(database: Database.Database, sealer: Sealer): void {
  putSetting(database, checkName, sealer.seal(checkText, checkName))
}

function putSetting(database: Database.Database, name: string, value: string): void {
  database
    .prepare(
      'INSERT INTO metadata_settings (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value',
    )
    .run(name, value)
}
