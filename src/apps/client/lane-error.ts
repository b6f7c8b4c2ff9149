/** Formats the last error of a lane for terminals. The dashboard has its own format. */
import type { DestinationType, LaneStatus } from '../../contract/destination.ts'
import { wordsOf } from '../../contract/destination-words.ts'

type LastError = LaneStatus['last_error']
export type ErrorPlace = Pick<NonNullable<LastError>, 'record_index' | 'column' | 'value'>

/** `22P02: invalid input … [record_index 17, column "n", value "abc"]`, or `-` for none. */
export function errorLine(error: LastError): string {
  if (error === null) return '-'
  const place = errorPlace(error)
  return `${error.code}: ${error.message}${place === '' ? '' : ` [${place}]`}`
}

/** The record, column and value that the destination names. Empty if it names none. */
export function errorPlace({ record_index: index, column, value }: ErrorPlace): string {
  const parts = [
    ...(index === null ? [] : [`record_index ${index}`]),
    ...(column === null ? [] : [`column "${column}"`]),
    ...(value === null ? [] : [`value "${value}"`]),
  ]
  return parts.join(', ')
}

/** False if no record is at fault: the next message would fail in the same way. */
export function skipHelps({ last_error: error }: Pick<LaneStatus, 'last_error'>): boolean {
  return error?.fault !== 'destination'
}

/** Names the cause. Empty for a temporary error. `type` is the type of the destination, if known. */
export function faultWords({ fault }: Pick<NonNullable<LastError>, 'fault'>, type?: DestinationType): string {
  if (fault === null) return ''
  return fault === 'records'
    ? `the records: fix the ${type === undefined ? 'destination' : wordsOf(type).receiver}, or skip the message`
    : 'the destination: no record is at fault, so a skip does not help'
}
