/**
 * Opens the metadata (database, tables, sealing key) and assembles the repositories.
 *
 * A spec is plain data: every thread that needs metadata opens its own connection from the same spec. The code here
 * uses SQL that SQLite and PostgreSQL share. Code for only one of them is in its own folder.
 */
import assert from 'node:assert'
import type { AuditEntry } from '../contract/audit.ts'
import { addedColumnStore } from '../metadata/added-columns.ts'
import { alertStore } from '../metadata/alert-store.ts'
import { alerts } from '../metadata/alerts.ts'
import { apiKeys } from '../metadata/api-keys.ts'
import { type Actor, audit, audited, type NoteChange, notShared } from '../metadata/audit.ts'
import { destinations } from '../metadata/destinations.ts'
import { directorySource } from '../metadata/directory.ts'
import { drift, driftStore } from '../metadata/drift.ts'
import { giveIdentity, loadIdentity, loadKnownSeq } from '../metadata/identity.ts'
import { attemptLog, laneLatency } from '../metadata/lane-history.ts'
import { laneRecords, runsOfKind } from '../metadata/lane-records.ts'
import { laneSource } from '../metadata/lane-specs.ts'
import { laneStore } from '../metadata/lane-store.ts'
import { limits } from '../metadata/limits.ts'
import { migrate, newestFormat } from '../metadata/migrations.ts'
import { requireNotMoved } from '../metadata/move-state.ts'
import { origins } from '../metadata/origins.ts'
import { overview } from '../metadata/overview.ts'
import { parked } from '../metadata/parked.ts'
import { parkedStore, rangeStore } from '../metadata/parked-store.ts'
import { pipeParked } from '../metadata/pipe-parked.ts'
import { schemaVersions } from '../metadata/pipe-schemas.ts'
import { pipes } from '../metadata/pipes.ts'
import { privacyErasure } from '../metadata/privacy-erasure.ts'
import { privacyJobs } from '../metadata/privacy-jobs.ts'
import { noQuotas, type WorkspaceQuotas } from '../metadata/quotas.ts'
import { replays } from '../metadata/replays.ts'
import { createSealer, type Sealer, UnsealError } from '../metadata/secrets.ts'
import { pinStore } from '../metadata/server-key-pins.ts'
import { sessions } from '../metadata/sessions.ts'
import { openSqliteDatabase } from '../metadata/sqlite/open.ts'
import type { Metadata, MetadataSpec } from '../metadata/store.ts'
import {
  type Connection,
  inRowTransaction,
  inWriteTransaction,
  type OpenedDatabase,
  writesEnded,
} from '../metadata/transactions.ts'
import { usage } from '../metadata/usage.ts'
import { users } from '../metadata/users.ts'
import { versions } from '../metadata/versions.ts'
import { workspaces } from '../metadata/workspaces.ts'
import { ConfigError } from '../platform/config-error.ts'
import { isNoSpace, StorageUnavailableError } from '../platform/error-code.ts'
import { version } from '../platform/version.ts'

export interface MetadataOptions {
  /** The clock, ms since the epoch. */
  now?: () => number
  /** The disk is full: stored data can be read, but nothing can be changed until there is space. */
  onNoSpace?: (error: StorageUnavailableError) => void
  /** Called after the tables of an earlier version were migrated. */
  onUpgraded?: (upgrade: Upgrade) => void
  /** The limits of each workspace. Default: none. */
  quotas?: WorkspaceQuotas
  /** Called when an entry of the audit log is durable. */
  onAudited?: (workspaceId: string, entry: AuditEntry) => void
  /** Other processes cache the metadata and follow its changes. Default: true for PostgreSQL. */
  isShared?: boolean
}

/**
 * `fromFormat`, `toFormat`: migrations.ts. `copy`: the file with the tables before the migration; null for PostgreSQL,
 * which is not copied.
 */
export interface Upgrade {
  fromFormat: number
  toFormat: number
  copy: string | null
}

