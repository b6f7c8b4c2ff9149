/**
 * The tail of a pipe while it is watched: the platform's EventSource, which connects again by itself and then says how far it
 * came. Records are handed on some at a time, so that a thousand a second do not draw the page a thousand times.
 */
import { useEffect, useRef, useState } from 'react'
import { parseObject } from '../../../client/http.ts'
import { valueText } from '../../../client/json-text.ts'
import { failureText } from '../../ui/failure.tsx'

export interface TailRow {
  /** `stream_seq.index` */
  id: string
  msgId: string
  receivedTs: string
  /** As it was sent, but for what is beyond `textCharacters`. */
  text: string
  isCut: boolean
}

export type TailState = 'paused' | 'connecting' | 'running' | 'reconnecting' | 'ended'

export interface Tail {
  state: TailState
  /** The reason for the last end, in words; null: it has not ended. */
  ended: string | null
  /** Newest first. */
  rows: readonly TailRow[]
  /** Records that came, those of which the filter showed none included. */
  received: number
  /** Records that the daemon left out. */
  dropped: number
}

export const shownRows = 200
/** The limit of one record: its message's page has the rest. */
const textCharacters = 2_000
const drawEveryMs = 200

const nothing: Tail = { state: 'paused', ended: null, rows: [], received: 0, dropped: 0 }
const endReasons: Record<string, string> = {
  shutdown: 'The daemon is stopping.',
  pipe_deleted: 'The pipe was deleted.',
  access_ended: 'Your session has ended.',
}

/** `keeps`: whether a record, by its JSON text, is shown. */
export function useTail(pipeId: string, keeps: (recordText: string) => boolean) {
  const [tail, setTail] = useState(nothing)
  const [sample, setSample] = useState<number | null>(null)
  const kept = useRef(keeps)
  kept.current = keeps
  useEffect(() => {
    if (sample === null) return
    return follow(
      `${import.meta.env.BASE_URL}api/v1/pipes/${encodeURIComponent(pipeId)}/tail?sample=${sample}`,
      (text) => kept.current(text),
      setTail,
      // A start after the end begins a new tail.
      () => setSample(null),
    )
  }, [pipeId, sample])
  return {
    tail,
    start: (perSecond: number) => setSample(perSecond),
    pause: () => {
      setSample(null)
      setTail((before) => ({ ...before, state: 'paused', ended: null }))
    },
    clear: () => setTail((before) => ({ ...before, rows: [], received: 0, dropped: 0 })),
  }
}

type Update = (change: (before: Tail) => Tail) => void

/** Returns what stops it. */
function follow(
  address: string,
  keeps: (recordText: string) => boolean,
  update: Update,
  onEnd: () => void,
): () => void {
  const leaving = new AbortController()
  const source = new EventSource(address)
  let fresh: TailRow[] = []
  let received = 0
  let dropped = 0
  const draw = () => {
    if (received === 0 && dropped === 0) return
    const [rows, more, left] = [fresh, received, dropped]
    fresh = []
    received = 0
    dropped = 0
    update((before) => ({
      ...before,
      rows: [...rows.reverse(), ...before.rows].slice(0, shownRows),
      received: before.received + more,
      dropped: before.dropped + left,
    }))
  }
  const drawing = setInterval(draw, drawEveryMs)
  const stop = () => {
    leaving.abort()
    clearInterval(drawing)
    source.close()
  }
  const end = (ended: string) => {
    draw()
    stop()
    update((before) => ({ ...before, state: 'ended', ended }))
    onEnd()
  }
  const show = (state: TailState) => update((before) => ({ ...before, state, ended: null }))
  show('connecting')
  source.onopen = () => show('running')
  source.onerror = () => {
    if (source.readyState !== EventSource.CLOSED) return show('reconnecting')
    // It was answered with something else than events; EventSource does not tell what.
    void whyRefused(address, leaving.signal).then((why) => {
      if (!leaving.signal.aborted) end(why)
    })
  }
  source.addEventListener('record', ({ data, lastEventId }: MessageEvent<string>) => {
    received += 1
    const text = valueText(data, 'record') ?? ''
    if (!keeps(text)) return
    const word = (key: string) => JSON.parse(valueText(data, key) ?? '""') as string
    fresh.push({
      id: lastEventId,
      msgId: word('msg_id'),
      receivedTs: word('received_ts'),
      text: text.slice(0, textCharacters),
      isCut: text.length > textCharacters,
    })
    if (fresh.length > shownRows) fresh.shift()
  })
  source.addEventListener('dropped', ({ data }: MessageEvent<string>) => {
    dropped += Number(valueText(data, 'records') ?? 0)
  })
  source.addEventListener('end', ({ data }: MessageEvent<string>) => {
    const reason: string = JSON.parse(valueText(data, 'reason') ?? '""')
    end(endReasons[reason] ?? reason)
  })
  return stop
}

async function whyRefused(address: string, signal: AbortSignal): Promise<string> {
  try {
    const response = await fetch(address, { signal })
    if (response.ok) {
      void response.body?.cancel()
      return 'The connection was lost.'
    }
    const message = parseObject(await response.text())?.message
    return typeof message === 'string' ? message : `The request failed (HTTP ${response.status}).`
  } catch (error) {
    return failureText(error)
  }
}
