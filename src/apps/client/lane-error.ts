/** A lane's last error in words: of terminals; the dashboard has its own. */
import type { DestinationType, LaneStatus } from '../../contract/destination.ts'
import { wordsOf } from '../../contract/destination-words.ts'

type LastError = LaneStatus['last_error']
export type ErrorPlace = Pick<NonNullable<LastError>, 'record_index' | 'column' | 'value'>

/** `22P02: invalid input … [record_index 17, column "n", value "abc"]`; `-` for none. */
export function errorLine(error: LastError): string {
  if (error === null) return '-'
  const place = errorPlace(error)
  return `${error.code}: ${error.message}${place === '' ? '' : ` [${place}]`}`
}

/** Which record, column and value the destination names; empty where it names none. */
export function errorPlace({ record_index: index, column, value }: ErrorPlace): string {
  const parts = [
    ...(index === null ? [] : [`record_index ${index}`]),
    ...(column === null ? [] : [`column "${column}"`]),
    ...(value === null ? [] : [`value "${value}"`]),
  ]
  return parts.join(', ')
}

/** False where no record is at fault: the next message would fail as this one does. */
export function skipHelps({ last_error: error }: Pick<LaneStatus, 'last_error'>): boolean {
  return error?.fault !== 'destination'
}

/**
 * Names the cause for people; empty for an error that passes by itself. `type` is the destination's, if it is known.
 */
export function faultWords({ fault }: Pick<NonNullable<LastError>, 'fault'>, type?: DestinationType): string {
  if (fault === null) return ''
  return fault === 'records'
    ? `the records: fix the ${type === undefined ? 'destination' : wordsOf(type).receiver}, or skip the message`
    : 'the destination: no record is at fault, so a skip does not help'
}