/**
 * `sealingKey`: 32 bytes, from `loadSealingKey`. Throws ConfigError, and changes nothing, if the database cannot be
 * written, is not a pipectl database, has the format of a newer version, or has secrets sealed with another key.
 */
export async function openMetadata(
  spec: MetadataSpec,
  sealingKey: Uint8Array,
  {
    now = Date.now,
    onNoSpace = () => {},
    onUpgraded = () => {},
    quotas = noQuotas,
    onAudited = () => {},
    isShared = spec.kind === 'postgresql',
  }: MetadataOptions = {},
): Promise<Metadata> {
  const sealer = createSealer(Buffer.from(sealingKey))
  const opened = await opening(spec, async (found) => {
    await prepare(found, sealer, now(), { onNoSpace, onUpgraded })
    await requireNotMoved(found.db, found.label)
  })
  const { db } = opened
  let closing: Promise<void> | undefined
  // Loaded only if several processes share the database.
  const cluster = isShared ? await import('../cluster/metadata/open.ts') : null
  const shared = cluster?.openSharedMetadata(spec.kind, opened, now)
  const noteChange: NoteChange = shared?.noteChange ?? notShared
  const whole = {
    async identity() {
      const identity = await loadIdentity(db)
      assert(identity !== null, 'opening makes it')
      return identity
    },
    knownSeq: () => loadKnownSeq(db),
    usage: usage(db),
    version: () => opened.version(),
    overview: overview(db, sealer),
    versions: versions(db),
    laneRecords: laneRecords(db),
    runsOfKind: runsOfKind(db),
    attempts: attemptLog(db, now),
    latency: laneLatency(db),
    directory: directorySource(db, sealer),
    laneSource: laneSource(db, sealer),
    laneStore: laneStore(db, now),
    parkedStore: { ...parkedStore(db, now), ...rangeStore(db, now) },
    pinStore: pinStore(db, now),
    alertStore: alertStore(db, sealer),
    drift: drift(db),
    schemaVersions: schemaVersions(db),
    driftStore: driftStore(db),
    cluster: shared?.store ?? null,
    close: () => (closing ??= close(opened)),
  }
  const as = (actor: Actor): Metadata => {
    const inAudited = audited(db, now, actor, { noteChange, onRecorded: onAudited })
    return {
      ...whole,
      as,
      audit: audit(db, inAudited),
      workspaces: workspaces(db, now, inAudited),
      pipes: pipes(db, { sealer, now, quotas }, inAudited),
      addedColumns: addedColumnStore(db, { sealer, now }, inAudited),
      destinations: destinations(db, { sealer, now, quotas }, inAudited),
      parked: parked(db, now, inAudited),
      pipeParked: pipeParked(db, now, inAudited),
      replays: replays(db, now, inAudited),
      privacy: { ...privacyJobs(db, { sealer, now }, inAudited), ...privacyErasure(db, now, opened) },
      limits: limits(db, inAudited),
      origins: origins(db, quotas, inAudited),
      apiKeys: apiKeys(db, now, quotas, inAudited),
      alerts: alerts(db, sealer, inAudited),
      users: users(db, now, inAudited),
      sessions: sessions(db, now, inAudited),
    }
  }
  return as(aCommand)
}

/**
 * Opens the database without repositories, with its tables migrated and the sealing key checked. Accepts a database
 * that was moved away. Throws as `openMetadata`.
 */
export async function openPrepared(spec: MetadataSpec, sealingKey: Uint8Array): Promise<OpenedDatabase> {
  const sealer = createSealer(Buffer.from(sealingKey))
  return await opening(spec, (opened) =>
    prepare(opened, sealer, Date.now(), {
      onNoSpace(error) {
        throw error
      },
      onUpgraded: () => {},
    }),
  )
}

