/** The queries of the pages of records that are parked at their pipe. */
import { useQuery } from '@tanstack/react-query'
import type { SuccessBody } from '../../../../contract/operations.ts'
import { api } from '../../data/api.ts'
import { usePipeOverview } from '../../data/overview.ts'
import { ifParked, parkedEveryMs, perPage } from '../parked/queries.ts'

export type PipeParkedPageData = SuccessBody<'listPipeParked'>

/** `errorPath` empty: all records. `after` null: the first page. */
export function usePipeParkedPage(pipeId: string, errorPath: string, after: string | null) {
  const query = {
    limit: perPage,
    ...(errorPath !== '' && { error_path: errorPath }),
    ...(after !== null && { after }),
  }
  return useList(pipeId, query)
}

/** The number of records that are parked at the pipe. */
export function usePipeParkedCount(pipeId: string): number {
  return useList(pipeId, { limit: '1' }).data?.count ?? 0
}

function useList(pipeId: string, query: Record<string, string>) {
  return useQuery({
    queryKey: ['pipe', pipeId, 'pipe-parked', query],
    queryFn: async ({ signal }) =>
      (await api.call('listPipeParked', { path: { pipe_id: pipeId }, query, signal })).body,
    refetchInterval: ({ state }) => parkedEveryMs(state.data?.parked),
  })
}

/** Returns the text too, because the record is shown as it was sent. Null: the record is not parked. */
export function usePipeParked(pipeId: string, parkedId: string) {
  const path = { pipe_id: pipeId, parked_id: parkedId }
  return useQuery({
    queryKey: ['pipe', pipeId, 'pipe-parked', 'one', parkedId],
    queryFn: ({ signal }) => ifParked(api.call('getPipeParked', { path, signal })),
    refetchInterval: ({ state }) => parkedEveryMs(state.data && [state.data.body]),
  })
}

/** The name of the pipe in commands. */
export function usePipeName(pipeId: string): string {
  return usePipeOverview(pipeId)?.pipe_name ?? pipeId
}

export function pipeParkedPath(pipeId: string, parkedId?: string): string {
  return `/pipes/${pipeId}/parked${parkedId === undefined ? '' : `/${parkedId}`}`
}
