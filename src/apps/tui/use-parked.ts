/**
 * The parked records of a lane on the screen: which one is selected, and what the keys do.
 *
 *   list ──enter──▶ one record in detail ──esc──▶ list ──esc──▶ board
 *     d, R  confirmation: only y executes the action
 */
import { useEffect, useState } from 'react'
import type { ParkedDetail, ParkedRecord } from '../../contract/parked.ts'
import { counted } from '../../platform/quantities.ts'
import type { Client } from '../client/client.ts'
import { singleLine } from '../client/json-text.ts'
import { errorWords, parkedRecords, placeWords, recordTextsOf, replayOutcome } from '../client/parked.ts'
import type { LanePath } from '../client/workspace.ts'
import { failureLine, type Lane, laneName, pathOf } from './actions.ts'
import { type KeyPress, movesIn } from './use-keys.ts'

/** More records than a user reads on a screen. The command line shows all. */
const maxShown = 500
const outcomeWaitMs = 10_000

export interface ShownRecord {
  parked: Omit<ParkedDetail, 'records'>
  /** The original text of each record, on one line. */
  records: string[]
}

export interface ParkedView {
  /** Null: not loaded yet. */
  list: readonly ParkedRecord[] | null
  hasMore: boolean
  selected: ParkedRecord | null
  /** The record that is shown in detail. Null: the list is shown. */
  shown: ShownRecord | null
  /** Waits for y. */
  question: string | null
  onKey(pressed: KeyPress): void
}

/** `discard` keeps the record for which confirmation was requested, because the list can change before the answer. */
type Asking = { kind: 'discard'; parked: ParkedRecord } | { kind: 'replay all' }

interface Options {
  readOnly: boolean
  act(what: Promise<string>): void
  notify(text: string): void
  close(): void
}

interface Shown {
  /** Null: the page is closed. */
  lane: Lane | null
  /** The time of the snapshot. A new snapshot loads everything again. */
  takenMs: number
}

export function useParked(client: Client, { lane, takenMs }: Shown, options: Options): ParkedView {
  const { readOnly, act, notify, close } = options
  const { list, hasMore } = useParkedList(client, { lane, takenMs })
  const [selectedId, select] = useState<string | null>(null)
  const [shown, setShown] = useState<ShownRecord | null>(null)
  const [asking, setAsking] = useState<Asking | null>(null)
  const place = lane === null ? null : pathOf(lane)
  const selected = list?.find((one) => one.parked_id === selectedId) ?? list?.[0] ?? null

  const move = (by: number) => {
    const all = list ?? []
    const at = selected === null ? 0 : all.indexOf(selected)
    select(all[Math.max(0, Math.min(all.length - 1, at + by))]?.parked_id ?? null)
  }
  const onSelected = (what: (place: LanePath, one: ParkedRecord) => void) => {
    if (place !== null && selected !== null) what(place, selected)
  }
  const changing = (what: () => void) => (readOnly ? notify('This screen is read-only.') : what())
  const onAnswer = (pressed: KeyPress) => {
    setAsking(null)
    if (pressed !== 'y' && pressed !== 'Y') return notify('Not changed.')
    if (asking?.kind === 'discard' && place !== null) {
      setShown(null)
      act(discard(client, place, asking.parked))
    } else if (lane !== null) act(replayAll(client, lane))
  }
  const moves = movesIn(list?.length ?? 0)
  const leave = () => {
    if (shown !== null) setShown(null)
    else close()
  }
  const showSelected = () =>
    onSelected(
      (at, one) => void load(client, at, one.parked_id).then(setShown, (error) => notify(failureLine(error))),
    )
  const keys: Record<string, () => void> = {
    escape: leave,
    left: leave,
    x: close,
    return: showSelected,
    right: showSelected,
    r: () =>
      changing(() =>
        onSelected((at, one) => {
          setShown(null)
          act(replay(client, at, one))
        }),
      ),
    d: () => changing(() => onSelected((_, parked) => setAsking({ kind: 'discard', parked }))),
    R: () => changing(() => onSelected(() => setAsking({ kind: 'replay all' }))),
  }
  return {
    list,
    hasMore,
    selected,
    shown,
    question: asking === null || lane === null ? null : questionOf(asking, lane),
    onKey(pressed) {
      if (asking !== null) return onAnswer(pressed)
      if (shown === null && moves[pressed] !== undefined) return move(moves[pressed])
      keys[pressed]?.()
    },
  }
}

function useParkedList(client: Client, { lane, takenMs }: Shown): Pick<ParkedView, 'list' | 'hasMore'> {
  const [found, setFound] = useState<{ id: string; list: ParkedRecord[]; hasMore: boolean } | null>(null)
  const place = lane === null ? null : pathOf(lane)
  const id = place?.destination_id ?? null
  // biome-ignore lint/correctness/useExhaustiveDependencies: `place` is a new object with every snapshot
  useEffect(() => {
    if (place === null) return setFound(null)
    const stop = new AbortController()
    parkedRecords(client, place, {}, { most: maxShown, signal: stop.signal }).then(
      ({ parked, hasMore }) => setFound({ id: place.destination_id, list: parked, hasMore }),
      // The header reports that the daemon does not respond. The last content stays.
      () => {},
    )
    return () => stop.abort()
  }, [client, id, takenMs])
  const isCurrent = found !== null && found.id === id
  return isCurrent ? found : { list: null, hasMore: false }
}

function questionOf(asking: Asking, lane: Lane): string {
  if (asking.kind === 'replay all') return `Replay all parked records of ${laneName(lane)}? [y/N]`
  return `Discard ${placeWords(asking.parked)} permanently? [y/N]  ${laneName(lane)} never receives it.`
}

async function load(client: Client, place: LanePath, parked_id: string): Promise<ShownRecord> {
  const { body, text } = await client.call('getParked', { path: { ...place, parked_id } })
  return { parked: body, records: recordTextsOf(text).map(singleLine) }
}

/** Waits for the result, at most ten seconds. */
async function replay(client: Client, place: LanePath, one: ParkedRecord): Promise<string> {
  const { parked_id: id } = one
  const { body } = await client.call('replayParked', {
    path: { ...place, parked_id: id },
    body: {},
  })
  const outcome = await replayOutcome(client, place, { parkedId: id, replays: body.replays }, outcomeWaitMs)
  const name = placeWords(one)
  if (outcome.kind === 'stored') return `Replayed ${name}: stored.`
  if (outcome.kind === 'failed') return `Replayed ${name}: failed again: ${errorWords(outcome.error)}`
  return `Replaying ${name}; the result is not known yet.`
}

async function replayAll(client: Client, lane: Lane): Promise<string> {
  const { body } = await client.call('replayManyParked', { path: pathOf(lane), body: { all: true } })
  return `Replaying ${counted(body.replayed, 'parked record')} of ${laneName(lane)}.`
}

async function discard(client: Client, place: LanePath, one: ParkedRecord): Promise<string> {
  await client.call('deleteParked', { path: { ...place, parked_id: one.parked_id } })
  return `Discarded ${placeWords(one)}.`
}
