/** Executes the steps of a plan in order. Stops at the first error and reports the completed steps. */

import { changedMeanwhile, changedSettings, ifUnchanged } from '../../client/changed-meanwhile.ts'
import type { Client, PipeDetail, Reply, SaveOptions } from '../../client/client.ts'
import { Failure } from '../../client/failure.ts'
import { fullName } from '../../client/workspace.ts'
import { sayTransformCheck } from '../destinations/transform-options.ts'
import { say } from '../terminal.ts'
import type { Step } from './plan.ts'

interface Plan {
  steps: readonly Step[]
  existing: readonly PipeDetail[]
}

/**
 * `onDone` is called after each step. If the file is applied again after an error, the remaining steps are executed.
 */
export async function applySteps(
  client: Client,
  { steps, existing }: Plan,
  onDone: (step: Step) => void,
  saving: SaveOptions = {},
): Promise<void> {
  const versions = new Versions()
  await versions.read(client, steps, existing)
  const target = { client, versions, saving, pipeIds: idsByName(existing) }
  for (const [index, step] of steps.entries()) {
    try {
      await executeStep(target, step)
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

function idsByName(existing: readonly PipeDetail[]): Map<string, string> {
  return new Map(existing.map(({ pipe }) => [pipe.pipe_name, pipe.pipe_id]))
}

interface Target {
  client: Client
  versions: Versions
  saving: SaveOptions
  /** By name. Pipes that the plan creates are added. */
  pipeIds: Map<string, string>
}

async function executeStep(target: Target, step: Step): Promise<void> {
  const { client, versions, pipeIds } = target
  if (step.kind === 'create-pipe') {
    const { body } = await client.call('createPipe', { body: { pipe_name: step.name, ...step.fields } })
    pipeIds.set(step.name, body.pipe_id)
    sayToken(client, step.name, body.pipe_id, body.pipe_source_token)
    return
  }
  const pipe_id = pipeIds.get(step.name)
  if (pipe_id === undefined) throw new Error(`the plan changes pipe ${step.name} before it makes it`)
  const path = { pipe_id }
  switch (step.kind) {
    case 'update-pipe': {
      const { body } = await versions.change(pipe_id, (ifMatch) =>
        client.call('updatePipe', { path, body: step.fields, ifMatch }),
      )
      sayToken(client, step.name, pipe_id, body.pipe_source_token)
      return
    }
    case 'delete-pipe':
      await versions.change(pipe_id, (ifMatch) => client.call('deletePipe', { path, ifMatch }))
      return
    case 'put-limits':
      await versions.change(pipe_id, (ifMatch) =>
        client.call('putLimits', { path, body: step.limits, ifMatch }),
      )
      return
    case 'add-origin':
      await client.call('addAllowedOrigin', { path, body: { origin_domain: step.origin } })
      return
    case 'remove-origin':
      await client.call('removeAllowedOrigin', { path: { pipe_id, origin_id: step.originId } })
      return
    default:
      await executeOnDestination(target, pipe_id, step)
  }
}

/** The token of a secret URL is in no other response. */
function sayToken(client: Client, name: string, pipeId: string, token: string | undefined): void {
  if (token === undefined) return
  say(`Webhooks of pipe ${name} go to POST ${client.hookUrl(pipeId, token)} (the token is shown only now)`)
}

type OnDestination = Extract<Step, { kind: `${string}-destination` | 'set-status' }>

async function executeOnDestination(
  { client, versions, saving }: Target,
  pipe_id: string,
  step: OnDestination,
): Promise<void> {
  if (step.kind === 'create-destination') {
    const { body } = await client.call('createDestination', {
      path: { pipe_id },
      body: step.body,
      ...saving,
    })
    sayTransformCheck(body)
    if (step.status !== 'blocked') return
    await client.call('setDestinationStatus', {
      path: { pipe_id, destination_id: body.destination_id },
      body: { destination_status: 'blocked' },
    })
    return
  }
  const path = { pipe_id, destination_id: step.destinationId }
  switch (step.kind) {
    case 'update-destination': {
      const { body } = await versions.change(step.destinationId, (ifMatch) =>
        client.call('updateDestination', { path, body: step.patch, ...saving, ifMatch }),
      )
      sayTransformCheck(body)
      return
    }
    case 'set-status':
      await versions.change(step.destinationId, (ifMatch) =>
        client.call('setDestinationStatus', {
          path,
          body: { destination_status: step.status },
          ifMatch,
        }),
      )
      return
    case 'delete-destination':
      await versions.change(step.destinationId, (ifMatch) =>
        client.call('deleteDestination', { path, ifMatch }),
      )
  }
}

interface Known {
  name: string
  etag: string | null
  /** The body of the GET, to describe a difference. */
  body: object
}

/**
 * The versions of the resources that a plan changes. A change is made only if no other client has changed the
 * resource since the plan (docs/dev/contract.md#concurrent-changes).
 */
class Versions {
  readonly #known = new Map<string, Known>()

  /** Reads everything that the steps change. Throws Failure if it has changed since the plan. */
  async read(client: Client, steps: readonly Step[], existing: readonly PipeDetail[]): Promise<void> {
    for (const detail of existing) {
      const { pipe, destinations } = detail
      const own = steps.filter((step) => step.name === pipe.pipe_name)
      const path = { pipe_id: pipe.pipe_id }
      if (own.some((step) => pipeKinds.has(step.kind)))
        this.#add(pipe.pipe_id, `pipe ${pipe.pipe_name}`, detail, await client.call('getPipe', { path }))
      for (const destination of destinations) {
        const { destination_id } = destination
        if (!own.some((step) => 'destinationId' in step && step.destinationId === destination_id)) continue
        const now = await client.call('getDestination', { path: { ...path, destination_id } })
        this.#add(destination_id, fullName(pipe, destination), { destination }, now)
      }
    }
  }

  #add(id: string, name: string, planned: object, { etag, body }: Reply<object>): void {
    const found = changedSettings(planned, body)
    if (found.length > 0) throw changedMeanwhile(name, found)
    this.#known.set(id, { name, etag, body })
  }

  /** Changes a pipe or a destination, with the ETag of the last read or change. */
  async change<T extends object | null>(
    id: string,
    call: (ifMatch: string | null) => Promise<Reply<T>>,
  ): Promise<Reply<T>> {
    const known = this.#known.get(id)
    // An earlier step created it.
    if (known === undefined) return await call(null)
    const reply = await ifUnchanged(known.name, known.body, () => call(known.etag))
    this.#known.set(id, { ...known, etag: reply.etag, body: { ...known.body, ...reply.body } })
    return reply
  }
}

const pipeKinds: ReadonlySet<Step['kind']> = new Set(['update-pipe', 'put-limits', 'delete-pipe'])
