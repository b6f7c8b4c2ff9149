/** A destination's name: unique in its pipe, by the index `destinations_name`; never absent, for people name lanes by it. */
import { type DestinationType, wordsOf } from '../contract/destination-words.ts'
import { ApiError } from '../contract/errors.ts'
import type { DestinationRow } from './tables.ts'
import type { Connection } from './transactions.ts'

type Named = Pick<DestinationRow, 'destination_id' | 'pipe_id'> & { destination_type: DestinationType }

/** The name asked for, or for null the default by its kind: `database`, `database-2`, … Throws `duplicate_destination_name`. */
export async function freeName(trx: Connection, row: Named, wanted: string | null): Promise<string> {
  const others = await trx
    .selectFrom('destinations')
    .select('destination_name')
    .where('pipe_id', '=', row.pipe_id)
    .where('destination_id', '!=', row.destination_id)
    .execute()
  const taken = new Set(others.map((other) => other.destination_name))
  if (wanted !== null) {
    // The index is what keeps names unique; this says it in the caller's words.
    if (taken.has(wanted)) throw new ApiError('duplicate_destination_name')
    return wanted
  }
  const { kind } = wordsOf(row.destination_type)
  let name = kind
  for (let number = 2; taken.has(name); number++) name = `${kind}-${number}`
  return name
}
