/** `apply --dry-run`: shows the results of a plan's transforms for the newest records, before anything is stored. */
import { count } from '../../../platform/quantities.ts'
import type { Client, PipeDetail } from '../../client/client.ts'
import { commandFailure } from '../../client/failure.ts'
import { say } from '../terminal.ts'
import type { Step } from './plan.ts'

/** Throws Failure if the daemon would reject one of them. A new pipe has no records. */
export async function tryTransforms(
  client: Client,
  steps: readonly Step[],
  existing: readonly PipeDetail[],
): Promise<void> {
  const refused: string[] = []
  for (const step of steps) {
    const pipeId = existing.find(({ pipe }) => pipe.pipe_name === step.name)?.pipe.pipe_id
    const body = bodyOf(step)
    if (pipeId === undefined || body === null) continue
    const { body: trial } = await client.call('tryTransform', {
      path: { pipe_id: pipeId },
      body: { ...body, limit: 1 },
    })
    const { is_complete, records_seen, kept, filtered, failed, faults } = trial
    const [first] = faults
    const fault = first === undefined ? '' : ` (${first.path}: ${first.message})`
    say(
      `transform of ${step.name}: of ${count(records_seen)} newest records ${count(kept)} are kept, ${count(filtered)} filtered out, and ${count(failed)} fail${fault}`,
    )
    if (is_complete && failed > 0 && failed === records_seen) refused.push(step.summary)
  }
  if (refused.length === 0) return
  throw commandFailure(
    `the transform fails on all newest records, so this would be rejected: ${refused.join('; ')}`,
    'correct the transform, or apply with --no-transform-check',
  )
}

function bodyOf(step: Step) {
  if (step.kind === 'create-destination' && step.body.transform) return { transform: step.body.transform }
  if (step.kind === 'update-destination' && step.patch.transform)
    return { transform: step.patch.transform, destination_id: step.destinationId }
  return null
}
