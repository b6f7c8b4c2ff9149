/** The buttons that retry, block or unblock several lanes. */
import { useState } from 'react'
import { counted } from '../../../platform/quantities.ts'
import type { LaneAction } from '../../client/lane-batch.ts'
import { canRetry } from '../../client/lane-causes.ts'
import type { LaneOfPipe } from '../../client/overview.ts'
import { laneCommand } from '../data/lane-command.ts'
import { useLaneBatch } from '../data/use-lane-batch.ts'
import { Confirm } from './confirm.tsx'
import { Button } from './controls.tsx'

const words: Record<'block' | 'unblock', (lanes: string) => string> = {
  block: (lanes) =>
    `Nothing is delivered to ${lanes} until they are unblocked. Their records are kept for the retention time of undelivered messages.`,
  unblock: (lanes) => `Delivery to ${lanes} continues where it stopped.`,
}

/** `lanes`: the selected ones. */
export function LaneBulkButtons({ lanes, onDone }: { lanes: readonly LaneOfPipe[]; onDone: () => void }) {
  const { progress, run } = useLaneBatch()
  const [asking, setAsking] = useState<'block' | 'unblock' | null>(null)
  const isBlocked = ({ destination }: LaneOfPipe) => destination.destination_status === 'blocked'
  const of: Record<LaneAction, readonly LaneOfPipe[]> = {
    retry: lanes.filter(canRetry),
    block: lanes.filter((lane) => !isBlocked(lane)),
    unblock: lanes.filter(isBlocked),
  }
  if (progress !== null) return <span role="status">{`${progress.done} of ${progress.total} done …`}</span>
  return (
    <>
      <Button
        look="primary"
        changes
        disabled={of.retry.length === 0}
        onClick={() => void run('retry', of.retry).then(onDone)}
      >
        {of.retry.length === 0 ? 'Retry' : `Retry ${counted(of.retry.length, 'lane')}`}
      </Button>
      {(['block', 'unblock'] as const).map((action) => (
        <Button key={action} changes disabled={of[action].length === 0} onClick={() => setAsking(action)}>
          {labelOf(action)}
          {of[action].length === 0 ? '' : ` ${counted(of[action].length, 'lane')}`} …
        </Button>
      ))}
      {asking === null ? null : (
        <Confirm
          title={`${labelOf(asking)} ${counted(of[asking].length, 'lane')}?`}
          confirmLabel={`${labelOf(asking)} ${counted(of[asking].length, 'lane')}`}
          isDanger={asking === 'block'}
          command={laneCommand(asking, of[asking]) ?? ''}
          run={async () => {
            const chosen = of[asking]
            setAsking(null)
            await run(asking, chosen)
            onDone()
          }}
          onClose={() => setAsking(null)}
        >
          {words[asking](`these ${counted(of[asking].length, 'destination')}`)}
        </Confirm>
      )}
    </>
  )
}

function labelOf(action: 'block' | 'unblock'): string {
  return action === 'block' ? 'Block' : 'Unblock'
}
