/** The progress of an action on many lanes. The code of the action is loaded with its first use. */
import { useState } from 'react'
import type { LaneAction } from '../../client/lane-batch.ts'
import type { LaneOfPipe } from '../../client/overview.ts'

/** `progress`: how many of the lanes are done, while the action runs. */
export function useLaneBatch() {
  const [progress, setProgress] = useState<{ done: number; total: number } | null>(null)
  const run = async (action: LaneAction, lanes: readonly LaneOfPipe[]) => {
    setProgress({ done: 0, total: lanes.length })
    try {
      // Most visits of the first page retry nothing.
      const { runOnLanes } = await import('./lane-batch.ts')
      await runOnLanes(action, lanes, (done, total) => setProgress({ done, total }))
    } finally {
      setProgress(null)
    }
  }
  return { progress, run }
}
