/** What single pages ask for beside the overview. Secrets never are in it: the API redacts them. */
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useEffect } from 'react'
import { ApiFailure } from '../../client/failure.ts'
import { api, change, dashboard } from './api.ts'
import { usePipeOverview } from './overview.ts'

/** A pipe in full. It is asked for again when the overview shows that something of it is different. */
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
  // biome-ignore lint/correctness/useExhaustiveDependencies: `shape` is what says that it may be different
  useEffect(() => {
    void client.invalidateQueries({ queryKey: ['pipe', pipeId] })
  }, [client, pipeId, shape])
  return useQuery({
    queryKey: ['pipe', pipeId],
    queryFn: async ({ signal }) => (await api.pipes.get(pipeId, signal)).body,
  })
}

export function useDestination(pipeId: string, destinationId: string) {
  return useQuery({
    queryKey: ['pipe', pipeId, 'destination', destinationId],
    queryFn: async () => (await api.destinations.get(pipeId, destinationId)).body.destination,
    refetchInterval: 2_000,
  })
}

/** With its text, because records are shown as they were sent. Null: nothing is blocking. */
export function useBlockingMessage(pipeId: string, destinationId: string, msgId: string | null) {
  return useQuery({
    queryKey: ['pipe', pipeId, 'blocking', destinationId, msgId],
    enabled: msgId !== null,
    queryFn: async () => {
      try {
        return await api.lanes.blockingMessage(pipeId, destinationId)
      } catch (error) {
        if (error instanceof ApiFailure && error.code === 'no_blocking_message') return null
        throw error
      }
    },
  })
}

export function useKeys() {
  return useQuery({ queryKey: ['keys'], queryFn: async () => (await api.keys.list()).body.api_keys })
}

export function useUsers() {
  return useQuery({
    queryKey: ['users'],
    queryFn: async ({ signal }) => (await dashboard.users.list(signal)).users,
  })
}

/** A change: when it is done, everything that is shown is asked for again. */
export function useChange<Result, Input = void>(run: (input: Input) => Promise<Result>) {
  const client = useQueryClient()
  return useMutation({
    mutationFn: (input: Input) => change(() => run(input)),
    onSettled: () => client.invalidateQueries(),
  })
}
