/**
 * Changes of what the user has seen. The daemon rejects a change if the resource has another version by now
 * (docs/dev/contract.md#concurrent-changes). The present state is then read: the user sees the differences and decides
 * again.
 */
import { type Difference, differences } from '../../client/differences.ts'
import { ApiFailure } from '../../client/failure.ts'

export interface Versioned<Stored> {
  stored: Stored
  etag: string | null
}

export interface Watched<Stored> {
  /** The part that concerns the change. Another part can change meanwhile without a conflict. */
  part: (stored: Stored) => object
  read: () => Promise<Versioned<Stored>>
}

/** Another user changed the watched part. Nothing was done. */
export class ChangedMeanwhile<Stored = unknown> extends Error {
  readonly changed: readonly Difference[]
  readonly present: Versioned<Stored>

  constructor(changed: readonly Difference[], present: Versioned<Stored>) {
    super('Another user changed this.')
    this.name = 'ChangedMeanwhile'
    this.changed = changed
    this.present = present
  }
}

/** `seen` has the state that the user knows, and the ETag to send. Throws ChangedMeanwhile. */
export async function ifUnchanged<Stored, Result>(
  seen: Versioned<Stored>,
  { part, read }: Watched<Stored>,
  change: (ifMatch: string | null) => Promise<Result>,
): Promise<Result> {
  try {
    return await change(seen.etag)
  } catch (error) {
    if (!(error instanceof ApiFailure) || error.status !== 412) throw error
    const present = await read()
    const changed = differences(part(seen.stored), part(present.stored))
    if (changed.length > 0) throw new ChangedMeanwhile(changed, present)
    return change(present.etag)
  }
}
