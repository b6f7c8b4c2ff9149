/**
 * The audit log. Every method that changes something for a user or an API key runs in `audited`, which passes it
 * `record`. The entry is a row of the same transaction, so the change and its entry are always stored together.
 *
 * Changes outside this database (a lane's position, which delivery saves) are recorded before they begin and completed
 * afterwards. The outcome of an entry that still says `requested` is unknown.
 *
 * The log is bounded: a row holds at most `auditStateBytes` of each state. A workspace at its limit of rows loses the
 * oldest one with each new one.
 */

import { isDeepStrictEqual } from 'node:util'
import type { Transaction } from 'kysely'
import type { AuditEntry } from '../contract/audit.ts'
import { resourceLimits } from '../contract/resource-limits.ts'
import { nextNumber } from './rows.ts'
import { type AuditRow, addressOf, isoTime, normaliseId, type Tables } from './tables.ts'
import { type Connection, inWriteTransaction } from './transactions.ts'
import { requireVersion, type VersionGuard, versionOf } from './versions.ts'

/** The user, API key or local command on whose behalf something is changed. */
export interface Actor {
  readonly kind: 'key' | 'user' | 'local'
  /** The id of the key or the user. */
  readonly id: string | null
  /** Null: it is looked up by the id. */
  readonly name: string | null
  /** The address of the client; null: the command runs on the machine itself. */
  readonly address: string | null
  /** The operationId; null: the operation that each method names itself. */
  readonly operation: string | null
  /** Applies to the first change only. */
  readonly guard?: VersionGuard
}

/** A change for the audit log, with secrets left out. */
export interface AuditedChange {
  workspaceId: string
  /** The operationId, used if the actor does not name one. */
  operation: string
  resourceId: string | null
  pipeId: string | null
  before: Record<string, unknown> | null
  after: Record<string, unknown> | null
}

export interface AuditQuery {
  limit: number
  /** Only entries older than this one. */
  after: number | null
  operation: string | null
  resourceId: string | null
  sinceMs: number | null
  /** Only entries of these pipes; null: of the whole workspace. */
  pipeIds: ReadonlySet<string> | null
}

export interface AuditStore {
  list(workspaceId: string, query: AuditQuery): Promise<{ entries: AuditEntry[]; next: number | null }>
  /** Records a change that another store makes. Returns the entry's number, for `complete`. */
  record(change: AuditedChange): Promise<number>
  /** Adds the outcome to an entry. */
  complete(workspaceId: string, auditId: number, after: Record<string, unknown>): Promise<void>
  /** Removes older entries of all workspaces, in small steps. */
  prune(beforeMs: number): Promise<void>
}

/** Records, in the transaction of an audited change, which cached copies of metadata must be read again. */
export type NoteChange = (trx: Connection, change: AuditedChange) => Promise<void>

/** For a database that only this process uses: cached copies learn of changes through `changes.ts`. */
export const notShared: NoteChange = async () => {}

type State = Record<string, unknown> | null

export type RecordChange = (change: AuditedChange) => Promise<AuditEntry | null>
/** Runs `work` in one write transaction. Its changes are published once it is durable. */
export type Audited = <T>(work: (trx: Transaction<Tables>, record: RecordChange) => Promise<T>) => Promise<T>

export function audited(
  db: Connection,
  now: () => number,
  actor: Actor,
  {
    noteChange,
    onRecorded,
  }: { noteChange: NoteChange; onRecorded(workspaceId: string, entry: AuditEntry): void },
): Audited {
  const { guard } = actor
  let isGuardPassed = false
  return async (work) => {
    let recorded: [string, AuditEntry][] = []
    let version: string | null = null
    const result = await inWriteTransaction(db, async (trx) => {
      // The transaction may run again.
      recorded = []
      if (guard !== undefined && !isGuardPassed) await requireVersion(trx, guard)
      const done = await work(trx, async (change) => {
        const entry = await insert(trx, actor, change, now())
        if (entry !== null) recorded.push([change.workspaceId, entry])
        // Needed even if the visible state is the same, for example when a secret was replaced.
        await noteChange(trx, change)
        return entry
      })
      if (guard !== undefined) version = await versionOf(trx, guard.of)
      return done
    })
    isGuardPassed = true
    guard?.changed(version)
    for (const [workspaceId, entry] of recorded) onRecorded(workspaceId, entry)
    return result
  }
}

export function audit(db: Connection, inAudited: Audited): AuditStore {
  return {
    async list(workspaceId, { limit, after, operation, resourceId, sinceMs, pipeIds }) {
      let query = db
        .selectFrom('audit_log')
        .selectAll()
        .where('workspace_id', '=', normaliseId(workspaceId))
        .orderBy('audit_id', 'desc')
        .limit(limit + 1)
      if (after !== null) query = query.where('audit_id', '<', after)
      if (operation !== null) query = query.where('operation', '=', operation)
      if (resourceId !== null) {
        const id = normaliseId(resourceId)
        query = query.where((eb) => eb.or([eb('resource_id', '=', id), eb('pipe_id', '=', id)]))
      }
      if (sinceMs !== null) query = query.where('audit_ms', '>=', sinceMs)
      if (pipeIds !== null) query = query.where('pipe_id', 'in', [...pipeIds])
      const rows = await query.execute()
      const entries = rows.slice(0, limit).map(shown)
      return { entries, next: rows.length > limit ? (entries.at(-1)?.audit_id ?? null) : null }
    },

    record: async (change) => {
      const entry = await inAudited((_, record) => record(change))
      return entry?.audit_id ?? 0
    },

    async complete(workspaceId, auditId, after) {
      await inWriteTransaction(db, (trx) =>
        trx
          .updateTable('audit_log')
          .set({ after_json: boundedText(after) })
          .where('workspace_id', '=', normaliseId(workspaceId))
          .where('audit_id', '=', auditId)
          .execute(),
      )
    },

    async prune(beforeMs) {
      const workspaces = await db.selectFrom('workspaces').select('workspace_id').execute()
      for (const { workspace_id } of workspaces) while (await pruneSome(db, workspace_id, beforeMs));
    },
  }
}

