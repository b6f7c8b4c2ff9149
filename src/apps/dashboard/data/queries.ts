/** The queries of single pages, in addition to the overview. They never hold secrets: the API redacts them. */
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useEffect, useSyncExternalStore } from 'react'
import { minuteMs } from '../../../platform/quantities.ts'
import { ApiFailure } from '../../client/failure.ts'
import { api, change, dashboard } from './api.ts'
import { useHourRange } from './hour-range.ts'
import { usePipeOverview } from './overview.ts'
import { useSession } from './session-context.ts'
import { sessionEnd } from './session-end.ts'

export const openapiAddress = '/openapi/management-v1.openapi.yaml'
export const destinationEveryMs = 10_000
const usageEveryMs = minuteMs
const usageKey = 'usage'

/** A pipe in full. It is read again when the overview shows that a part of it has changed. */
export function usePipe(pipeId: string) {
  const client = useQueryClient()
  const pipe = usePipeOverview(pipeId)
  const shape =
    pipe === undefined
      ? 'gone'
      : [
          pipe.pipe_status,
          ...pipe.lanes.map((one) => `${one.destination_id} ${one.destination_status}`),
        ].join()
  // biome-ignore lint/correctness/useExhaustiveDependencies: `shape` changes when the result may have changed
  useEffect(() => {
    void client.invalidateQueries({ queryKey: ['pipe', pipeId] })
  }, [client, pipeId, shape])
  return useQuery({
    queryKey: ['pipe', pipeId],
    queryFn: async ({ signal }) => {
      const { body, etag } = await api.call('getPipe', { path: { pipe_id: pipeId }, signal })
      return { ...body, etag }
    },
  })
}

/** Its lane is as fresh as the overview; the rest changes only when a user changes it. */
export function useDestination(pipeId: string, destinationId: string) {
  const live = usePipeOverview(pipeId)?.lanes.find((one) => one.destination_id === destinationId)
  const query = useQuery({
    queryKey: ['pipe', pipeId, 'destination', destinationId],
    queryFn: async () => {
      const path = { pipe_id: pipeId, destination_id: destinationId }
      const { body, etag } = await api.call('getDestination', { path })
      return { destination: body.destination, etag }
    },
    refetchInterval: destinationEveryMs,
  })
  const { data: { destination, etag = null } = {}, error } = query
  const isFresh = live !== undefined && live.destination_status === destination?.destination_status
  return {
    error,
    etag,
    data: destination !== undefined && isFresh ? { ...destination, lane: live.lane } : destination,
  }
}

/** The address that records are sent to, which can differ from that of this page. */
export function useIngestUrl(pipeId: string): string {
  return `${useDataUrl()}/v1/ingest/${pipeId}`
}

export function useDataUrl(): string {
  return useSession()?.data_url ?? location.origin
}

/** With its text, because records are shown as they were sent. Null: nothing is blocking. */
export function useBlockingMessage(
  pipeId: string,
  destinationId: string,
  msgId: string | null,
  from: number,
) {
  return useQuery({
    queryKey: ['pipe', pipeId, 'blocking', destinationId, msgId, from],
    enabled: msgId !== null,
    queryFn: async () => {
      try {
        return {
          ...(await api.call('getBlockingMessage', {
            path: { pipe_id: pipeId, destination_id: destinationId },
            query: { from },
          })),
          from,
        }
      } catch (error) {
        if (error instanceof ApiFailure && error.code === 'no_blocking_message') return null
        throw error
      }
    },
  })
}

export function useKeys() {
  return useQuery({ queryKey: ['keys'], queryFn: async () => (await api.call('listApiKeys')).body.api_keys })
}

/** With the outcome of the last ones. */
export function useAlerts() {
  const isEnded = useSyncExternalStore(sessionEnd.subscribe, sessionEnd.isEnded)
  return useQuery({
    queryKey: ['alerts'],
    queryFn: async ({ signal }) => {
      const { body, etag } = await api.call('getAlerts', { signal })
      return { ...body, etag }
    },
    refetchInterval: isEnded ? false : destinationEveryMs,
  })
}

/** `after` null: the newest. */
export function useAudit(after: number | null) {
  return useQuery({
    queryKey: ['audit', after],
    queryFn: async ({ signal }) =>
      (await api.call('listAudit', { query: after === null ? {} : { after: String(after) }, signal })).body,
  })
}

export function useUsers() {
  return useQuery({
    queryKey: ['users'],
    queryFn: async ({ signal }) => (await dashboard.users.list(signal)).users,
  })
}

/** The hours of the range of the page; once a minute, however often pages with it are opened. */
function useHours<Result>(
  key: readonly (string | null)[],
  read: (call: { query: Record<string, string>; signal: AbortSignal }) => Promise<Result>,
) {
  const { query } = useHourRange()
  const isEnded = useSyncExternalStore(sessionEnd.subscribe, sessionEnd.isEnded)
  return useQuery({
    queryKey: [usageKey, ...key, query],
    queryFn: ({ signal }) => read({ query, signal }),
    staleTime: usageEveryMs,
    refetchInterval: isEnded ? false : usageEveryMs,
  })
}

/** `pipeId` null: all pipes. */
export function useUsage(pipeId: string | null) {
  return useHours([pipeId], async (call) => {
    const { body } =
      pipeId === null
        ? await api.call('getUsage', call)
        : await api.call('getPipeUsage', { path: { pipe_id: pipeId }, ...call })
    return body.hours
  })
}

export function useLaneUsage(pipeId: string, destinationId: string) {
  const path = { pipe_id: pipeId, destination_id: destinationId }
  return useHours(
    [pipeId, destinationId],
    async (call) => (await api.call('getDestinationUsage', { path, ...call })).body.hours,
  )
}

export function useLatency(pipeId: string, destinationId: string) {
  const path = { pipe_id: pipeId, destination_id: destinationId }
  return useHours(
    [pipeId, destinationId, 'latency'],
    async (call) => (await api.call('getDestinationLatency', { path, ...call })).body,
  )
}

/** Delivery saves a new key after a few seconds. */
export function useDrift(pipeId: string, destinationId: string) {
  return useQuery({
    queryKey: ['pipe', pipeId, 'drift', destinationId],
    queryFn: async ({ signal }) =>
      (await api.call('getDrift', { path: { pipe_id: pipeId, destination_id: destinationId }, signal })).body
        .drift,
    refetchInterval: destinationEveryMs,
  })
}

/** A change. After it everything that is shown is read again, except usage, which no change affects. */
export function useChange<Result, Input = void>(run: (input: Input) => Promise<Result>) {
  const client = useQueryClient()
  return useMutation({
    mutationFn: (input: Input) => change(() => run(input)),
    onSettled: () => {
      void client.invalidateQueries({ predicate: ({ queryKey }) => queryKey[0] !== usageKey })
    },
  })
}
