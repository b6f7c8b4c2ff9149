/** A record of a tail as it is printed. */
import { singleLine } from '../../client/json-text.ts'
import { printableJson } from '../../client/printable.ts'
import { cut } from '../table.ts'
import { paint } from '../terminal.ts'

/** lines: for people; ndjson: the record alone; json: with msg_id, stream_seq, index and received_ts. */
const tailFormats = ['lines', 'ndjson', 'json'] as const
export type TailFormat = (typeof tailFormats)[number]

export interface TailedRecord {
  msgId: string
  receivedTs: string
  /** Its own JSON text. */
  text: string
  /** The event's text as the daemon sent it. */
  eventText: string
}

export interface Screen {
  isTerminal: boolean
  colours: boolean
  /** Columns; Infinity: nothing is cut. */
  width: number
}

/** Ends with a line break. */
export function recordLine(record: TailedRecord, format: TailFormat, screen: Screen): string {
  if (format === 'lines') return `${lineForPeople(record, screen)}\n`
  const line = singleLine(format === 'json' ? record.eventText : record.text)
  return `${screen.isTerminal ? printableJson(line) : line}\n`
}

/** The end of a msg_id is what differs between neighbours: it begins with the time. */
function lineForPeople({ msgId, receivedTs, text }: TailedRecord, screen: Screen): string {
  const head = printableJson(`${receivedTs.slice(11, 23)}Z …${msgId.slice(-8)}`)
  const room = Math.max(20, screen.width - head.length - 2)
  return `${paint('dim', head, screen.colours)}  ${cut(printableJson(singleLine(text)), room)}`
}
