/**
 * Retries, blocks or unblocks many lanes. It continues while the user opens other pages, and reports its result there.
 */
import { type LaneAction, onLanes, resultWords } from '../../client/lane-batch.ts'
import type { LaneOfPipe } from '../../client/overview.ts'
import { say } from '../ui/toasts.tsx'
import { api, change, sessionPaceMs } from './api.ts'
import { queryClient } from './query-client.ts'

export async function runOnLanes(
  action: LaneAction,
  lanes: readonly LaneOfPipe[],
  onProgress?: (done: number, total: number) => void,
): Promise<void> {
  const paths = lanes.map(({ pipe, destination }) => ({
    pipe_id: pipe.pipe_id,
    destination_id: destination.destination_id,
  }))
  const result = await onLanes(api, action, paths, {
    everyMs: sessionPaceMs,
    guarded: change,
    ...(onProgress && { onProgress }),
  })
  // The options of all commands come with that module, so it is not part of the first page.
  const { laneCommand } = await import('./lane-command.ts')
  say(resultWords(action, result), laneCommand(action, lanes))
  await queryClient.invalidateQueries()
}
