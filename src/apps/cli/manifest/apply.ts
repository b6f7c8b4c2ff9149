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
    const { body } = await client.call('createPipe', { body: { pipe_name: step.name, ...step.fields } })
    pipeIds.set(step.name, body.pipe_id)
    return
  }
  const pipeId = pipeIds.get(step.name)
  if (pipeId === undefined) throw new Error(`the plan changes pipe ${step.name} before it makes it`)
  switch (step.kind) {
    case 'update-pipe':
      await client.call('updatePipe', { path: { pipe_id: pipeId }, body: step.fields })
      return
    case 'delete-pipe':
      await client.call('deletePipe', { path: { pipe_id: pipeId } })
      return
    case 'put-limits':
      await client.call('putLimits', { path: { pipe_id: pipeId }, body: step.limits })
      return
    case 'add-origin':
      await client.call('addAllowedOrigin', {
        path: { pipe_id: pipeId },
        body: { origin_domain: step.origin },
      })
      return
    case 'remove-origin':
      await client.call('removeAllowedOrigin', { path: { pipe_id: pipeId, origin_id: step.originId } })
      return
    case 'create-destination': {
      const { body } = await client.call('createDestination', {
        path: { pipe_id: pipeId },
        body: step.body,
        ...saving,
      })
      sayTransformCheck(body)
      if (step.status === 'blocked')
        await client.call('setDestinationStatus', {
          path: { pipe_id: pipeId, destination_id: body.destination_id },
          body: { destination_status: 'blocked' },
        })
      return
    }
    case 'update-destination': {
      const { body } = await client.call('updateDestination', {
        path: { pipe_id: pipeId, destination_id: step.destinationId },
        body: step.patch,
        ...saving,
      })
      sayTransformCheck(body)
      return
    }
    case 'set-status':
      await client.call('setDestinationStatus', {
        path: { pipe_id: pipeId, destination_id: step.destinationId },
        body: { destination_status: step.status },
      })
      return
    case 'delete-destination':
      await client.call('deleteDestination', {
        path: { pipe_id: pipeId, destination_id: step.destinationId },
      })
  }
}
