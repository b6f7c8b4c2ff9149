/**
 * The versions of the resources that a plan changes. A change is made only if no other client has changed the
 * resource since the plan (docs/dev/contract.md#concurrent-changes).
 */
import { changedMeanwhile, changedSettings, ifUnchanged } from '../../client/changed-meanwhile.ts'
import type { Client, PipeDetail, Reply } from '../../client/client.ts'
import { fullName } from '../../client/workspace.ts'
import type { Step } from './plan.ts'

interface Known {
  name: string
  etag: string | null
  /** The body of the GET, to describe a difference. */
  body: object
}

export class Versions {
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
