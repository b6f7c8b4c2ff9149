/** A replay of kept messages: its state and progress, and the button that cancels it. */
import { useQuery } from '@tanstack/react-query'
import { count, counted } from '../../../../platform/quantities.ts'
import type { Replay } from '../../../client/client.ts'
import type { LaneRef } from '../../../client/workspace.ts'
import { api } from '../../data/api.ts'
import { useChange } from '../../data/queries.ts'
import { Button } from '../../ui/controls.tsx'
import { FailureNotice } from '../../ui/failure.tsx'
import { focusAround, isOpen, JobState } from '../../ui/job-state.tsx'
import { Soft } from '../../ui/layout.tsx'
import { Outside } from '../../ui/text.tsx'
import styles from './progress.module.css'

const everyMs = 1_000
export function ReplayState({ replay }: { replay: Replay }) {
  const isRetrying = replay.state === 'running' && replay.error !== null
  return <JobState state={replay.state} isRetrying={isRetrying} />
}

export function pathOf({ pipeId, destinationId }: LaneRef) {
  return { pipe_id: pipeId, destination_id: destinationId }
}

/** Read again and again until the replay has ended. */
export function useReplay(lane: LaneRef, first: Replay): Replay {
  const { data } = useQuery({
    queryKey: ['pipe', lane.pipeId, 'replay', first.replay_id],
    queryFn: async ({ signal }) => {
      const path = { ...pathOf(lane), replay_id: first.replay_id }
      return (await api.call('getReplay', { path, signal })).body
    },
    initialData: first,
    refetchInterval: ({ state }) => (state.data !== undefined && !isOpen(state.data) ? false : everyMs),
  })
  return data
}

/** The number of messages that are done, and the outcome of their records. */
export function ReplayProgress({ replay }: { replay: Replay }) {
  const { done_messages: done, messages, replayed_records: records, error } = replay
  const others = [
    [replay.parked_records, 'parked'],
    [replay.filtered_records, 'filtered out'],
    [replay.expired_records, 'no longer kept'],
  ] as const
  return (
    <>
      <progress
        className={styles.bar}
        max={Math.max(1, messages)}
        value={done}
        aria-label="Progress of the replay"
      />
      <Soft>
        {count(done)} of {counted(messages, 'message')}, {counted(records, 'record')} stored
        {others.map(([number, words]) => (number === 0 ? '' : `, ${number} ${words}`)).join('')}.
      </Soft>
      {error === null ? null : (
        <p>
          <Outside text={error.message} />
        </p>
      )}
    </>
  )
}

/** Nothing for a replay that has ended. */
export function CancelReplay({ lane, replay }: { lane: LaneRef; replay: Replay }) {
  const cancel = useChange(() =>
    api.call('cancelReplay', { path: { ...pathOf(lane), replay_id: replay.replay_id } }),
  )
  if (!isOpen(replay)) return null
  return (
    <>
      <Button
        changes
        isBusy={cancel.isPending}
        onClick={({ currentTarget: button }) =>
          cancel.mutate(undefined, { onSuccess: () => focusAround(button) })
        }
      >
        Cancel replay
      </Button>
      <FailureNotice failure={cancel.error} />
    </>
  )
}
