/** The queries of the pages of messages. */
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useEffect } from 'react'
import type { LaneRef } from '../../../client/workspace.ts'
import { api } from '../../data/api.ts'
import { usePipeOverview } from '../../data/overview.ts'

const openEveryMs = 3_000
const listEveryMs = 10_000
const perPage = '20'
const maxParked = '500'

/**
 * Returns the text too, because records are shown as they were sent. Polls until every lane has processed the
 * message.
 */
export function useMessage(msgId: string) {
  return useQuery({
    queryKey: ['message', msgId],
    queryFn: async ({ signal }) => await api.call('getMessage', { path: { msg_id: msgId }, signal }),
    refetchInterval: ({ state }) =>
      state.data?.body.lanes.some((one) => one.state === 'pending' || one.state === 'stuck')
        ? openEveryMs
        : false,
  })
}

/** Newest first. `after` null: the newest page, loaded again when the overview shows a newer record. */
export function useMessages(pipeId: string, after: number | null) {
  const client = useQueryClient()
  const lastIngest = usePipeOverview(pipeId)?.last_ingest_ts
  // biome-ignore lint/correctness/useExhaustiveDependencies: `lastIngest` changes when there is a new message
  useEffect(() => {
    void client.invalidateQueries({ queryKey: ['pipe', pipeId, 'messages', null] })
  }, [client, pipeId, lastIngest])
  return useQuery({
    queryKey: ['pipe', pipeId, 'messages', after],
    queryFn: async ({ signal }) => {
      const query = { limit: perPage, ...(after !== null && { after: String(after) }) }
      return (await api.call('listMessages', { path: { pipe_id: pipeId }, query, signal })).body
    },
    refetchInterval: after === null ? listEveryMs : false,
  })
}

/** The parked records of a message, if they are among the first ones of their lane. */
export function useParkedOf({ pipeId, destinationId }: LaneRef, msgId: string) {
  return useQuery({
    queryKey: ['pipe', pipeId, 'parked', destinationId, 'of', msgId],
    queryFn: async ({ signal }) => {
      const { body } = await api.call('listParked', {
        path: { pipe_id: pipeId, destination_id: destinationId },
        query: { limit: maxParked },
        signal,
      })
      return body.parked.filter((one) => one.msg_id === msgId)
    },
  })
}
