/** The queries of the pages of parked records. */
import { useQuery } from '@tanstack/react-query'
import type { SuccessBody } from '../../../../contract/operations.ts'
import { ApiFailure } from '../../../client/failure.ts'
import { givenFilter, type ParkedFilter } from '../../../client/parked.ts'
import { type LaneRef, lanePath } from '../../../client/workspace.ts'
import { api } from '../../data/api.ts'

export const perPage = '50'

export type ParkedPageData = SuccessBody<'listParked'>

/** One page of parked records. Polled every second while one is being replayed. `after` null: the first page. */
export function useParkedPage(place: LaneRef, filter: ParkedFilter, after: string | null) {
  const query = {
    limit: perPage,
    ...givenFilter(filter),
    ...(after !== null && { after }),
  }
  return useQuery({
    queryKey: ['pipe', place.pipeId, 'parked', place.destinationId, query],
    queryFn: async ({ signal }) =>
      (await api.call('listParked', { path: lanePath(place), query, signal })).body,
    refetchInterval: ({ state }) => parkedEveryMs(state.data?.parked),
  })
}

/**
 * Returns the text too, because records are shown as they were sent. Null: the record is not parked, or no longer.
 */
export function useParked(place: LaneRef, parkedId: string) {
  return useQuery({
    queryKey: ['pipe', place.pipeId, 'parked', place.destinationId, 'one', parkedId],
    queryFn: ({ signal }) =>
      ifParked(api.call('getParked', { path: { ...lanePath(place), parked_id: parkedId }, signal })),
    refetchInterval: ({ state }) => parkedEveryMs(state.data && [state.data.body]),
  })
}

/** How often parked records are read again: every second while one of them is being replayed. */
export function parkedEveryMs(parked: readonly { state: string }[] | null | undefined): number {
  return parked?.some((one) => one.state === 'replaying') ? 1_000 : 10_000
}

/** Null: the record is not parked. */
export async function ifParked<Reply>(reply: Promise<Reply>): Promise<Reply | null> {
  try {
    return await reply
  } catch (error) {
    if (error instanceof ApiFailure && error.code === 'parked_not_found') return null
    throw error
  }
}
