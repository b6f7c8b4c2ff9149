/** Reports the results of replays. */
import { counted } from '../../../platform/quantities.ts'
import type { Client } from '../../client/client.ts'
import { commandFailure, type Failure } from '../../client/failure.ts'
import { errorWords, type ReplayOutcome, replayOutcome, type StartedReplay } from '../../client/parked.ts'
import { io } from '../io.ts'
import { openCountProgress } from '../progress.ts'
import { say } from '../terminal.ts'
import type { NamedLane } from './references.ts'

/** Time without any result after which the command stops waiting for replays. */
const waitMs = 30_000

/** `wait` undefined: waits only on a terminal. */
export function shouldWait(wait: boolean | undefined): boolean {
  return wait ?? io().stderr.isTTY === true
}

/** Throws Failure if the replay failed, or if there is no result after half a minute. */
export async function sayOutcome(client: Client, lane: NamedLane, replay: StartedReplay): Promise<void> {
  const outcome = await replayOutcome(client, lane, replay, waitMs)
  if (outcome.kind === 'stored') return say(`Stored: ${lane.name} accepted it.`)
  if (outcome.kind === 'failed') {
    throw commandFailure(
      `failed again: ${errorWords(outcome.error)}`,
      `\`pipectl parked edit ${lane.name} ${replay.parkedId}\` changes the record and replays it`,
    )
  }
  throw stillWaiting(lane)
}

/** The same for several replays in order, because the lane executes them one after another. */
export async function sayOutcomes(
  client: Client,
  lane: NamedLane,
  replayed: readonly StartedReplay[],
): Promise<void> {
  const found: Record<ReplayOutcome['kind'], number> = { stored: 0, failed: 0, waiting: 0, left: 0 }
  const failures = new Map<string, number>()
  const progress = openCountProgress('Replayed', replayed.length)
  let done = 0
  try {
    for (const replay of replayed) {
      const outcome = await replayOutcome(client, lane, replay, waitMs)
      found[outcome.kind] += 1
      if (outcome.kind === 'waiting') break
      if (outcome.kind === 'failed')
        failures.set(outcome.error.code, (failures.get(outcome.error.code) ?? 0) + 1)
      progress.update(++done)
    }
  } finally {
    progress.end()
  }
  const left = found.left === 0 ? '' : `, ${found.left} not replayed`
  say(`Stored ${found.stored}, failed again ${found.failed}${left}.`)
  if (found.waiting > 0) throw stillWaiting(lane)
  if (failures.size === 0) return
  const codes = [...failures].map(([code, times]) => `${code} (${times})`).join(', ')
  throw commandFailure(
    `${counted(found.failed, 'record')} failed again: ${codes}`,
    `\`pipectl parked list ${lane.name}\` shows them; \`pipectl parked edit\` changes one`,
  )
}

function stillWaiting({ name }: NamedLane): Failure {
  return commandFailure(
    'the result is not known yet: the replay continues by itself',
    `\`pipectl lanes list\` shows whether ${name} is blocked or retrying, \`pipectl parked list ${name}\` what is still parked`,
  )
}
