/** Parked records as a table that fits the terminal. */
import { errorWords, placeWords, shortIds } from '../../client/parked.ts'
import type { ParkedRecord } from '../../contract/parked.ts'
import { ago } from '../../quantities.ts'
import type { Table } from '../output.ts'

export function parkedTable(parked: readonly ParkedRecord[]): Table {
  const short = shortIds(parked.map((one) => one.parked_id))
  const rows = parked.map((one) => [
    short.get(one.parked_id) ?? one.parked_id,
    ago(one.parked_ts, Date.now()),
    one.state === 'replaying' ? one.state : one.reason === 'skipped' ? 'skipped' : 'refused',
    placeWords(one),
    String(one.attempts),
    errorWords(one.error),
  ])
  const taken = [0, 1, 2, 3, 4].map(
    (column) => Math.max(...rows.map((row) => row[column]?.length ?? 0), 8) + 2,
  )
  const room = Math.max(20, (process.stdout.columns ?? 160) - taken.reduce((sum, one) => sum + one, 0))
  return {
    columns: ['PARKED', 'WHEN', 'STATE', 'RECORD', 'ATTEMPTS', 'ERROR'],
    rows: rows.map((row) => row.map((cell, column) => (column === 5 ? cut(cell, room) : cell))),
    empty: 'nothing is parked',
  }
}

function cut(text: string, length: number): string {
  return text.length <= length ? text : `${text.slice(0, length - 1)}…`
}
