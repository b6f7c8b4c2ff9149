/** Parked records as a table. */
import type { ParkedRecord } from '../../../contract/parked.ts'
import { ago } from '../../../platform/quantities.ts'
import { errorWords, placeWords, shortIds } from '../../client/parked.ts'
import type { Table } from '../table.ts'

export function parkedTable(parked: readonly ParkedRecord[]): Table {
  const short = shortIds(parked.map((one) => one.parked_id))
  const rows = parked.map((one) => [
    short.get(one.parked_id) ?? one.parked_id,
    ago(one.parked_ts, Date.now()),
    one.state === 'replaying' ? one.state : one.reason === 'skipped' ? 'skipped' : 'rejected',
    placeWords(one),
    String(one.attempts),
    errorWords(one.error),
  ])
  return {
    columns: [
      'PARKED',
      { label: 'WHEN', gives: 2 },
      { label: 'STATE', gives: 1 },
      'RECORD',
      { label: 'ATTEMPTS', gives: 3 },
      { label: 'ERROR', wraps: true },
    ],
    rows,
    empty: 'nothing is parked',
  }
}
