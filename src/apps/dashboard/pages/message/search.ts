/**
 * The filters of the messages page, which are all in the address, and the search that they describe.
 *
 *   ?pipe=ID&range=7d&lane=ID&state=parked&where=customer.country%3DAT&id=MSG_ID&open=MSG_ID
 */
import { useInfiniteQuery } from '@tanstack/react-query'
import { useMemo } from 'react'
import { useSearch } from 'wouter'
import { type MessageState, messageStates } from '../../../../contract/state-words.ts'
import { hourMs } from '../../../../platform/quantities.ts'
import type { MessageList } from '../../../client/client.ts'
import { useSetParams } from '../../data/address.ts'
import { api } from '../../data/api.ts'
import { type HourRange, useHourRange } from '../../data/hour-range.ts'

export interface MessageFilters {
  pipeId: string | null
  laneId: string | null
  state: MessageState | null
  /** `key=value` */
  where: string | null
  msgId: string | null
  /** The message in the panel. */
  openId: string | null
}

const names: Record<keyof MessageFilters, string> = {
  pipeId: 'pipe',
  laneId: 'lane',
  state: 'state',
  where: 'where',
  msgId: 'id',
  openId: 'open',
}

export function useMessageFilters(): MessageFilters {
  const search = useSearch()
  return useMemo(() => {
    const given = new URLSearchParams(search)
    const text = (name: keyof MessageFilters) => given.get(names[name])?.trim() || null
    const state = text('state')
    return {
      pipeId: text('pipeId'),
      laneId: text('laneId'),
      state: messageStates.find((one) => one === state) ?? null,
      where: text('where'),
      msgId: text('msgId'),
      openId: text('openId'),
    }
  }, [search])
}

/** Returns a function that changes some filters in the address. The back button closes the panel. */
export function useSetMessageFilters(): (changed: Partial<MessageFilters>) => void {
  const setParams = useSetParams()
  return (changed) =>
    setParams(
      Object.fromEntries(
        Object.entries(changed).map(([name, value]) => [names[name as keyof MessageFilters], value]),
      ),
      'openId' in changed,
    )
}

/** The address of the page with a message in the panel. */
export function withOpen(search: string, msgId: string): string {
  const params = new URLSearchParams(search)
  params.set(names.openId, msgId)
  return `/messages?${params}`
}

/** The times of a range, as of now. */
function timesOf({ name, query }: HourRange): { since: string; until?: string } {
  const hours = name === '1h' ? 1 : Number(query.hours)
  if (query.until === undefined) return { since: new Date(Date.now() - hours * hourMs).toISOString() }
  const endMs = Date.parse(query.until) + hourMs
  return { since: new Date(endMs - hours * hourMs).toISOString(), until: new Date(endMs).toISOString() }
}

const newestEveryMs = 10_000

/** The times stay the same from page to page. */
type PagePlace = { times: ReturnType<typeof timesOf>; after: number } | null

export interface MessagePage extends MessageList {
  times: ReturnType<typeof timesOf>
}

/** While only the first page is shown, and no records have to be searched, it is read again and again. */
export function useMessageSearch(pipeId: string | null, { laneId, state, where, msgId }: MessageFilters) {
  const range = useHourRange()
  const filters = {
    ...(laneId !== null && { destination_id: laneId }),
    ...(state !== null && { state }),
    ...(where !== null && { where }),
    ...(msgId !== null && { msg_id: msgId }),
  }
  return useInfiniteQuery({
    queryKey: ['pipe', pipeId, 'messages', 'search', filters, range.query],
    enabled: pipeId !== null,
    initialPageParam: null as PagePlace,
    queryFn: async ({ pageParam, signal }): Promise<MessagePage> => {
      const times = pageParam?.times ?? timesOf(range)
      const query = {
        ...filters,
        ...(msgId === null && times),
        ...(pageParam !== null && { after: String(pageParam.after) }),
      }
      const path = { pipe_id: pipeId ?? '' }
      return { ...(await api.call('listMessages', { path, query, signal })).body, times }
    },
    getNextPageParam: ({ next, times }): PagePlace | undefined =>
      next === null ? undefined : { after: next, times },
    refetchInterval: ({ state: { data } }) =>
      where === null && (data?.pages.length ?? 0) <= 1 ? newestEveryMs : false,
  })
}
