/** The button that retries several lanes. */
import { canRetry } from '../../client/lane-causes.ts'
import type { LaneOfPipe } from '../../client/overview.ts'
import { useLaneBatch } from '../data/use-lane-batch.ts'
import { Button } from './controls.tsx'

/** Retries the lanes of them that can be retried, and shows how many are done. */
export function RetryAll({ lanes, label }: { lanes: readonly LaneOfPipe[]; label: string }) {
  const { progress, run } = useLaneBatch()
  const retryable = lanes.filter(canRetry)
  if (retryable.length === 0 && progress === null) return null
  return (
    <Button changes isBusy={progress !== null} onClick={() => void run('retry', retryable)}>
      {progress === null ? label : `Retrying ${progress.done} of ${progress.total} …`}
    </Button>
  )
}
