/** Parked records as a list, and one of them. */
import type { ParkedRecord } from '../../../contract/parked.ts'
import { ago } from '../../../platform/quantities.ts'
import { singleLine } from '../../client/json-text.ts'
import { errorWords, placeWords, recordTextsOf, shortIds, stateWord } from '../../client/parked.ts'
import { listView, oneView, type View } from '../output.ts'

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

interface ParkedFacts {
  /** Which record of its message or request it is. */
  record: string
  /** Shown after the time. */
  note: string
  facts: string[][]
  labelOf(index: number): string
}

/** A record that is parked at a lane or a pipe. `text`: the response, in which numbers keep all digits. */
export function oneParkedView(
  text: string,
  body: { parked_id: string; msg_id: string; state: string; parked_ts: string },
  { record, note, facts, labelOf }: ParkedFacts,
): View {
  const records = recordTextsOf(text)
  const rows = [
    ['parked_id', body.parked_id],
    ['msg_id', body.msg_id],
    ['record', record],
    ['state', body.state],
    ['parked', `${body.parked_ts} (${note})`],
    ...facts,
    ...records.map((one, index) => [labelOf(index), singleLine(one)]),
  ]
  return { ...oneView(text, body.parked_id, rows), items: () => records }
}