/**
 * Removes one batch, so that other users of the database wait for one batch only. True: there may be more to remove.
 */
async function pruneSome(db: Connection, workspaceId: string, beforeMs: number): Promise<boolean> {
  const oldest = await db
    .selectFrom('audit_log')
    .select(['audit_id', 'audit_ms'])
    .where('workspace_id', '=', workspaceId)
    .orderBy('audit_id')
    .limit(resourceLimits.auditPrunedAtOnce)
    .execute()
  // Stops at the first entry that is new enough: the clock may have jumped in between.
  const kept = oldest.findIndex((row) => row.audit_ms >= beforeMs)
  const old = kept === -1 ? oldest : oldest.slice(0, kept)
  const last = old.at(-1)
  if (last === undefined) return false
  await inWriteTransaction(db, (trx) =>
    trx
      .deleteFrom('audit_log')
      .where('workspace_id', '=', workspaceId)
      .where('audit_id', '<=', last.audit_id)
      .execute(),
  )
  return old.length === resourceLimits.auditPrunedAtOnce
}

/** Null: the two states are equal, and nothing is recorded. */
async function insert(
  trx: Connection,
  actor: Actor,
  change: AuditedChange,
  nowMs: number,
): Promise<AuditEntry | null> {
  const { before, after } = difference(change)
  if (before !== null && after !== null && Object.keys(after).length === 0) return null
  const workspaceId = normaliseId(change.workspaceId)
  const row: AuditRow = {
    workspace_id: workspaceId,
    audit_id: await nextNumber(trx, 'audit_log', 'audit_id', { workspace_id: workspaceId }),
    audit_ms: nowMs,
    operation: actor.operation ?? change.operation,
    actor_kind: actor.kind,
    actor_id: actor.id,
    actor_name: actor.name ?? (await nameOf(trx, actor)),
    address: actor.address,
    resource_id: change.resourceId,
    pipe_id: change.pipeId,
    before_json: boundedText(before),
    after_json: boundedText(after),
  }
  await trx.insertInto('audit_log').values(row).execute()
  await trx
    .deleteFrom('audit_log')
    .where('workspace_id', '=', workspaceId)
    .where('audit_id', '<=', row.audit_id - resourceLimits.auditEntriesPerWorkspace)
    .execute()
  return shown(row)
}

/** Reads the name now: it can be changed or deleted later. */
async function nameOf(trx: Connection, { kind, id }: Actor): Promise<string | null> {
  if (id === null) return null
  if (kind === 'key') {
    const key = await trx
      .selectFrom('api_keys')
      .select('api_key_name')
      .where('api_key_id', '=', id)
      .executeTakeFirst()
    return key?.api_key_name ?? null
  }
  const user = await trx.selectFrom('users').select('user_email').where('user_id', '=', id).executeTakeFirst()
  return user === undefined ? null : addressOf(user.user_email)
}

/** Times that only say that there was a change. */
const changeTimes = new Set(['pipe_updated_ts', 'destination_updated_ts'])

/** Keeps only the fields that differ. */
function difference({ before, after }: AuditedChange): { before: State; after: State } {
  if (before === null || after === null) return { before, after }
  const keys = [...new Set([...Object.keys(before), ...Object.keys(after)])]
  const different = keys.filter((key) => !changeTimes.has(key) && !isDeepStrictEqual(before[key], after[key]))
  const pick = (from: Record<string, unknown>) =>
    Object.fromEntries(different.flatMap((key) => (Object.hasOwn(from, key) ? [[key, from[key]]] : [])))
  const [was, is] = [pick(before), pick(after)]
  // A removed key is a difference as well.
  for (const key of different) is[key] ??= null
  return { before: was, after: is }
}

function boundedText(state: State): string | null {
  if (state === null) return null
  const text = JSON.stringify(state)
  const bytes = Buffer.byteLength(text)
  return bytes <= resourceLimits.auditStateBytes ? text : JSON.stringify({ left_out: `${bytes} bytes` })
}

function shown(row: AuditRow): AuditEntry {
  const parsed = (text: string | null) =>
    text === null ? null : (JSON.parse(text) as Record<string, unknown>)
  return {
    audit_id: row.audit_id,
    audit_ts: isoTime(row.audit_ms),
    operation: row.operation,
    actor: { kind: row.actor_kind, id: row.actor_id, name: row.actor_name },
    address: row.address,
    resource_id: row.resource_id,
    pipe_id: row.pipe_id,
    before: parsed(row.before_json),
    after: parsed(row.after_json),
  }
}
