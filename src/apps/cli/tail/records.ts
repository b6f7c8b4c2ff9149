/** Selects the records of a tail (`--where key=value`) and formats them. Values are compared as text, so that no number is rounded. */

import { meets } from '../../../contract/record-condition.ts'
import { singleLine, valueText } from '../../client/json-text.ts'
import { printableJson } from '../../client/printable.ts'
import { cut } from '../../client/terminal-text.ts'
import { requireCondition } from '../record-condition.ts'
import { paint } from '../terminal.ts'

/** lines: for people. ndjson: only the record. json: with msg_id, stream_seq, index and received_ts. */
const tailFormats = ['lines', 'ndjson', 'json'] as const
export type TailFormat = (typeof tailFormats)[number]

export interface TailedRecord {
  msgId: string
  receivedTs: string
  /** Its original JSON text. */
  text: string
  /** The text of the event as the daemon sent it. */
  eventText: string
}

export interface Screen {
  isTerminal: boolean
  colours: boolean
  /** In columns. Infinity: nothing is truncated. */
  width: number
}

/** Ends with a line break. */
export function recordLine(record: TailedRecord, format: TailFormat, screen: Screen): string {
  if (format === 'lines') return `${lineForPeople(record, screen)}\n`
  const line = singleLine(format === 'json' ? record.eventText : record.text)
  return `${screen.isTerminal ? printableJson(line) : line}\n`
}

/** Shows the end of a msg_id, because ids start with the time and neighbors differ only at the end. */
function lineForPeople({ msgId, receivedTs, text }: TailedRecord, screen: Screen): string {
  const head = printableJson(`${receivedTs.slice(11, 23)}Z …${msgId.slice(-8)}`)
  const room = Math.max(20, screen.width - head.length - 2)
  return `${paint('dim', head, screen.colours)}  ${cut(printableJson(singleLine(text)), room)}`
}

export type Condition = (recordText: string) => boolean

/** True if all conditions hold. Throws Failure (usage). */
export function conditionOf(wheres: readonly string[]): Condition {
  const conditions = wheres.map(one)
  return (recordText) => conditions.every((holds) => holds(recordText))
}

function one(where: string): Condition {
  const condition = requireCondition(where)
  return (recordText) => meets(recordText, condition, valueText)
}
