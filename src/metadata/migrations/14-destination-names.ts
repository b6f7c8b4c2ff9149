/**
 * Migration 14: every destination has a name. One without gets its kind (`database`, `database-2`, …), the first that is free in its
 * pipe, in the order in which they were made.
 */
import type { Transaction } from 'kysely'
import type { Tables } from '../database.ts'

export async function destinationNames(trx: Transaction<Tables>): Promise<void> {
  const rows = await trx
    .selectFrom('destinations')
    .select(['destination_id', 'pipe_id', 'destination_type', 'destination_name'])
    .orderBy('pipe_id')
    .orderBy('creation_order')
    .orderBy('destination_id')
    .execute()
  const place = (pipeId: string, name: string) => JSON.stringify([pipeId, name])
  const taken = new Set(rows.map((row) => place(row.pipe_id, row.destination_name)))
  for (const row of rows) {
    // The type of the row says otherwise: it speaks of the tables as they are after this.
    if ((row.destination_name as string | null) !== null) continue
    const kind = row.destination_type.replace('destination_', '').replaceAll('_', '-')
    let name = kind
    for (let number = 2; taken.has(place(row.pipe_id, name)); number++) name = `${kind}-${number}`
    taken.add(place(row.pipe_id, name))
    await trx
      .updateTable('destinations')
      .set({ destination_name: name })
      .where('destination_id', '=', row.destination_id)
      .execute()
  }
}
