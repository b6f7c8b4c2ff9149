/** Retries, blocks or unblocks many lanes, and says in one sentence how many. */
import { counted } from '../../platform/quantities.ts'
import type { Client } from './client.ts'
import { ApiFailure } from './failure.ts'
import { forMany, type ManyOptions, type ManyResult } from './many.ts'
import type { LanePath } from './workspace.ts'

export type LaneAction = 'retry' | 'block' | 'unblock'

/** False: there was nothing to do, for example because no message blocks the lane any longer. */
type LaneOutcome = boolean
export type LaneResult<Lane> = ManyResult<Lane, LaneOutcome>

const done: Record<LaneAction, string> = { retry: 'Retrying', block: 'Blocked', unblock: 'Unblocked' }

interface LaneOptions extends ManyOptions {
  /** Runs each request. The dashboard renews its CSRF token there. */
  guarded?: (run: () => Promise<LaneOutcome>) => Promise<LaneOutcome>
}

/** A lane that was deleted in the meantime counts as one with nothing to do. */
export function onLanes<Lane extends LanePath>(
  client: Pick<Client, 'call'>,
  action: LaneAction,
  lanes: readonly Lane[],
  { guarded = (run) => run(), ...options }: LaneOptions = {},
): Promise<LaneResult<Lane>> {
  return forMany(
    lanes,
    async (lane) => {
      try {
        return await guarded(() => actOn(client, action, lane))
      } catch (error) {
        if (error instanceof ApiFailure && error.status === 404) return false
        throw error
      }
    },
    options,
  )
}

async function actOn(client: Pick<Client, 'call'>, action: LaneAction, path: LanePath): Promise<LaneOutcome> {
  if (action === 'retry') return (await client.call('retryNow', { path })).body.retried
  const destination_status = action === 'block' ? 'blocked' : 'active'
  await client.call('setDestinationStatus', { path, body: { destination_status } })
  return true
}

/** `Retrying 3 of 5 lanes. 1 had nothing to retry, 1 failed: …` */
export function resultWords(action: LaneAction, { outcomes, failures }: LaneResult<unknown>): string {
  const acted = outcomes.filter(({ outcome }) => outcome).length
  const total = outcomes.length + failures.length
  const idle = outcomes.length - acted
  const first = failures[0]?.error
  const others = [
    ...(idle === 0 ? [] : [`${idle} had nothing to ${action}`]),
    ...(failures.length === 0
      ? []
      : [`${failures.length} failed: ${first instanceof Error ? first.message : String(first)}`]),
  ]
  const lanes = acted === total ? counted(total, 'lane') : `${acted} of ${counted(total, 'lane')}`
  return [`${done[action]} ${lanes}.`, ...(others.length === 0 ? [] : [`${others.join(', ')}.`])].join(' ')
}