async function opening(
  spec: MetadataSpec,
  work: (opened: OpenedDatabase) => Promise<void>,
): Promise<OpenedDatabase> {
  const opened = await openDatabase(spec)
  try {
    await work(opened)
    return opened
  } catch (error) {
    await opened.db.destroy()
    throw opened.openingError(error)
  }
}

async function openDatabase(spec: MetadataSpec): Promise<OpenedDatabase> {
  if (spec.kind === 'sqlite') return await openSqliteDatabase(spec.file)
  // A service with SQLite metadata loads none of the code for PostgreSQL.
  const { openPostgresDatabase } = await import('../cluster/postgresql/open.ts')
  return await openPostgresDatabase(spec.url)
}

const aCommand: Actor = { kind: 'local', id: null, name: null, address: null, operation: null }

/**
 * Waits for transactions in progress, which would otherwise lose their connection. The last connection checkpoints the
 * WAL. A server that does not respond is not waited for.
 */
async function close({ db, leases }: OpenedDatabase): Promise<void> {
  if (leases !== db) {
    await writesEnded(db, serverSilentMs)
    await Promise.all([leases.destroy(), db.destroy()])
    return
  }
  await writesEnded(db)
  await db.connection().execute(async () => undefined)
  await db.destroy()
}

/** Copies old tables, then migrates and checks the sealing key in one transaction, then writes once. */
async function prepare(
  { db, label, assertDurable, prepare: alone, keepCopy }: OpenedDatabase,
  sealer: Sealer,
  now: number,
  { onNoSpace, onUpgraded }: Required<Pick<MetadataOptions, 'onNoSpace' | 'onUpgraded'>>,
): Promise<void> {
  await alone(async (connection) => {
    const copy = keepCopy(newestFormat, now)
    // READ COMMITTED: every statement sees the latest commits of nodes of the earlier version. No other process
    // migrates at the same time.
    const fromFormat = await inRowTransaction(connection, async (trx) => {
      const before = await migrate(trx, label, now)
      if (before === 0) await giveIdentity(trx)
      await checkSealingKey(trx, sealer, label)
      return before
    })
    if (fromFormat > 0 && fromFormat < newestFormat) onUpgraded({ fromFormat, toFormat: newestFormat, copy })
  })
  try {
    await writeLastOpened(db, now)
  } catch (error) {
    if (!(error instanceof StorageUnavailableError) || !isNoSpace(error.cause)) throw error
    onNoSpace(error)
  }
  assertDurable()
}

/** Writes at every open, so that a read-only database is reported at start and not by the first change. */
async function writeLastOpened(db: Connection, now: number): Promise<void> {
  const lastOpened = [
    { name: 'last_opened_ms', value: String(now) },
    { name: lastOpenedBy, value: version() },
  ]
  await inWriteTransaction(db, (trx) =>
    trx
      .insertInto('metadata_settings')
      .values(lastOpened)
      .onConflict((conflict) =>
        conflict.column('name').doUpdateSet((row) => ({ value: row.ref('excluded.value') })),
      )
      .execute(),
  )
}

/** The setting that stores which version last opened the database. */
export const lastOpenedBy = 'last_opened_by'

const serverSilentMs = 500
const checkName = 'sealing_check'

/** A known text, sealed when the database was created. Only the right key unseals it. */
async function checkSealingKey(trx: Connection, sealer: Sealer, label: string): Promise<void> {
  const check = await trx
    .selectFrom('metadata_settings')
    .select('value')
    .where('name', '=', checkName)
    .executeTakeFirst()
  if (check === undefined) {
    const value = sealer.seal('pipectl', checkName)
    await trx.insertInto('metadata_settings').values({ name: checkName, value }).execute()
    return
  }
  try {
    sealer.open(check.value, checkName)
  } catch (error) {
    if (!(error instanceof UnsealError)) throw error
    throw new ConfigError(
      `sealing key: it did not encrypt the secrets of ${label}; put back the right key or set secrets.key_file`,
    )
  }
}
