/**
 * A destination's name. It is unique in its pipe, by the index `destinations_name`, and never missing, because people
 * refer to lanes by it.
 */
import { type DestinationType, wordsOf } from '../contract/destination-words.ts'
import { ApiError } from '../contract/errors.ts'
import type { DestinationRow } from './tables.ts'
import type { Connection } from './transactions.ts'

type Named = Pick<DestinationRow, 'destination_id' | 'pipe_id'> & { destination_type: DestinationType }

/**
 * Returns the requested name, or a default for its kind if `wanted` is null: `database`, `database-2`, … Throws
 * `duplicate_destination_name`.
 */
export async function freeName(trx: Connection, row: Named, wanted: string | null): Promise<string> {
  const others = await trx
    .selectFrom('destinations')
    .select('destination_name')
    .where('pipe_id', '=', row.pipe_id)
    .where('destination_id', '!=', row.destination_id)
    .execute()
  const taken = new Set(others.map((other) => other.destination_name))
  if (wanted !== null) {
    // The index guarantees unique names. This check gives the caller a clear error.
    if (taken.has(wanted)) throw new ApiError('duplicate_destination_name')
    return wanted
  }
  const { kind } = wordsOf(row.destination_type)
  let name = kind
  for (let number = 2; taken.has(name); number++) name = `${kind}-${number}`
  return name
}
