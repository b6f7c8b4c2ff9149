/**
 * Texts in metadata that can quote a record: a database names a value in its error, an endpoint returns it in its
 * response. A deletion of personal data removes these texts and keeps times, counts and codes.
 */
import type { SavedDrift } from '../contract/drift.ts'
import { slices } from '../platform/slices.ts'
import { type Connection, inWriteTransaction } from './transactions.ts'

/** Replaces a text that could quote a deleted record. */
export const erasedText = 'Removed together with personal data.'

/** Rows per transaction: other writers wait for each. */
const rowsAtOnce = 200

export async function eraseTexts(
  db: Connection,
  workspaceId: string,
  { affected, others }: { affected: readonly string[]; others: readonly string[] },
  values: readonly string[],
): Promise<void> {
  const isQuoting = quotes(values)
  const all = new Set(affected)
  for (const destinationId of [...affected, ...others]) {
    const isMeant = all.has(destinationId) ? () => true : isQuoting
    await eraseAttempts(db, destinationId, isMeant)
    await eraseReplays(db, destinationId, isMeant)
    await eraseDrift(db, destinationId, isMeant)
  }
  await eraseAlerts(db, workspaceId, (text) => isQuoting(text) || affected.some((id) => text.includes(id)))
}

/** Whether a text, which can be JSON, contains one of the values. */
export function quotes(values: readonly string[]): IsMeant {
  const quoted = values.flatMap((value) => [value, JSON.stringify(value).slice(1, -1)])
  return (text) => quoted.some((value) => text.includes(value))
}

type IsMeant = (text: string) => boolean

async function eraseAttempts(db: Connection, destinationId: string, isMeant: IsMeant): Promise<void> {
  const rows = await db
    .selectFrom('lane_attempts')
    .select(['slot', 'attempt_json'])
    .where('destination_id', '=', destinationId)
    .execute()
  const changed = rows.flatMap(({ slot, attempt_json: before }) => {
    const after = withoutTexts(before)
    return isMeant(before) && after !== before ? [{ slot, before, after }] : []
  })
  for (const some of slices(changed, rowsAtOnce))
    await inWriteTransaction(db, async (trx) => {
      for (const { slot, before, after } of some)
        await trx
          .updateTable('lane_attempts')
          .set({ attempt_json: after })
          .where('destination_id', '=', destinationId)
          .where('slot', '=', slot)
          // The slot can have a newer attempt.
          .where('attempt_json', '=', before)
          .execute()
    })
}

/** A replay that runs is in the memory of its lane, which removes its error itself: `Delivery.reread`. */
async function eraseReplays(db: Connection, destinationId: string, isMeant: IsMeant): Promise<void> {
  const rows = await db
    .selectFrom('replays')
    .select(['replay_id', 'progress_json'])
    .where('destination_id', '=', destinationId)
    .where('is_over', '=', 1)
    .execute()
  for (const { replay_id, progress_json: before } of rows) {
    const after = withoutTexts(before)
    if (!isMeant(before) || after === before) continue
    await inWriteTransaction(db, (trx) =>
      trx
        .updateTable('replays')
        .set({ progress_json: after })
        .where('replay_id', '=', replay_id)
        .where('progress_json', '=', before)
        .execute(),
    )
  }
}

/** The examples of values. The names of keys stay. */
async function eraseDrift(db: Connection, destinationId: string, isMeant: IsMeant): Promise<void> {
  await inWriteTransaction(db, async (trx) => {
    const ofDestination = trx.selectFrom('destination_drift').select('state_json')
    const row = await ofDestination.where('destination_id', '=', destinationId).executeTakeFirst()
    if (row === undefined || !isMeant(row.state_json)) return
    const state = JSON.parse(row.state_json) as SavedDrift['state']
    const keys = state.keys.map((key) => ({ ...key, example: '' }))
    await trx
      .updateTable('destination_drift')
      .set({ state_json: JSON.stringify({ ...state, keys }) })
      .where('destination_id', '=', destinationId)
      .execute()
  })
}

async function eraseAlerts(db: Connection, workspaceId: string, isMeant: IsMeant): Promise<void> {
  const rows = await db
    .selectFrom('alert_queue')
    .select(['alert_order', 'alert_json'])
    .where('workspace_id', '=', workspaceId)
    .execute()
  for (const { alert_order, alert_json: before } of rows) {
    const after = withoutTexts(before)
    if (!isMeant(before) || after === before) continue
    await inWriteTransaction(db, (trx) =>
      trx
        .updateTable('alert_queue')
        .set({ alert_json: after })
        .where('workspace_id', '=', workspaceId)
        .where('alert_order', '=', alert_order)
        .execute(),
    )
  }
}

/** The objects that describe an error or a response, and their fields that can quote a record. */
const quotingObjects = new Set(['error', 'lastError', 'last_error', 'response'])
const quotingFields: Readonly<Record<string, string | null>> = {
  message: erasedText,
  column: null,
  value: null,
  excerpt: '',
}

export function withoutTexts(json: string): string {
  return JSON.stringify(JSON.parse(json, (key, value: unknown) => withoutQuotes(key, value)))
}

function withoutQuotes(key: string, value: unknown): unknown {
  // The sentence of an alert ends with the error.
  if (key === 'text' && typeof value === 'string') return value.replace(/: .*$/s, `: ${erasedText}`)
  if (!quotingObjects.has(key) || typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([name, text]) => [
      name,
      typeof text === 'string' && Object.hasOwn(quotingFields, name) ? quotingFields[name] : text,
    ]),
  )
}
