/** Parked records as a list. */
import type { ParkedRecord } from '../../../contract/parked.ts'
import { ago } from '../../../platform/quantities.ts'
import { errorWords, placeWords, shortIds, stateWord } from '../../client/parked.ts'
import { listView, type View } from '../output.ts'

export function parkedView(parked: readonly ParkedRecord[]): View {
  const short = shortIds(parked.map((one) => one.parked_id))
  return listView(parked, {
    json: JSON.stringify({ parked }),
    name: (one) => one.parked_id,
    columns: [
      ['PARKED', (one) => short.get(one.parked_id) ?? one.parked_id],
      [{ label: 'WHEN', gives: 2 }, (one) => ago(one.parked_ts, Date.now())],
      [{ label: 'STATE', gives: 1 }, stateWord],
      ['RECORD', placeWords],
      [{ label: 'ATTEMPTS', gives: 3 }, (one) => String(one.attempts)],
      [{ label: 'ERROR', wraps: true }, (one) => errorWords(one.error)],
    ],
    empty: 'nothing is parked',
  })
}
