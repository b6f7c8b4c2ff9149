/** Does the steps of a plan, one after the other; stops at the first that fails, saying what was done. */
import type { Client, PipeDetail, SaveOptions } from '../../client/client.ts'
import { Failure } from '../../client/failure.ts'
import { sayTransformCheck } from '../destinations/transform-options.ts'
import type { Step } from './plan.ts'

/** `onDone` is called after each step. Running the same plan's file again goes on with what is left. */
export async function applySteps(
  client: Client,
  steps: readonly Step[],
  existing: readonly PipeDetail[],
  onDone: (step: Step) => void,
  saving: SaveOptions = {},
): Promise<void> {
  const pipeIds = new Map(existing.map(({ pipe }) => [pipe.pipe_name, pipe.pipe_id]))
  for (const [index, step] of steps.entries()) {
    try {
      await executeStep(client, step, pipeIds, saving)
    } catch (error) {
      if (!(error instanceof Failure)) throw error
      const what = `${step.summary}: ${error.message}\n  ${index} of ${steps.length} changes were made`
      throw new Failure(
        error.exitCode,
        what,
        `${error.hint}; then apply again: what is done stays done`,
        error,
      )
    }
    onDone(step)
  }
}

async function executeStep(
  client: Client,
  step: Step,
  pipeIds: Map<string, string>,
  saving: SaveOptions,
): Promise<void> {
  if (step.kind === 'create-pipe') {
    const { body } = await client.pipes.create({ pipe_name: step.name, ...step.fields })
    pipeIds.set(step.name, body.pipe_id)
    return
  }
  const pipeId = pipeIds.get(step.name)
  if (pipeId === undefined) throw new Error(`the plan changes pipe ${step.name} before it makes it`)
  switch (step.kind) {
    case 'update-pipe':
      await client.pipes.update(pipeId, step.fields)
      return
    case 'delete-pipe':
      await client.pipes.delete(pipeId)
      return
    case 'put-limits':
      await client.limits.put(pipeId, step.limits)
      return
    case 'add-origin':
      await client.origins.add(pipeId, step.origin)
      return
    case 'remove-origin':
      await client.origins.remove(pipeId, step.originId)
      return
    case 'create-destination': {
      const { body } = await client.destinations.create(pipeId, step.body, saving)
      sayTransformCheck(body)
      if (step.status === 'blocked')
        await client.destinations.setStatus(pipeId, body.destination_id, 'blocked')
      return
    }
    case 'update-destination': {
      const { body } = await client.destinations.update(pipeId, step.destinationId, step.patch, saving)
      sayTransformCheck(body)
      return
    }
    case 'set-status':
      await client.destinations.setStatus(pipeId, step.destinationId, step.status)
      return
    case 'delete-destination':
      await client.destinations.delete(pipeId, step.destinationId)
  }
}
