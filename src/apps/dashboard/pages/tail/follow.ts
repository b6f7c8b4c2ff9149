/**
 * The tail of a pipe while the page is open. The platform's EventSource reconnects by itself and sends its last
 * position. Records are passed on in groups, so that a thousand per second do not render the page a thousand times.
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
  /** As it was sent, except for the part beyond `textCharacters`. */
  text: string
  isCut: boolean
}

export type TailState = 'paused' | 'connecting' | 'running' | 'reconnecting' | 'ended'

export interface Tail {
  state: TailState
  /** The reason why the tail ended. Null: it has not ended. */
  ended: string | null
  /** Newest first. */
  rows: readonly TailRow[]
  /** Received records, including those that the filter hides. */
  received: number
  /** Records that the daemon dropped. */
  dropped: number
}

export const shownRows = 200
/** The limit of one record. The page of its message shows all of it. */
const textCharacters = 2_000
const drawEveryMs = 200

const nothing: Tail = { state: 'paused', ended: null, rows: [], received: 0, dropped: 0 }
const endReasons: Record<string, string> = {
  shutdown: 'The daemon is stopping.',
  pipe_deleted: 'The pipe was deleted.',
  access_ended: 'Your session has ended.',
}

/** `keeps` decides by the JSON text of a record whether it is shown. */
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

/** Returns a function that stops it. */
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
    // The response was not an event stream. EventSource does not reveal the response.
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
