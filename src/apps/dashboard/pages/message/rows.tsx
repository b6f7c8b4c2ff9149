/** The table of messages: one line for each, with a mark for each of its lanes. */
import { useMemo } from 'react'
import { Link, useSearch } from 'wouter'
import type { OverviewPipe } from '../../../../contract/overview.ts'
import { messageWord } from '../../../../contract/state-words.ts'
import { bytes, count } from '../../../../platform/quantities.ts'
import type { MessageList } from '../../../client/client.ts'
import { singleLine } from '../../../client/json-text.ts'
import { useMayChange } from '../../data/session-context.ts'
import { Copy } from '../../ui/copy.tsx'
import { nameOf } from '../../ui/lane-words.tsx'
import { type Column, Soft, Table } from '../../ui/layout.tsx'
import { marks, tones, worstFirst } from '../../ui/state.tsx'
import { Ago, Outside } from '../../ui/text.tsx'
import styles from './messages.module.css'
import { withOpen } from './search.ts'

export type Message = MessageList['messages'][number]

export function MessageRows({
  pipe,
  messages,
  selected,
  onSelect,
}: {
  pipe: OverviewPipe
  messages: readonly Message[]
  /** By msg_id. */
  selected: readonly string[]
  onSelect: (msgIds: readonly string[]) => void
}) {
  const search = useSearch()
  const mayChange = useMayChange()
  const columns = useMemo(
    (): Column<Message>[] => [
      {
        label: 'Received',
        cell: ({ msg_id: id, received_ts: at }) => (
          <span className={styles.lanes}>
            {mayChange ? (
              <input
                type="checkbox"
                className={styles.select}
                aria-label={`Select ${shortId(id)}`}
                checked={selected.includes(id)}
                onChange={({ target }) =>
                  onSelect(target.checked ? [...selected, id] : selected.filter((one) => one !== id))
                }
              />
            ) : null}
            <Ago at={at} />
          </span>
        ),
        isShort: true,
      },
      {
        label: 'Message',
        cell: ({ msg_id: id }) => (
          <span className={styles.id}>
            <Link to={withOpen(search, id)} title={id}>
              <code>{shortId(id)}</code>
            </Link>
            <Copy text={id} what="msg_id" icon={<CopyIcon />} />
          </span>
        ),
        isShort: true,
      },
      { label: 'Records', cell: (one) => count(one.records_count), isNumber: true },
      { label: 'Size', cell: (one) => bytes(one.bytes), isNumber: true },
      { label: 'Lanes', cell: (one) => <LaneMarks pipe={pipe} lanes={one.lanes} />, isShort: true },
      { label: 'Record', cell: ({ excerpt }) => <Excerpt excerpt={excerpt} />, isRest: true },
    ],
    [pipe, search, selected, onSelect, mayChange],
  )
  return (
    <div className={styles.dense}>
      <Table caption="Messages" columns={columns} rows={messages} keyOf={(one) => one.msg_id} />
    </div>
  )
}

/** The end, because ids of the same time begin alike, and the beginning. */
export function shortId(id: string): string {
  return `${id.slice(0, 8)}…${id.slice(-8)}`
}

function LaneMarks({ pipe, lanes }: { pipe: OverviewPipe; lanes: Message['lanes'] }) {
  if (lanes.length === 0) return <Soft>no destination</Soft>
  const states = lanes.map(({ destination_id: id, state }) => {
    const lane = pipe.lanes.find((one) => one.destination_id === id)
    return { id, word: messageWord(state, lane?.lane), name: lane === undefined ? id : nameOf(lane) }
  })
  const others = states.filter(({ word }) => word !== 'delivered')
  const worst = worstFirst.find((word) => others.some((one) => one.word === word)) ?? 'delivered'
  return (
    <span className={styles.lanes}>
      {states.map(({ id, word, name }) => (
        <Mark key={id} word={word} label={`${name}: ${word}`} />
      ))}
      <span className={worst === 'delivered' ? styles.calm : undefined} aria-hidden="true">
        {worst}
      </span>
    </span>
  )
}

function Excerpt({ excerpt }: { excerpt: Message['excerpt'] }) {
  if (excerpt === null) return <Soft>large: open the message</Soft>
  const { record_index: index, text, truncated } = excerpt
  return (
    <code className={styles.excerpt}>
      {index === 0 ? null : <Soft>#{count(index + 1)} </Soft>}
      <Outside text={`${singleLine(text)}${truncated ? '…' : ''}`} />
    </code>
  )
}

/** Only the mark. `label` is its text for screen readers, and on hover. */
function Mark({ word, label }: { word: keyof typeof tones; label: string }) {
  const tone = tones[word]
  return (
    <span className={styles[tone]} role="img" aria-label={label} title={label}>
      <span aria-hidden="true">{marks[tone]}</span>
    </span>
  )
}

function CopyIcon() {
  return (
    <svg width="14" height="14" viewBox="0 0 16 16" fill="none" stroke="currentColor" aria-hidden="true">
      <rect x="5.5" y="5.5" width="8" height="8" rx="1.5" />
      <path d="M3.5 10.5h-1v-8h8v1" />
    </svg>
  )
}
